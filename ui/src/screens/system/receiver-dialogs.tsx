// SPDX-License-Identifier: Apache-2.0
/** Dialogs for receivers of alerts: webhooks and e-mail. */

import { Switch } from "@patternfly/react-core";
import { useState } from "react";
import { api } from "../../api/client";
import type { ApiProblem } from "../../api/problem";
import { receiverQuery } from "../../api/queries";
import type { Receiver, ReceiverSecret } from "../../api/types";
import { formatCertificate } from "../../format/certificate";
import { ChangeDialog } from "../../parts/change-dialog";
import { changedOf } from "../../parts/changed";
import { Choice } from "../../parts/choice";
import { Field, LinesField, TextField } from "../../parts/field";
import { useForm } from "../../parts/form";
import { useKnown, useKnownForm, type Fact } from "../../parts/known";
import { entriesOf } from "../hosts/paths";
import { text } from "../../text";

const words = text.system.receivers;
const SEVERITIES = ["info", "warning", "critical"] as const;
const FIELDS = ["name", "url", "certificate", "sender", "recipients", "user", "password"];

interface Props {
  readonly hook: Receiver;
  readonly onMade: (made: ReceiverSecret) => void;
  readonly onClose: () => void;
}

function pathOf(hook: Receiver) {
  return { path: { receiver_id: hook.id } };
}

/** Facts of a receiver that changed while the dialog was open. */
function factsOf({ name, url, kind, severity, certificate, enabled, ...mail }: Receiver): readonly Fact[] {
  return [
    [words.name, name],
    [words.url, url],
    [words.severityLabel, words.severity[severity]],
    [words.certificate, formatCertificate(certificate)],
    [words.switchOn, enabled ? text.common.yes : text.common.no],
    ...(kind === "email"
      ? ([
          [words.sender, mail.sender],
          [words.recipients, mail.recipients.join(", ")],
          [words.user, mail.user ?? text.common.unset],
        ] as const)
      : []),
  ];
}

function useKnownHook(hook: Receiver) {
  return useKnown(hook, receiverQuery(hook.id), factsOf);
}

interface FormValues {
  readonly name: string;
  readonly url: string;
  readonly severity: Receiver["severity"];
}

interface FieldsProps {
  readonly values: FormValues;
  readonly change: (part: Partial<FormValues>) => void;
  readonly problem: ApiProblem | null;
}

function Fields({ values, change, problem }: FieldsProps) {
  return (
    <>
      <TextField
        id="receiver-name"
        label={words.name}
        value={values.name}
        onChange={(name) => change({ name })}
        problem={problem?.fields.get("name")}
        required
      />
      <TextField
        id="receiver-url"
        label={words.url}
        help={words.urlHelp}
        type="url"
        value={values.url}
        onChange={(url) => change({ url })}
        problem={problem?.fields.get("url")}
        required
      />
      <Field id="receiver-severity" label={words.severityLabel}>
        <Choice
          id="receiver-severity"
          label={words.severityLabel}
          value={values.severity}
          options={SEVERITIES.map((severity) => [severity, words.severity[severity]])}
          onChange={(chosen) => change({ severity: SEVERITIES.find((severity) => severity === chosen) })}
        />
      </Field>
    </>
  );
}

interface Mail {
  readonly sender: string;
  readonly recipients: string;
  readonly user: string;
  readonly password: string;
}

/** Fields of e-mail; empty for other receivers. */
function mailOf({ sender, recipients, user, password }: Mail, url: string) {
  if (!url.startsWith("smtp")) return {};
  const login = user === "" ? {} : { user, password };
  return { sender, recipients: entriesOf(recipients), ...login };
}

export function CreateReceiver({ onMade, onClose }: Omit<Props, "hook">) {
  const [values, change] = useForm<FormValues>({ name: "", url: "", severity: "warning" });
  const [mail, changeMail] = useForm<Mail>({ sender: "", recipients: "", user: "", password: "" });
  const [certificate, setCertificate] = useState("");
  const given = { certificate: certificate.trim() === "" ? null : certificate, enabled: true };
  const body = { ...values, ...given, ...mailOf(mail, values.url) };
  return (
    <ChangeDialog
      title={words.createTitle}
      submit={words.createSubmit}
      ready={values.name !== "" && values.url !== ""}
      knownFields={FIELDS}
      body={() => body}
      ask={(body, headers) => api.POST("/api/v1/receivers", { body, headers })}
      changes={["receivers"]}
      onDone={onMade}
      onClose={onClose}
    >
      {(problem) => (
        <>
          <Fields values={values} change={change} problem={problem} />
          {values.url.startsWith("smtp") && <MailFields mail={mail} change={changeMail} problem={problem} />}
          <CertificateField value={certificate} onChange={setCertificate} problem={problem} />
        </>
      )}
    </ChangeDialog>
  );
}

