// SPDX-License-Identifier: Apache-2.0
/** Dialogs of a host: create, change, CHAP secret, delete. */

import { Button } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api } from "../../api/client";
import type { ApiProblem } from "../../api/problem";
import { groupsQuery, hostQuery, iscsiSettingsQuery } from "../../api/queries";
import type { Host, HostCreate } from "../../api/types";
import { ChangeDialog } from "../../parts/change-dialog";
import { changedOf } from "../../parts/changed";
import { ChoiceField, LinesField, TextField } from "../../parts/field";
import { useForm } from "../../parts/form";
import { useKnown, useKnownForm, type Fact } from "../../parts/known";
import { text } from "../../text";
import { entriesOf, nameIn } from "./paths";

const words = text.hosts;
const FIELDS = ["name", "group", "iqns", "addresses"];
const CHANGES = ["hosts", "unknown-initiators", "host-groups", "iscsi-sessions", "nfs-clients", "readiness"];
const SECRET_LENGTH = 24;
/** Without characters that are easily confused. */
const LETTERS = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789";

interface Close {
  readonly onClose: () => void;
}

interface Form {
  readonly name: string;
  readonly group: string;
  readonly iqns: string;
  readonly addresses: string;
}

/** The request's body. */
function valuesOf({ name, group, iqns, addresses }: Form) {
  return {
    name,
    group: group === "" ? null : group,
    iqns: entriesOf(iqns),
    addresses: entriesOf(addresses),
  } satisfies HostCreate;
}

interface FieldsProps {
  readonly form: Form;
  readonly onChange: (part: Partial<Form>) => void;
  readonly problem: ApiProblem | null;
}

function HostFields({ form, onChange, problem }: FieldsProps) {
  const { data: groups = [] } = useQuery(groupsQuery);
  return (
    <>
      <TextField
        id="host-name"
        label={words.form.name}
        help={words.form.nameHelp}
        value={form.name}
        onChange={(name) => onChange({ name })}
        problem={problem?.at("name")}
        required
      />
      <ChoiceField
        id="host-group"
        label={words.form.group}
        help={words.form.groupHelp}
        value={form.group}
        options={[["", words.noGroup], ...groups.map((group) => [group.id, group.name] as const)]}
        onChange={(group) => onChange({ group })}
        problem={problem?.at("group")}
      />
      <LinesField
        id="host-iqns"
        label={words.form.iqns}
        help={words.form.iqnsHelp}
        value={form.iqns}
        onChange={(iqns) => onChange({ iqns })}
        problem={problem?.at("iqns")}
      />
      <LinesField
        id="host-addresses"
        label={words.form.addresses}
        help={words.form.addressesHelp}
        value={form.addresses}
        onChange={(addresses) => onChange({ addresses })}
        problem={problem?.at("addresses")}
      />
    </>
  );
}

/** `iqn`: of an initiator that tried to log in. */
export function AddHost({ iqn = "", onClose }: Close & { readonly iqn?: string }) {
  const [form, change] = useForm<Form>({ name: nameIn(iqn), group: "", iqns: iqn, addresses: "" });
  return (
    <ChangeDialog
      title={words.create.title}
      submit={words.create.submit}
      done={words.create.done(form.name)}
      changes={CHANGES}
      knownFields={FIELDS}
      ready={form.name !== ""}
      onClose={onClose}
      body={() => valuesOf(form)}
      ask={(body, headers) => api.POST("/api/v1/hosts", { body, headers })}
    >
      {(problem) => <HostFields form={form} onChange={change} problem={problem} />}
    </ChangeDialog>
  );
}

interface AboutHost extends Close {
  readonly host: Host;
}

/** The API path of the host. */
function pathOf(host: Host) {
  return { path: { host_id: host.id } };
}

function formOf({ name, group, iqns, addresses }: Host): Form {
  return { name, group: group ?? "", iqns: iqns.join("\n"), addresses: addresses.join("\n") };
}

/** Facts of a host that changed while the dialog was open. */
function useFacts(): (host: Host) => readonly Fact[] {
  const { data: groups = [] } = useQuery(groupsQuery);
  return ({ name, group, iqns, addresses, chap_name: chap }) => [
    [words.form.name, name],
    [words.form.group, groups.find((candidate) => candidate.id === group)?.name ?? words.noGroup],
    [words.form.iqns, text.common.listed(iqns)],
    [words.form.addresses, text.common.listed(addresses)],
    [words.columns.chap, chap ?? words.noChap],
  ];
}

