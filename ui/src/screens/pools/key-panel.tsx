// SPDX-License-Identifier: Apache-2.0
/** The key of a pool's encrypted datastores: whether it is loaded, stored, exported, and confirmed. */

import { Button, Modal, ModalBody, ModalFooter, ModalHeader, ModalVariant } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api } from "../../api/client";
import { asProblem } from "../../api/problem";
import { keyQuery, keysQuery } from "../../api/queries";
import type { Key, KeySecret } from "../../api/types";
import { ChangeDialog } from "../../parts/change-dialog";
import { CopyLines } from "../../parts/copy-lines";
import { Facts } from "../../parts/facts";
import { TextField } from "../../parts/field";
import { useKnown } from "../../parts/known";
import { Panel } from "../../parts/panel";
import { Alert } from "../../parts/patternfly";
import { ProblemAlert } from "../../parts/problem-alert";
import { Time } from "../../parts/values";
import { May } from "../../session/session";
import { text } from "../../text";
import { factsOf } from "./key-facts";

const words = text.pools;
const facts = words.detail.key;
const CHANGES = ["encryption-keys", "datastores", "readiness"];

/** Empty for a pool without encrypted datastores; if that is unknown, the problem. */
export function KeyPanel({ pool }: { readonly pool: string }) {
  const { data: keys, error, refetch } = useQuery(keysQuery);
  const poolKey = keys?.find((candidate) => candidate.pool === pool);
  if (poolKey !== undefined) return <KeyFacts poolKey={poolKey} />;
  if (keys !== undefined || error === null) return null;
  return (
    <Panel title={words.detail.encryption}>
      <ProblemAlert problem={asProblem(error)} reading onRetry={() => void refetch()} />
    </Panel>
  );
}

function KeyFacts({ poolKey }: { readonly poolKey: Key }) {
  const [chosen, setChosen] = useState<"export" | "confirm" | "keep" | null>(null);
  // Shown but not stored: closing the dialog discards it.
  const [secret, setSecret] = useState<string | null>(null);
  const onClose = () => setChosen(null);
  const open = poolKey.stored && poolKey.confirmed_at == null;
  return (
    <Panel title={words.detail.encryption} lead={words.detail.encryptionLead}>
      <Facts
        facts={[
          [facts.dataset, <code key="dataset">{poolKey.dataset}</code>],
          [facts.algorithm, poolKey.algorithm],
          [facts.status, poolKey.key_status === "available" ? facts.available : facts.unavailable],
          [facts.stored, poolKey.stored ? text.common.yes : text.common.no],
          [facts.exported, poolKey.exported_at == null ? facts.notExported : <Time key="exported" at={poolKey.exported_at} />],
          [
            facts.confirmed,
            poolKey.confirmed_at == null ? facts.notConfirmed : <Time key="confirmed" at={poolKey.confirmed_at} />,
          ],
        ]}
      />
      {open && <Alert variant="warning" isInline isPlain component="p" title={facts.missing} className="zv-below" />}
      <May least="admin">
        <div className="zv-buttons">
          {open && (
            <>
              <Button variant="secondary" onClick={() => setChosen("export")}>
                {words.exportKey.action}
              </Button>
              <Button variant="secondary" onClick={() => setChosen("confirm")}>
                {words.confirmKey.action}
              </Button>
            </>
          )}
          {!poolKey.stored && <Button onClick={() => setChosen("keep")}>{words.keepKey.action}</Button>}
        </div>
      </May>
      {chosen === "export" && (
        <ExportKey poolKey={poolKey} onClose={onClose} onDone={(answer: KeySecret) => setSecret(answer.secret)} />
      )}
      {(chosen === "confirm" || chosen === "keep") && <EnterKey action={chosen} poolKey={poolKey} onClose={onClose} />}
      {secret !== null && <ExportedKey pool={poolKey.pool} secret={secret} onClose={() => setSecret(null)} />}
    </Panel>
  );
}

interface ExportProps {
  readonly poolKey: Key;
  readonly onClose: () => void;
  readonly onDone: (answer: KeySecret) => void;
}

function ExportKey({ poolKey, onClose, onDone }: ExportProps) {
  const [password, setPassword] = useState("");
  return (
    <ChangeDialog
      title={words.exportKey.title(poolKey.pool)}
      lead={words.exportKey.lead}
      submit={words.exportKey.submit}
      done={words.exportKey.done}
      danger
      changes={CHANGES}
      ready={password !== ""}
      knownFields={["password"]}
      onClose={onClose}
      onDone={onDone}
      body={() => ({ password })}
      ask={(body, headers) =>
        api.POST("/api/v1/encryption-keys/{pool}/export", { params: { path: { pool: poolKey.pool } }, body, headers })
      }
    >
      {(problem) => (
        <TextField
          id="export-password"
          label={words.exportKey.password}
          type="password"
          autoComplete="current-password"
          value={password}
          onChange={setPassword}
          problem={problem?.fields.get("password")}
          required
        />
      )}
    </ChangeDialog>
  );
}

interface ExportedKeyProps {
  readonly pool: string;
  readonly secret: string;
  readonly onClose: () => void;
}

/** Only its button closes it: a key closed by mistake would be lost. */
function ExportedKey({ pool, secret, onClose }: ExportedKeyProps) {
  return (
    <Modal isOpen variant={ModalVariant.small} aria-labelledby="exported-key" onEscapePress={() => undefined}>
      <ModalHeader title={words.exportKey.shownTitle(pool)} labelId="exported-key" titleIconVariant="warning" />
      <ModalBody>
        <p>{words.exportKey.copyLead}</p>
        <div className="zv-below">
          <CopyLines lines={[secret]} label={words.exportKey.copy} />
        </div>
      </ModalBody>
      <ModalFooter>
        <Button onClick={onClose}>{words.exportKey.close}</Button>
      </ModalFooter>
    </Modal>
  );
}

interface EnterProps {
  readonly action: "confirm" | "keep";
  readonly poolKey: Key;
  readonly onClose: () => void;
}

/** The typed key. */
function EnterKey({ action, poolKey, onClose }: EnterProps) {
  const said = action === "confirm" ? words.confirmKey : words.keepKey;
  const params = { path: { pool: poolKey.pool } };
  const [secret, setSecret] = useState("");
  const known = useKnown(poolKey, keyQuery(poolKey.pool), factsOf);
  return (
    <ChangeDialog
      known={known}
      title={said.title(poolKey.pool)}
      lead={said.lead}
      submit={said.submit}
      done={said.done}
      ready={secret !== ""}
      knownFields={["secret"]}
      changes={CHANGES}
      onClose={onClose}
      body={() => ({ secret: secret.trim() })}
      ask={(body, headers) =>
        action === "confirm"
          ? api.POST("/api/v1/encryption-keys/{pool}/confirm", { params, body, headers })
          : api.PUT("/api/v1/encryption-keys/{pool}", { params, body, headers })
      }
    >
      {(problem) => (
        <TextField
          id="key-secret"
          label={words.keepKey.secret}
          help={words.keepKey.secretHelp}
          value={secret}
          onChange={setSecret}
          problem={problem?.at("secret")}
          required
        />
      )}
    </ChangeDialog>
  );
}
