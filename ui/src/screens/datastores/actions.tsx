// SPDX-License-Identifier: Apache-2.0
/** Actions on a datastore: a menu, and a dialog for each. Each starts a job, and says so. */

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api } from "../../api/client";
import type { ApiProblem } from "../../api/problem";
import { groupsQuery } from "../../api/queries";
import type { Datastore } from "../../api/types";
import { formatBytes, parseBytes } from "../../format/bytes";
import { ActionsMenu } from "../../parts/actions-menu";
import { TextField } from "../../parts/field";
import { useForm } from "../../parts/form";
import { JobDialog, type Place } from "../../parts/job-dialog";
import { useMay } from "../../session/session";
import { text } from "../../text";
import { NumberField, wrongNumber } from "../schedules/tiers";
import { Adopt } from "./adopt";
import { clientsOf, clientsProblem } from "./form-values";
import { Clients, Groups, NO_CLIENTS } from "./host-groups";
import { pathOf, useKnownStore, useStoreForm } from "./known-store";
import { ChangeProvisioning } from "./provisioning";
import { Serving } from "./serving";
import { Forget, Promote, Settings } from "./settings";

const words = text.datastores.detail.actions;
const ACTIVE = {
  vmfs: ["rename", "grow", "provisioning", "settings", "present", "snapshot", "clone", "promote", "delete"],
  nfs: ["rename", "quota", "provisioning", "present", "serving", "snapshot", "clone", "promote", "delete"],
} as const;
const OTHERS = { deleted: ["restore", "purge"], missing: ["forget"], copy: ["adopt"] } as const;
const FOR_ADMINS: readonly Action[] = ["promote", "purge", "forget", "adopt"];
/** What each dialog about a datastore is given. */
export interface DialogProps extends Place {
  readonly store: Datastore;
}
type Action = (typeof ACTIVE)[Datastore["kind"]][number] | (typeof OTHERS)[keyof typeof OTHERS][number];

/** An action that the user has chosen, for its dialog. */
export interface Chosen {
  readonly store: Datastore;
  readonly action: Action;
}

interface MenuProps {
  readonly store: Datastore;
  readonly onChoose: (chosen: Chosen) => void;
  /** At the end of its row in the list. */
  readonly row?: boolean;
}

export function ActionMenu({ store, onChoose, row = false }: MenuProps) {
  const admin = useMay("admin");
  const actions: readonly Action[] = store.state === "active" ? ACTIVE[store.kind] : OTHERS[store.state];
  const allowed = actions.filter(
    (action) => (admin || !FOR_ADMINS.includes(action)) && (action !== "promote" || store.origin !== null),
  );
  return (
    <ActionsMenu
      row={row}
      label={row ? text.datastores.actions(store.name) : words.menu}
      choices={allowed.map((action) => ({
        name: action === "adopt" ? text.datastores.adopt.action : words[action].action,
        danger: action === "delete" || action === "purge" || action === "forget",
        onChoose: () => onChoose({ store, action }),
      }))}
    />
  );
}

/** Not inside a row of the list: there it would close when its row leaves the visible part. */
export function ActionDialog({ action, ...dialog }: DialogProps & Chosen) {
  return (
    <>
      {action === "rename" && <Rename {...dialog} />}
      {action === "grow" && <Grow {...dialog} />}
      {action === "quota" && <Quota {...dialog} />}
      {action === "provisioning" && <ChangeProvisioning {...dialog} />}
      {action === "settings" && <Settings {...dialog} />}
      {action === "present" && <Present {...dialog} />}
      {action === "serving" && <Serving {...dialog} />}
      {action === "snapshot" && <TakeSnapshot {...dialog} stores={[dialog.store]} />}
      {action === "clone" && <Clone {...dialog} />}
      {action === "promote" && <Promote {...dialog} />}
      {action === "delete" && <Delete {...dialog} />}
      {action === "restore" && <Restore {...dialog} />}
      {action === "purge" && <Purge {...dialog} />}
      {action === "forget" && <Forget {...dialog} />}
      {action === "adopt" && <Adopt onBegin={dialog.onBegin} onClose={dialog.onClose} dataset={dialog.store.dataset} />}
    </>
  );
}

function nameOf(store: Datastore): { readonly name: string } {
  return { name: store.name };
}

