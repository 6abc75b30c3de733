// SPDX-License-Identifier: Apache-2.0
/** Backup and restore of the configuration, and its recovery key. */

import { Button, FileUpload } from "@patternfly/react-core";
import { useRef, useState } from "react";
import { api, idempotent, unwrap } from "../../api/client";
import { ChangeDialog } from "../../parts/change-dialog";
import { download } from "../../parts/download";
import { SendDialog } from "../../parts/dialog";
import { describedBy, Field, TextField } from "../../parts/field";
import { Panel } from "../../parts/panel";
import { SecretDialog } from "../../parts/secret";
import { useSubmission } from "../../parts/use-submission";
import { text } from "../../text";
import { Changes, usePreview } from "./preview";

const words = text.system.configuration;
const LARGEST = 1_000_000;

export function Configuration() {
  const [open, setOpen] = useState<"backUp" | "restore" | "renewKey" | null>(null);
  const [key, setKey] = useState<string | null>(null);
  const close = () => setOpen(null);
  return (
    <Panel title={words.title} lead={words.lead}>
      <div className="zv-buttons">
        <Button variant="secondary" onClick={() => setOpen("backUp")}>
          {words.backUp}
        </Button>
        <Button variant="secondary" onClick={() => setOpen("restore")}>
          {words.restore}
        </Button>
        <Button variant="secondary" onClick={() => setOpen("renewKey")}>
          {words.renewKey.action}
        </Button>
      </div>
      {open === "backUp" && <BackUp onClose={close} />}
      {open === "restore" && <Restore onClose={close} />}
      {open === "renewKey" && <RenewRecoveryKey onMade={setKey} onClose={close} />}
      {key !== null && (
        <SecretDialog made={{ name: words.recoveryKey, secret: key }} words={words.renewKey} onClose={() => setKey(null)} />
      )}
    </Panel>
  );
}

interface RenewProps {
  /** Gets the new key, which is shown once. */
  readonly onMade: (key: string) => void;
  readonly onClose: () => void;
}

function RenewRecoveryKey({ onMade, onClose }: RenewProps) {
  return (
    <ChangeDialog
      title={words.renewKey.title}
      lead={words.renewKey.lead}
      submit={words.renewKey.submit}
      body={() => null}
      ask={(_body, headers) => api.POST("/api/v1/configuration/recovery-key", { headers })}
      changes={["recovery", "audit"]}
      onDone={({ secret }) => onMade(secret)}
      onClose={onClose}
    />
  );
}

function BackUp({ onClose }: { readonly onClose: () => void }) {
  const [password, setPassword] = useState("");
  return (
    <ChangeDialog
      title={words.backUpTitle}
      lead={words.backUpLead}
      submit={words.backUpSubmit}
      ready={password !== ""}
      knownFields={["password"]}
      body={() => ({ password })}
      ask={(body, headers) => api.POST("/api/v1/configuration/backup", { body, headers })}
      changes={["audit"]}
      done={words.made}
      onDone={(backup) => download(JSON.stringify(backup), "application/json", words.file(new Date().toISOString().slice(0, 10)))}
      onClose={onClose}
    >
      {(problem) => (
        <TextField
          id="backup-password"
          label={words.password}
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

interface Body {
  readonly file: string;
  readonly recovery_key?: string;
  readonly dry_run: boolean;
  readonly force: boolean;
}

function Restore({ onClose }: { readonly onClose: () => void }) {
  const [file, setFile] = useState<File | null>(null);
  const [backup, setBackup] = useState("");
  const [key, setKey] = useState("");
  const reading = useRef<File | null>(null);
  const { send, pending, problem, forget } = useSubmission((body: Body, id: string) =>
    unwrap(api.POST("/api/v1/recovery", { body, headers: idempotent(id) })),
  );

  const values = { file: backup, ...(key === "" ? {} : { recovery_key: key }) };
  const request = JSON.stringify(values);
  const { changes, take, discard } = usePreview(request, words.restored, onClose);
  const isDryRun = changes === null;

  function start(): void {
    discard();
    forget();
  }

  async function choose(chosen: File | null): Promise<void> {
    start();
    reading.current = chosen;
    setFile(chosen);
    setBackup("");
    const content = chosen !== null && chosen.size <= LARGEST ? await chosen.text() : "";
    // A file that was read slowly must not replace a file that was chosen later.
    if (reading.current === chosen) setBackup(content);
  }

  const tooLarge = file !== null && file.size > LARGEST ? words.tooLarge : undefined;
  return (
    <SendDialog
      title={words.restoreTitle}
      lead={words.restoreLead}
      submit={isDryRun ? words.preview : words.restoreSubmit}
      danger={!isDryRun}
      ready={backup !== "" && changes?.length !== 0}
      pending={pending}
      problem={problem}
      knownFields={["file", "recovery_key"]}
      body={request}
      onSubmit={(force) => void take(send({ ...values, dry_run: isDryRun, force }), isDryRun)}
      onClose={onClose}
    >
      <Field
        id="backup-filename"
        label={words.chooseFile}
        help={words.noFile}
        problem={tooLarge ?? problem?.fields.get("file")}
        required
      >
        <FileUpload
          id="backup"
          filename={file?.name ?? ""}
          filenameAriaLabel={words.chooseFile}
          filenamePlaceholder={words.drop}
          hideDefaultPreview
          browseButtonText={text.common.browse}
          clearButtonText={text.common.clear}
          browseButtonAriaDescribedby={describedBy("backup-filename")}
          onFileInputChange={(_event, chosen) => void choose(chosen)}
          onClearClick={() => void choose(null)}
        />
      </Field>
      <TextField
        id="recovery-key"
        label={words.recoveryKey}
        help={words.recoveryKeyHelp}
        type="password"
        autoComplete="off"
        value={key}
        onChange={(typed) => {
          start();
          setKey(typed);
        }}
        problem={problem?.fields.get("recovery_key")}
      />
      {changes !== null && <Changes changes={changes} />}
    </SendDialog>
  );
}
