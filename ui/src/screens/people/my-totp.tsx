// SPDX-License-Identifier: Apache-2.0
/** Two-factor login of the user: turned on with the code of an app, turned off with the password. */

import { Button, Modal, ModalBody, ModalFooter, ModalHeader, ModalVariant } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api } from "../../api/client";
import { asProblem } from "../../api/problem";
import { totpQuery } from "../../api/queries";
import type { Totp } from "../../api/types";
import { ChangeDialog } from "../../parts/change-dialog";
import { CopyLines } from "../../parts/copy-lines";
import { TextField } from "../../parts/field";
import { Modal as ClosedByX } from "../../parts/patternfly";
import { ProblemAlert } from "../../parts/problem-alert";
import { QrCode } from "../../parts/qr-code";
import { text } from "../../text";

const words = text.people.totp;

interface Closed {
  readonly onClose: () => void;
}

interface Coded extends Closed {
  readonly onCodes: (codes: readonly string[]) => void;
}

/** `codes`: new recovery codes. */
export default function MyTotp({ codes, onCodes, onClose }: Coded & { readonly codes: readonly string[] | null }) {
  const { data: totp, error } = useQuery(totpQuery);
  if (codes !== null) return <RecoveryCodes codes={codes} onClose={onClose} />;
  if (totp === undefined) return error && <Failed error={error} onClose={onClose} />;
  return totp.enabled ? <TurnOff totp={totp} onClose={onClose} /> : <TurnOn totp={totp} onCodes={onCodes} onClose={onClose} />;
}

function Failed({ error, onClose }: Closed & { readonly error: Error }) {
  return (
    <ClosedByX isOpen variant={ModalVariant.small} aria-labelledby="totp-failed" onClose={onClose}>
      <ModalHeader title={text.common.user.totp} labelId="totp-failed" />
      <ModalBody>
        <ProblemAlert problem={asProblem(error)} reading />
      </ModalBody>
    </ClosedByX>
  );
}

function TurnOn({ totp, onCodes, onClose }: Coded & { readonly totp: Totp }) {
  // The first secret stays, because it may have been scanned; later responses have others.
  const [{ secret, uri }] = useState(totp);
  const [password, setPassword] = useState("");
  const [code, setCode] = useState("");
  const body = { password, secret, code };
  return (
    <ChangeDialog
      title={words.onTitle}
      lead={words.onLead}
      submit={words.onSubmit}
      ready={password !== "" && code !== ""}
      knownFields={["password", "code"]}
      body={() => body}
      ask={(body, headers) => api.PUT("/api/v1/session/totp", { body, headers })}
      changes={["totp", "users"]}
      done={words.isOn}
      onDone={({ recovery_codes: codes }) => onCodes(codes)}
      onClose={onClose}
    >
      {(problem) => (
        <>
          <QrCode content={uri} label={words.qr} />
          <CopyLines lines={[secret]} label={words.copySecret} />
          <TextField
            id="totp-code"
            label={words.code}
            help={words.codeHelp}
            value={code}
            onChange={setCode}
            problem={problem?.at("code")}
            autoComplete="one-time-code"
            required
          />
          <MyPassword password={password} problem={problem?.at("password")} onChange={setPassword} />
        </>
      )}
    </ChangeDialog>
  );
}

function TurnOff({ totp, onClose }: Closed & { readonly totp: Totp }) {
  const [password, setPassword] = useState("");
  return (
    <ChangeDialog
      danger
      title={words.offTitle}
      lead={words.offLead(totp.recovery_codes_left)}
      submit={words.offSubmit}
      ready={password !== ""}
      knownFields={["password"]}
      body={() => ({ password })}
      ask={(body, headers) => api.PUT("/api/v1/session/totp", { body, headers })}
      changes={["totp", "users"]}
      done={words.isOff}
      onClose={onClose}
    >
      {(problem) => <MyPassword password={password} problem={problem?.at("password")} onChange={setPassword} />}
    </ChangeDialog>
  );
}

interface PasswordProps {
  readonly password: string;
  readonly problem: string | undefined;
  readonly onChange: (password: string) => void;
}

function MyPassword({ password, problem, onChange }: PasswordProps) {
  return (
    <TextField
      id="totp-password"
      label={words.password}
      type="password"
      value={password}
      onChange={onChange}
      problem={problem}
      autoComplete="current-password"
      required
    />
  );
}

function RecoveryCodes({ codes, onClose }: Closed & { readonly codes: readonly string[] }) {
  return (
    <Modal isOpen variant={ModalVariant.small} aria-labelledby="recovery-codes">
      <ModalHeader title={words.codesTitle} labelId="recovery-codes" />
      <ModalBody>
        <p className="zv-lead">{words.codesLead}</p>
        <CopyLines lines={codes} label={text.common.copy} />
      </ModalBody>
      <ModalFooter>
        <Button onClick={onClose}>{words.codesDone}</Button>
      </ModalFooter>
    </Modal>
  );
}
