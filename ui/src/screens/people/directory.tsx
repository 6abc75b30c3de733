// SPDX-License-Identifier: Apache-2.0
/** Logins at LDAP or Active Directory: settings, a test. */

import { Switch } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api } from "../../api/client";
import { directoryQuery } from "../../api/queries";
import type { Directory as Settings } from "../../api/types";
import { formatCertificate } from "../../format/certificate";
import { ChangeDialog } from "../../parts/change-dialog";
import { LinesField, TextField } from "../../parts/field";
import { useForm } from "../../parts/form";
import { useKnown, useKnownForm, type Fact } from "../../parts/known";
import { useToast } from "../../shell/toasts";
import { text } from "../../text";
import { linesOf, LoginPanel, RoleFields, ROLES, rolesBody, rolesFacts, rolesForm, type DialogProps } from "./login-fields";

const words = text.people.directory;
const CHANGES = ["directory", "users"];
const DIALOGS = { set: SetDirectory, test: TestDirectory, unset: UnsetDirectory } as const;

type Props = DialogProps<Settings>;

function factsOf(settings: Settings): readonly Fact[] {
  const { servers = [], base = "", filter = "" } = settings;
  return [
    [words.servers, servers.join(", ")],
    [words.base, base],
    [words.filter, filter],
    [words.bindDn, settings.bind_dn ?? text.common.none],
    [words.startTls, (settings.start_tls ?? true) ? text.common.yes : text.common.no],
    [words.certificate, formatCertificate(settings.certificate)],
    ...rolesFacts(settings, words.groups),
  ];
}

export function Directory() {
  return (
    <LoginPanel
      words={words}
      query={useQuery(directoryQuery)}
      isSet={(settings) => (settings.servers ?? []).length > 0}
      factsOf={factsOf}
      dialogs={DIALOGS}
    />
  );
}

function formOf(settings: Settings) {
  return {
    servers: (settings.servers ?? []).join("\n"),
    start_tls: settings.start_tls ?? true,
    certificate: settings.certificate ?? "",
    bind_dn: settings.bind_dn ?? "",
    base: settings.base ?? "",
    filter: settings.filter ?? "",
    ...rolesForm(settings),
  };
}

function SetDirectory({ settings, onClose }: Props) {
  const { known, form, change } = useKnownForm(settings, directoryQuery, factsOf, formOf);
  const [password, setPassword] = useState("");
  const { certificate, bind_dn, ...rest } = form;
  const body = {
    ...rest,
    servers: linesOf(form.servers),
    ...rolesBody(form),
    ...(certificate.trim() === "" ? {} : { certificate }),
    ...(bind_dn === "" ? {} : { bind_dn }),
    ...(password === "" ? {} : { password }),
  };
  return (
    <ChangeDialog
      known={known}
      title={words.setTitle}
      lead={words.setLead}
      submit={words.setSubmit}
      ready={body.servers.length > 0 && form.base !== "" && form.filter !== ""}
      knownFields={["servers", "certificate", "bind_dn", "password", "base", "filter", ...ROLES]}
      body={() => body}
      ask={(body, headers) => api.PUT("/api/v1/settings/directory", { body, headers })}
      changes={CHANGES}
      done={words.changed}
      onClose={onClose}
    >
      {(problem) => {
        const field = (name: "bind_dn" | "base" | "filter", label: string, help: string) => (
          <TextField
            id={`directory-${name}`}
            label={label}
            help={help}
            value={form[name]}
            onChange={(typed) => change({ [name]: typed })}
            problem={problem?.at(name)}
            required={name !== "bind_dn"}
          />
        );
        return (
          <>
            <LinesField
              id="directory-servers"
              label={words.servers}
              help={words.serversHelp}
              value={form.servers}
              onChange={(servers) => change({ servers })}
              problem={problem?.at("servers")}
              required
            />
            <Switch
              id="directory-start-tls"
              label={words.startTls}
              isChecked={form.start_tls}
              onChange={(_event, start_tls) => change({ start_tls })}
            />
            {field("base", words.base, words.baseHelp)}
            {field("filter", words.filter, words.filterHelp)}
            {field("bind_dn", words.bindDn, words.bindDnHelp)}
            <TextField
              id="directory-password"
              label={words.password}
              help={settings.bind_dn == null ? undefined : words.passwordHelp}
              type="password"
              autoComplete="new-password"
              value={password}
              onChange={setPassword}
              problem={problem?.at("password")}
            />
            <RoleFields
              id="directory"
              names={words.groups}
              help={words.groupsHelp}
              form={form}
              change={change}
              problem={problem}
            />
            <LinesField
              id="directory-certificate"
              label={words.certificate}
              help={text.people.certificateHelp}
              value={form.certificate}
              onChange={(certificate) => change({ certificate })}
              problem={problem?.at("certificate")}
            />
          </>
        );
      }}
    </ChangeDialog>
  );
}

function TestDirectory({ onClose }: Props) {
  const notify = useToast();
  const [{ name }, change] = useForm({ name: "" });
  return (
    <ChangeDialog
      title={words.testTitle}
      lead={words.testLead}
      submit={words.testSubmit}
      knownFields={["name"]}
      body={() => (name === "" ? {} : { name })}
      ask={(body, headers) => api.POST("/api/v1/settings/directory/test", { body, headers })}
      changes={[]}
      onDone={({ problem, role }) => {
        if (problem != null) notify({ variant: "danger", title: words.testFailed, body: problem });
        else notify({ variant: "success", title: role ? words.testRole(name, text.common.user.role[role]) : words.testDone });
      }}
      onClose={onClose}
    >
      {(problem) => (
        <TextField
          id="directory-test-name"
          label={words.testName}
          help={words.testNameHelp}
          value={name}
          onChange={(typed) => change({ name: typed })}
          problem={problem?.at("name")}
        />
      )}
    </ChangeDialog>
  );
}

function UnsetDirectory({ settings, onClose }: Props) {
  const known = useKnown(settings, directoryQuery, factsOf);
  return (
    <ChangeDialog
      known={known}
      danger
      title={words.unsetTitle}
      lead={words.unsetLead}
      submit={words.unsetSubmit}
      body={() => null}
      ask={(_body, headers) => api.DELETE("/api/v1/settings/directory", { headers })}
      changes={CHANGES}
      done={words.removed}
      onClose={onClose}
    />
  );
}
