// SPDX-License-Identifier: Apache-2.0
/** What is done with webhooks, each in a dialog. */

import { Switch, TextArea } from "@patternfly/react-core";
import { useState } from "react";
import { api } from "../../api/client";
import type { ApiProblem } from "../../api/problem";
import { webhookQuery } from "../../api/queries";
import type { Webhook } from "../../api/types";
import { ChangeDialog } from "../../parts/change-dialog";
import { changedOf } from "../../parts/changed";
import { Choice } from "../../parts/choice";
import { describedBy, Field, TextField } from "../../parts/field";
import { useForm } from "../../parts/form";
import { useKnown, useKnownForm, type Fact } from "../../parts/known";
import type { Made } from "../../parts/secret";
import { text } from "../../text";

const words = text.system.webhooks;
const SEVERITIES = ["info", "warning", "critical"] as const;
const FIELDS = ["name", "url", "certificate"];

interface Props {
  readonly hook: Webhook;
  readonly onMade: (made: Made) => void;
  readonly onClose: () => void;
}

function pathOf(hook: Webhook) {
  return { path: { webhook_id: hook.id } };
}

/** The last letters of a certificate's signature: two have others, and all of it is nothing to read. */
function endOf(certificate: string): string {
  return certificate.replaceAll(/-----[A-Z ]+-----|\s/g, "").slice(-12);
}

/** What is told of a webhook that somebody has changed meanwhile. */
function factsOf({ name, url, severity, certificate, enabled }: Webhook): readonly Fact[] {
  return [
    [words.name, name],
    [words.url, url],
    [words.severityLabel, words.severity[severity]],
    [words.certificate, certificate == null ? text.common.none : words.certificateEnd(endOf(certificate))],
    [words.switchOn, enabled ? text.common.yes : text.common.no],
  ];
}

function useKnownHook(hook: Webhook) {
  return useKnown(hook, webhookQuery(hook.id), factsOf);
}

interface Wanted {
  readonly name: string;
  readonly url: string;
  readonly severity: Webhook["severity"];
}

interface FieldsProps {
  readonly wanted: Wanted;
  readonly change: (part: Partial<Wanted>) => void;
  readonly problem: ApiProblem | null;
}

function Fields({ wanted, change, problem }: FieldsProps) {
  return (
    <>
      <TextField
        id="webhook-name"
        label={words.name}
        value={wanted.name}
        onChange={(name) => change({ name })}
        problem={problem?.fields.get("name")}
        required
      />
      <TextField
        id="webhook-url"
        label={words.url}
        help={words.urlHelp}
        type="url"
        value={wanted.url}
        onChange={(url) => change({ url })}
        problem={problem?.fields.get("url")}
        required
      />
      <Field id="webhook-severity" label={words.severityLabel}>
        <Choice
          id="webhook-severity"
          label={words.severityLabel}
          value={wanted.severity}
          options={SEVERITIES.map((one) => [one, words.severity[one]])}
          onChange={(chosen) => change({ severity: SEVERITIES.find((one) => one === chosen) })}
        />
      </Field>
    </>
  );
}

export function CreateWebhook({ onMade, onClose }: Omit<Props, "hook">) {
  const [wanted, change] = useForm<Wanted>({ name: "", url: "", severity: "warning" });
  const [certificate, setCertificate] = useState("");
  const body = { ...wanted, certificate: certificate.trim() === "" ? null : certificate, enabled: true };
  return (
    <ChangeDialog
      title={words.createTitle}
      submit={words.createSubmit}
      ready={wanted.name !== "" && wanted.url !== ""}
      knownFields={FIELDS}
      asked={() => body}
      ask={(asked, headers) => api.POST("/api/v1/webhooks", { body: asked, headers })}
      changes={["webhooks"]}
      onDone={onMade}
      onClose={onClose}
    >
      {(problem) => (
        <>
          <Fields wanted={wanted} change={change} problem={problem} />
          <Field
            id="webhook-certificate"
            label={words.certificate}
            help={words.certificateHelp}
            problem={problem?.fields.get("certificate")}
          >
            <TextArea
              id="webhook-certificate"
              value={certificate}
              rows={3}
              spellCheck={false}
              aria-describedby={describedBy("webhook-certificate")}
              onChange={(_event, typed) => setCertificate(typed)}
            />
          </Field>
        </>
      )}
    </ChangeDialog>
  );
}

/** As the service takes it. */
function valuesOf({ name, url, severity, enabled }: Webhook): Wanted & { readonly enabled: boolean } {
  return { name, url, severity, enabled };
}

/** Sends what was changed only: what somebody else changed meanwhile stays. */
export function ChangeWebhook({ hook, onClose }: Props) {
  const { known, first, form, change } = useKnownForm(hook, webhookQuery(hook.id), factsOf, valuesOf);
  return (
    <ChangeDialog
      known={known}
      title={words.changeTitle(hook.name)}
      submit={words.changeSubmit}
      ready={form.name !== "" && form.url !== ""}
      knownFields={FIELDS}
      asked={() => changedOf(first, form)}
      ask={(asked, headers) => api.PATCH("/api/v1/webhooks/{webhook_id}", { params: pathOf(hook), body: asked, headers })}
      changes={["webhooks"]}
      done={words.changed(form.name)}
      onClose={onClose}
    >
      {(problem) => (
        <>
          <Fields wanted={form} change={change} problem={problem} />
          <Switch
            id="webhook-enabled"
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
      asked={() => null}
      ask={(_asked, headers) => api.POST("/api/v1/webhooks/{webhook_id}/secret", { params: pathOf(hook), headers })}
      changes={["webhooks"]}
      onDone={onMade}
      onClose={onClose}
    />
  );
}

export function DeleteWebhook({ hook, onClose }: Props) {
  const known = useKnownHook(hook);
  return (
    <ChangeDialog
      known={known}
      danger
      title={words.removeTitle(hook.name)}
      lead={words.removeLead}
      submit={words.removeSubmit}
      asked={() => null}
      ask={(_asked, headers) => api.DELETE("/api/v1/webhooks/{webhook_id}", { params: pathOf(hook), headers })}
      changes={["webhooks"]}
      done={words.removed(hook.name)}
      onClose={onClose}
    />
  );
}