function Rename({ store, ...job }: DialogProps) {
  const { known, first, form, change } = useStoreForm(store, nameOf);
  return (
    <JobDialog
      {...job}
      known={known}
      title={words.rename.title(store.name)}
      lead={words.rename.lead}
      submit={words.rename.submit}
      ready={(problem) => form.name !== "" && (form.name !== first.name || problem?.effect === "unknown")}
      knownFields={["name"]}
      body={() => ({ name: form.name })}
      ask={(body, headers) => api.PATCH("/api/v1/datastores/{datastore_id}", { params: pathOf(store), body, headers })}
    >
      {(problem) => (
        <TextField
          id="new-name"
          label={words.rename.name}
          help={text.datastores.wizard.place.nameHelp}
          value={form.name}
          onChange={(name) => change({ name })}
          problem={problem?.fields.get("name")}
          required
        />
      )}
    </JobDialog>
  );
}

interface SizeProps {
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly problem: string | undefined;
}

function SizeField(field: SizeProps) {
  return <TextField id="new-size" help={text.datastores.wizard.size.sizeHelp} required {...field} />;
}

/** As the API requires it: a whole number of MiB. */
function sizeBody(bytes: bigint | null): { size: string } {
  return { size: String(((bytes ?? 0n) >> 20n) << 20n) };
}

function Grow({ store, ...job }: DialogProps) {
  const known = useKnownStore(store);
  const [size, setSize] = useState("");
  const bytes = parseBytes(size);
  // A request without a response may have been carried out: sending it again shows that.
  const larger = (problem: ApiProblem | null) =>
    bytes !== null && (bytes > BigInt(known.thing.size) || problem?.effect === "unknown");
  return (
    <JobDialog
      {...job}
      known={known}
      title={words.grow.title(store.name)}
      lead={words.grow.lead(formatBytes(known.thing.size))}
      submit={words.grow.submit}
      ready={larger}
      knownFields={["size"]}
      body={() => sizeBody(bytes)}
      ask={(body, headers) => api.POST("/api/v1/datastores/{datastore_id}/grow", { params: pathOf(store), body, headers })}
    >
      {(problem) => (
        <SizeField
          label={words.grow.size}
          value={size}
          onChange={setSize}
          problem={bytes !== null && !larger(problem) ? words.grow.notLarger : problem?.fields.get("size")}
        />
      )}
    </JobDialog>
  );
}

/** Quota of an NFS datastore: larger or smaller. */
function Quota({ store, ...job }: DialogProps) {
  const known = useKnownStore(store);
  const [size, setSize] = useState("");
  const bytes = parseBytes(size);
  return (
    <JobDialog
      {...job}
      known={known}
      title={words.quota.title(store.name)}
      lead={words.quota.lead(known.thing.size === "0" ? null : formatBytes(known.thing.size))}
      submit={words.quota.submit}
      ready={() => bytes !== null}
      knownFields={["size"]}
      body={() => sizeBody(bytes)}
      ask={(body, headers) => api.POST("/api/v1/datastores/{datastore_id}/quota", { params: pathOf(store), body, headers })}
    >
      {(problem) => <SizeField label={words.quota.size} value={size} onChange={setSize} problem={problem?.fields.get("size")} />}
    </JobDialog>
  );
}

function groupsOf(store: Datastore): { readonly groups: readonly string[] } {
  return { groups: store.host_groups };
}

function Present({ store, ...job }: DialogProps) {
  const { known, form, change } = useStoreForm(store, groupsOf);
  return (
    <JobDialog
      {...job}
      known={known}
      title={words.present.title(store.name)}
      lead={words.present.lead}
      submit={words.present.submit}
      body={(force) => ({ host_groups: [...form.groups], force })}
      ask={(body, headers) => api.PATCH("/api/v1/datastores/{datastore_id}", { params: pathOf(store), body, headers })}
    >
      {() => <Groups chosen={form.groups} onChange={(groups) => change({ groups })} />}
    </JobDialog>
  );
}

/** A snapshot of each of the datastores, all taken at the same moment. They must be in one pool. */
export function TakeSnapshot({ stores, ...job }: Place & { readonly stores: readonly Datastore[] }) {
  const [name, setName] = useState(() => `manual-${new Date().toISOString().slice(0, 16).replace(":", "")}`);
  const [days, setDays] = useState("0");
  return (
    <JobDialog
      {...job}
      title={words.snapshot.title(text.common.listed(stores.map((store) => store.name)))}
      lead={words.snapshot.lead}
      submit={words.snapshot.submit}
      ready={() => name !== "" && !wrongNumber("protect_days", days)}
      knownFields={["name", "protect_days"]}
      body={() => ({ name, datastores: stores.map((store) => store.id), protect_days: Number(days) })}
      ask={(body, headers) => api.POST("/api/v1/snapshots", { body, headers })}
    >
      {(problem) => (
        <>
          <TextField
            id="snapshot-name"
            label={words.snapshot.name}
            help={words.snapshot.nameHelp}
            value={name}
            onChange={setName}
            problem={problem?.fields.get("name")}
            required
          />
          <NumberField name="protect_days" help={words.snapshot.protectHelp} value={days} onChange={setDays} problem={problem} />
        </>
      )}
    </JobDialog>
  );
}

