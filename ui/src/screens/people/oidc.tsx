// SPDX-License-Identifier: Apache-2.0
/** Logins at an OpenID Connect provider: settings, a test. */

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api } from "../../api/client";
import { oidcQuery } from "../../api/queries";
import type { Oidc as Settings } from "../../api/types";
import { formatCertificate } from "../../format/certificate";
import { ChangeDialog } from "../../parts/change-dialog";
import { LinesField, TextField } from "../../parts/field";
import { useKnown, useKnownForm, type Fact } from "../../parts/known";
import { useToast } from "../../shell/toasts";
import { text } from "../../text";
import { linesOf, LoginPanel, RoleFields, ROLES, rolesBody, rolesFacts, rolesForm, type DialogProps } from "./login-fields";

const words = text.people.oidc;
const CHANGES = ["oidc", "users", "logins"];
const DIALOGS = { set: SetOidc, test: TestOidc, unset: UnsetOidc } as const;

type Props = DialogProps<Settings>;

function factsOf(settings: Settings): readonly Fact[] {
  return [
    [words.name, settings.name ?? ""],
    [words.issuer, settings.issuer ?? ""],
    [words.clientId, settings.client_id ?? ""],
    [words.claim, settings.claim ?? ""],
    [words.external, settings.external_url ?? text.common.none],
    [words.scopes, (settings.scopes ?? []).join(", ") || text.common.none],
    [words.certificate, formatCertificate(settings.certificate)],
    ...rolesFacts(settings, words.groups),
  ];
}

export function Oidc() {
  return (
    <LoginPanel
      words={words}
      query={useQuery(oidcQuery)}
      isSet={(settings) => Boolean(settings.issuer)}
      factsOf={factsOf}
      dialogs={DIALOGS}
    />
  );
}

const TEXTS = ["name", "issuer", "client_id", "claim", "external_url"] as const;
const FIELDS: Record<(typeof TEXTS)[number], readonly [label: string, help?: string]> = {
  name: [words.name, words.nameHelp],
  issuer: [words.issuer, words.issuerHelp],
  client_id: [words.clientId],
  claim: [words.claim, words.claimHelp],
  external_url: [words.external, words.externalHelp],
};

function formOf(settings: Settings) {
  return {
    name: settings.name ?? "",
    issuer: settings.issuer ?? "",
    client_id: settings.client_id ?? "",
    claim: settings.claim ?? "",
    external_url: settings.external_url ?? "",
    scopes: (settings.scopes ?? []).join("\n"),
    certificate: settings.certificate ?? "",
    ...rolesForm(settings),
  };
}

function SetOidc({ settings, onClose }: Props) {
  const { known, form, change } = useKnownForm(settings, oidcQuery, factsOf, formOf);
  const [secret, setSecret] = useState("");
  const { certificate, external_url, ...rest } = form;
  const body = {
    ...rest,
    ...rolesBody(form),
    scopes: linesOf(form.scopes),
    ...(certificate.trim() === "" ? {} : { certificate }),
    ...(external_url === "" ? {} : { external_url }),
    ...(secret === "" ? {} : { secret }),
  };
  return (
    <ChangeDialog
      known={known}
      title={words.setTitle}
      lead={words.setLead(`${form.external_url || window.location.origin}/login/oidc`)}
      submit={words.setSubmit}
      ready={form.name !== "" && form.issuer !== "" && form.client_id !== "" && form.claim !== ""}
      knownFields={[...TEXTS, ...ROLES, "certificate", "scopes", "secret"]}
      body={() => body}
      ask={(body, headers) => api.PUT("/api/v1/settings/oidc", { body, headers })}
      changes={CHANGES}
      done={words.changed}
      onClose={onClose}
    >
      {(problem) => (
        <>
          {TEXTS.map((name) => (
            <TextField
              key={name}
              id={`oidc-${name}`}
              label={FIELDS[name][0]}
              help={FIELDS[name][1]}
              value={form[name]}
              onChange={(typed) => change({ [name]: typed })}
              problem={problem?.at(name)}
              required={name !== "external_url"}
            />
          ))}
          <TextField
            id="oidc-secret"
            label={words.secret}
            help={settings.issuer ? words.secretHelp : undefined}
            type="password"
            autoComplete="new-password"
            value={secret}
            onChange={setSecret}
            problem={problem?.at("secret")}
          />
          <RoleFields id="oidc" names={words.groups} help={words.groupsHelp} form={form} change={change} problem={problem} />
          <LinesField
            id="oidc-scopes"
            label={words.scopes}
            help={words.scopesHelp}
            value={form.scopes}
            onChange={(scopes) => change({ scopes })}
            problem={problem?.at("scopes")}
          />
          <LinesField
            id="oidc-certificate"
            label={words.certificate}
            help={text.people.certificateHelp}
            value={form.certificate}
            onChange={(certificate) => change({ certificate })}
            problem={problem?.at("certificate")}
          />
        </>
      )}
    </ChangeDialog>
  );
}

function TestOidc({ onClose }: Props) {
  const notify = useToast();
  return (
    <ChangeDialog
      title={words.testTitle}
      lead={words.testLead}
      submit={words.testSubmit}
      body={() => null}
      ask={(_body, headers) => api.POST("/api/v1/settings/oidc/test", { headers })}
      changes={[]}
      onDone={({ problem }) =>
        problem == null
          ? notify({ variant: "success", title: words.testDone })
          : notify({ variant: "danger", title: words.testFailed, body: problem })
      }
      onClose={onClose}
    />
  );
}

function UnsetOidc({ settings, onClose }: Props) {
  const known = useKnown(settings, oidcQuery, factsOf);
  return (
    <ChangeDialog
      known={known}
      danger
      title={words.unsetTitle}
      lead={words.unsetLead}
      submit={words.unsetSubmit}
      body={() => null}
      ask={(_body, headers) => api.DELETE("/api/v1/settings/oidc", { headers })}
      changes={CHANGES}
      done={words.removed}
      onClose={onClose}
    />
  );
}
