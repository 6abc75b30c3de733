// SPDX-License-Identifier: Apache-2.0
/** Reboot and shutdown of the server, with who uses it now. After a reboot the page comes back by itself. */

import { Button, Modal, ModalBody, ModalHeader, ModalVariant, Spinner } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { api } from "../../api/client";
import { powerQuery } from "../../api/queries";
import type { Power } from "../../api/types";
import { ChangeDialog } from "../../parts/change-dialog";
import { Facts } from "../../parts/facts";
import { TextField } from "../../parts/field";
import { Panel } from "../../parts/panel";
import { Alert } from "../../parts/patternfly";
import { QueryBoundary } from "../../parts/states";
import { text } from "../../text";

const words = text.maintenance.power;
const ASK_MS = 2_000;
/** A server with much memory takes minutes before it boots. */
const PATIENCE_MS = 15 * 60_000;

type Action = "reboot" | "off";

export function PowerPanel() {
  const query = useQuery(powerQuery);
  const [chosen, setChosen] = useState<Action | null>(null);
  const [begun, setBegun] = useState<Action | null>(null);
  return (
    <Panel title={words.title} lead={words.lead}>
      <QueryBoundary query={query} what={words.title} lines={4}>
        {(used) => <UsedBy used={used} />}
      </QueryBoundary>
      <div className="zv-buttons">
        <Button variant="secondary" onClick={() => setChosen("reboot")}>
          {words.reboot.action}
        </Button>
        <Button variant="secondary" isDanger onClick={() => setChosen("off")}>
          {words.off.action}
        </Button>
      </div>
      {chosen !== null && <ChangePower action={chosen} onClose={() => setChosen(null)} onDone={() => setBegun(chosen)} />}
      {begun !== null && <Gone action={begun} />}
    </Panel>
  );
}

function UsedBy({ used }: { readonly used: Power }) {
  const { listed, job } = text.common;
  const unknown = (server: string, names: readonly string[]) => (used.unknown.includes(server) ? words.unknown : listed(names));
  return (
    <Facts
      facts={[
        [words.iscsi, unknown("iSCSI target", used.iscsi_hosts)],
        [words.nfs, unknown("NFS server", used.nfs_clients)],
        [words.users, listed(used.console_users)],
        [words.jobs, listed(used.jobs.map(({ kind, name }) => `${job.kind[kind] ?? kind}: ${name}`))],
      ]}
    />
  );
}

interface ChangeProps {
  readonly action: Action;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

function ChangePower({ action, onClose, onDone }: ChangeProps) {
  const { data: used } = useQuery(powerQuery);
  const [password, setPassword] = useState("");
  const said = words[action];
  return (
    <ChangeDialog
      title={said.title}
      lead={said.lead}
      submit={said.action}
      danger
      changes={[]}
      ready={password !== ""}
      knownFields={["password"]}
      onClose={onClose}
      onDone={onDone}
      body={() => ({ action, password })}
      ask={(body, headers) => api.POST("/api/v1/power", { body, headers })}
    >
      {(problem) => (
        <>
          {used !== undefined && <UsedBy used={used} />}
          {used !== undefined && used.warning !== "" && <Alert variant="danger" isInline component="p" title={used.warning} />}
          <TextField
            id="power-password"
            label={words.password}
            type="password"
            autoComplete="current-password"
            value={password}
            onChange={setPassword}
            problem={problem?.fields.get("password")}
            required
          />
        </>
      )}
    </ChangeDialog>
  );
}

/** Covers the page until the server has gone and answers again. Then it opens the console. */
function Gone({ action }: { readonly action: Action }) {
  const [late, setLate] = useState(false);
  useEffect(() => {
    let gone = false;
    const ask = async () => {
      const { response } = await api.GET("/api/v1/health/ready").catch(() => ({ response: undefined }));
      if (response?.ok !== true) gone = true;
      else if (gone) window.location.assign("/");
    };
    const asking = window.setInterval(() => void ask(), ASK_MS);
    const waiting = window.setTimeout(() => setLate(true), PATIENCE_MS);
    return () => {
      window.clearInterval(asking);
      window.clearTimeout(waiting);
    };
  }, []);
  const said = words[action];
  return (
    <Modal isOpen variant={ModalVariant.small} aria-labelledby="power-gone" onEscapePress={() => undefined}>
      <ModalHeader title={said.begun} labelId="power-gone" />
      <ModalBody tabIndex={0} aria-label={said.begun}>
        <div role="status">
          <p>
            {action === "reboot" && !late && <Spinner size="md" aria-label={said.begun} />} {said.begunLead}
          </p>
          {action === "reboot" && late && <Alert variant="warning" isInline component="p" title={words.late} />}
        </div>
      </ModalBody>
    </Modal>
  );
}