/** Clone of the present state or of a snapshot. */
export function Clone({ store, snapshot = null, ...job }: DialogProps & { readonly snapshot?: string | null }) {
  const [name, setName] = useState("");
  const [groups, setGroups] = useState<readonly string[]>([]);
  const [form, change] = useForm(NO_CLIENTS);
  const nfs = store.kind === "nfs";
  const lead = nfs ? words.clone.lead : `${words.clone.lead} ${words.clone.resignature}`;
  return (
    <JobDialog
      {...job}
      title={words.clone.title(store.name)}
      lead={snapshot === null ? lead : `${words.clone.of(snapshot)}. ${lead}`}
      submit={words.clone.submit}
      ready={() => name !== "" && clientsProblem({ ...form, kind: store.kind }) === undefined}
      knownFields={["name", "clients"]}
      body={() => ({
        name,
        snapshot,
        host_groups: [...groups],
        ...(nfs ? { clients: clientsOf(form), anyone: form.anyone } : {}),
      })}
      ask={(body, headers) => api.POST("/api/v1/datastores/{datastore_id}/clone", { params: pathOf(store), body, headers })}
    >
      {(problem) => (
        <>
          <TextField
            id="clone-name"
            label={words.clone.name}
            help={text.datastores.wizard.place.nameHelp}
            value={name}
            onChange={setName}
            problem={problem?.fields.get("name")}
            required
          />
          <Groups chosen={groups} onChange={setGroups} />
          {nfs && <Clients form={form} onChange={change} problem={problem?.at("clients")} />}
        </>
      )}
    </JobDialog>
  );
}

function Delete({ store, ...job }: DialogProps) {
  const known = useKnownStore(store);
  return (
    <JobDialog
      {...job}
      known={known}
      danger
      title={words.delete.title(store.name)}
      lead={words.delete.lead}
      submit={words.delete.submit}
      confirm={known.thing.name}
      body={(force) => ({ force })}
      ask={(query, headers) => api.DELETE("/api/v1/datastores/{datastore_id}", { params: { ...pathOf(store), query }, headers })}
    />
  );
}

/** Until the user changes the selection, the groups that had access before the deletion are selected. */
function Restore({ store, ...job }: DialogProps) {
  const known = useKnownStore(store);
  const { data: all = [] } = useQuery(groupsQuery);
  const [name, setName] = useState(store.name);
  const [groups, setGroups] = useState<readonly string[] | null>(null);
  const before = known.thing.previous_host_groups.filter((id) => all.some((group) => group.id === id));
  return (
    <JobDialog
      {...job}
      known={known}
      title={words.restore.title(store.name)}
      lead={`${words.restore.lead} ${words.restore.clients(known.thing.previous_clients)}`.trim()}
      submit={words.restore.submit}
      ready={() => name !== ""}
      knownFields={["name"]}
      body={() => ({ name: name === known.thing.name ? null : name, host_groups: groups && [...groups] })}
      ask={(body, headers) => api.POST("/api/v1/datastores/{datastore_id}/restore", { params: pathOf(store), body, headers })}
    >
      {(problem) => (
        <>
          <TextField
            id="restored-name"
            label={text.datastores.wizard.place.name}
            help={text.datastores.wizard.place.nameHelp}
            value={name}
            onChange={setName}
            problem={problem?.fields.get("name")}
            required
          />
          <Groups chosen={groups ?? before} onChange={setGroups} />
        </>
      )}
    </JobDialog>
  );
}

function Purge({ store, ...job }: DialogProps) {
  const known = useKnownStore(store);
  return (
    <JobDialog
      {...job}
      known={known}
      danger
      title={words.purge.title(store.name)}
      lead={words.purge.lead}
      submit={words.purge.submit}
      confirm={known.thing.name}
      body={() => null}
      ask={(_body, headers) => api.POST("/api/v1/datastores/{datastore_id}/purge", { params: pathOf(store), headers })}
    />
  );
}