function useKnownHost(host: Host) {
  return useKnown(host, hostQuery(host.id), useFacts());
}

/** Sends changed fields only, so that meanwhile changes by others to other fields persist. */
export function ChangeHost({ host, onClose }: AboutHost) {
  const { known, first, form, change } = useKnownForm(host, hostQuery(host.id), useFacts(), formOf);
  return (
    <ChangeDialog
      known={known}
      title={words.change.title(host.name)}
      lead={words.change.lead}
      submit={words.change.submit}
      done={words.change.done(form.name)}
      changes={CHANGES}
      knownFields={FIELDS}
      ready={form.name !== ""}
      onClose={onClose}
      body={(force) => ({ force, ...changedOf(valuesOf(first), valuesOf(form)) })}
      ask={(body, headers) => api.PATCH("/api/v1/hosts/{host_id}", { params: pathOf(host), body, headers })}
    >
      {(problem) => <HostFields form={form} onChange={change} problem={problem} />}
    </ChangeDialog>
  );
}

/** Each letter has the same probability: bytes that would favour the first letters are discarded. */
function randomSecret(): string {
  let secret = "";
  while (secret.length < SECRET_LENGTH) {
    const [byte = 255] = crypto.getRandomValues(new Uint8Array(1));
    if (byte < LETTERS.length * Math.floor(256 / LETTERS.length)) secret += LETTERS.charAt(byte % LETTERS.length);
  }
  return secret;
}

export function SetChap({ host, onClose }: AboutHost) {
  const { data: settings } = useQuery(iscsiSettingsQuery);
  const [name, setName] = useState(host.chap_name ?? host.iqns[0] ?? host.name);
  const [secret, setSecret] = useState("");
  const known = useKnownHost(host);
  const required = settings === undefined ? "" : settings.chap_required ? words.chap.required : words.chap.notRequired;
  return (
    <ChangeDialog
      known={known}
      title={words.chap.title(host.name)}
      lead={`${words.chap.lead} ${required}`}
      submit={words.chap.submit}
      done={words.chap.done(host.name)}
      changes={CHANGES}
      knownFields={["name", "secret", "chap.name", "chap.secret", "chap"]}
      ready={name !== "" && secret !== ""}
      onClose={onClose}
      body={(force) => ({ name, secret, force })}
      ask={(body, headers) => api.PUT("/api/v1/hosts/{host_id}/chap", { params: pathOf(host), body, headers })}
    >
      {(problem) => (
        <>
          <TextField
            id="chap-name"
            label={words.chap.name}
            help={words.chap.nameHelp}
            value={name}
            onChange={setName}
            problem={problem?.at("name") ?? problem?.at("chap.name")}
            required
          />
          <TextField
            id="chap-secret"
            label={words.chap.secret}
            help={words.chap.secretHelp}
            value={secret}
            onChange={setSecret}
            problem={problem?.at("secret") ?? problem?.at("chap.secret")}
            required
          />
          <div>
            <Button variant="secondary" onClick={() => setSecret(randomSecret())}>
              {words.chap.generate}
            </Button>
          </div>
        </>
      )}
    </ChangeDialog>
  );
}

export function RemoveChap({ host, onClose }: AboutHost) {
  const known = useKnownHost(host);
  return (
    <ChangeDialog
      known={known}
      danger
      title={words.unchap.title(host.name)}
      lead={words.unchap.lead}
      submit={words.unchap.submit}
      done={words.unchap.done(host.name)}
      changes={CHANGES}
      onClose={onClose}
      body={(force) => ({ force })}
      ask={(query, headers) => api.DELETE("/api/v1/hosts/{host_id}/chap", { params: { ...pathOf(host), query }, headers })}
    />
  );
}

export function DeleteHost({ host, onClose, onDone }: AboutHost & { readonly onDone?: () => void }) {
  const known = useKnownHost(host);
  return (
    <ChangeDialog
      known={known}
      danger
      title={words.delete.title(host.name)}
      lead={words.delete.lead}
      submit={words.delete.submit}
      confirm={known.thing.name}
      done={words.delete.done(host.name)}
      changes={CHANGES}
      onClose={onClose}
      onDone={onDone}
      body={(force) => ({ force })}
      ask={(query, headers) => api.DELETE("/api/v1/hosts/{host_id}", { params: { ...pathOf(host), query }, headers })}
    />
  );
}