interface CertificateProps {
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly problem: ApiProblem | null;
}

function CertificateField({ value, onChange, problem }: CertificateProps) {
  return (
    <LinesField
      id="receiver-certificate"
      label={words.certificate}
      help={words.certificateHelp}
      value={value}
      onChange={onChange}
      problem={problem?.fields.get("certificate")}
    />
  );
}

interface MailFieldsProps {
  /** Whether the receiver has a login: an empty password keeps it. */
  readonly known?: boolean;
  readonly mail: Mail;
  readonly change: (part: Partial<Mail>) => void;
  readonly problem: ApiProblem | null;
}

function MailFields({ known = false, mail, change, problem }: MailFieldsProps) {
  return (
    <>
      <TextField
        id="receiver-sender"
        label={words.sender}
        value={mail.sender}
        onChange={(sender) => change({ sender })}
        problem={problem?.fields.get("sender")}
        required
      />
      <LinesField
        id="receiver-recipients"
        label={words.recipients}
        help={words.recipientsHelp}
        value={mail.recipients}
        onChange={(recipients) => change({ recipients })}
        problem={problem?.fields.get("recipients")}
        required
      />
      <TextField
        id="receiver-user"
        label={words.user}
        help={words.userHelp}
        value={mail.user}
        onChange={(user) => change({ user })}
        problem={problem?.fields.get("user")}
      />
      <TextField
        id="receiver-password"
        label={words.password}
        help={known ? words.emptyPassword : undefined}
        type="password"
        autoComplete="new-password"
        value={mail.password}
        onChange={(password) => change({ password })}
        problem={problem?.fields.get("password")}
      />
    </>
  );
}

type ChangeForm = FormValues & Mail & { readonly enabled: boolean; readonly certificate: string };

function formOf({ name, url, severity, enabled, certificate, sender, recipients, user }: Receiver): ChangeForm {
  const mail = { sender, recipients: recipients.join("\n"), user: user ?? "", password: "" };
  return { name, url, severity, enabled, certificate: certificate ?? "", ...mail };
}

const orNull = (typed: string) => (typed.trim() === "" ? null : typed);

/** The request's body. */
function valuesOf({ certificate, recipients, user, password, ...form }: ChangeForm) {
  const login = { user: orNull(user), ...(password === "" ? {} : { password }) };
  return { ...form, ...login, certificate: orNull(certificate), recipients: entriesOf(recipients) };
}

/** Sends changed fields only, so that meanwhile changes by others to other fields persist. */
export function ChangeReceiver({ hook, onClose }: Props) {
  const { known, first, form, change } = useKnownForm(hook, receiverQuery(hook.id), factsOf, formOf);
  return (
    <ChangeDialog
      known={known}
      title={words.changeTitle(hook.name)}
      submit={words.changeSubmit}
      ready={form.name !== "" && form.url !== ""}
      knownFields={FIELDS}
      body={() => changedOf(valuesOf(first), valuesOf(form))}
      ask={(body, headers) => api.PATCH("/api/v1/receivers/{receiver_id}", { params: pathOf(hook), body, headers })}
      changes={["receivers"]}
      done={words.changed(form.name)}
      onClose={onClose}
    >
      {(problem) => (
        <>
          <Fields values={form} change={change} problem={problem} />
          {hook.kind === "email" && <MailFields known={hook.user !== null} mail={form} change={change} problem={problem} />}
          <CertificateField value={form.certificate} onChange={(certificate) => change({ certificate })} problem={problem} />
          <Switch
            id="receiver-enabled"
            label={words.switchOn}
            isChecked={form.enabled}
            onChange={(_event, checked) => change({ enabled: checked })}
          />
        </>
      )}
    </ChangeDialog>
  );
}

export function RenewSecret({ hook, onMade, onClose }: Props) {
  const known = useKnownHook(hook);
  return (
    <ChangeDialog
      known={known}
      danger
      title={words.renewTitle(hook.name)}
      lead={words.renewLead}
      submit={words.renewSubmit}
      body={() => null}
      ask={(_body, headers) => api.POST("/api/v1/receivers/{receiver_id}/secret", { params: pathOf(hook), headers })}
      changes={["receivers"]}
      onDone={onMade}
      onClose={onClose}
    />
  );
}

export function DeleteReceiver({ hook, onClose }: Props) {
  const known = useKnownHook(hook);
  return (
    <ChangeDialog
      known={known}
      danger
      title={words.removeTitle(hook.name)}
      lead={words.removeLead}
      submit={words.removeSubmit}
      body={() => null}
      ask={(_body, headers) => api.DELETE("/api/v1/receivers/{receiver_id}", { params: pathOf(hook), headers })}
      changes={["receivers"]}
      done={words.removed(hook.name)}
      onClose={onClose}
    />
  );
}
