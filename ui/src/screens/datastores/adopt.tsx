// SPDX-License-Identifier: Apache-2.0
/** Makes a datastore of a volume, a file system or a copy that is on a pool already. */

import { Button, Checkbox } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useNavigate } from "react-router";
import { api } from "../../api/client";
import { datastoresQuery, filesystemsQuery, volumesQuery } from "../../api/queries";
import { formatBytes } from "../../format/bytes";
import { ChoiceField, TextField } from "../../parts/field";
import { useForm } from "../../parts/form";
import { JobDialog, type Place } from "../../parts/job-dialog";
import { text } from "../../text";
import { adoptable } from "./adoptable";
import { clientsOf, clientsProblem } from "./form-values";
import { Clients, Groups, NO_CLIENTS } from "./host-groups";

const words = text.datastores.adopt;

export function AdoptButton() {
  const [open, setOpen] = useState(false);
  const navigate = useNavigate();
  return (
    <>
      <Button variant="secondary" onClick={() => setOpen(true)}>
        {words.action}
      </Button>
      {open && <Adopt onBegin={(job) => void navigate(`/jobs/${job}`)} onClose={() => setOpen(false)} />}
    </>
  );
}

/** Names in the choice, by dataset; undefined until all lists are known. */
function useAdoptable(): readonly (readonly [dataset: string, name: string])[] | undefined {
  const { data: stores } = useQuery(datastoresQuery);
  const { data: volumes } = useQuery(volumesQuery);
  const { data: filesystems } = useQuery(filesystemsQuery);
  if (stores === undefined || volumes === undefined || filesystems === undefined) return undefined;
  return [
    ...adoptable(volumes, stores).map(({ dataset, size }) => [dataset, words.volume(dataset, formatBytes(size))] as const),
    ...adoptable(filesystems, stores).map(
      ({ dataset, used }) => [dataset, words.filesystem(dataset, formatBytes(used))] as const,
    ),
  ];
}

/** `dataset`: chosen at first. */
export function Adopt({ dataset = "", ...place }: Place & { readonly dataset?: string }) {
  const choices = useAdoptable();
  const [chosen, setChosen] = useState(dataset);
  const [name, setName] = useState("");
  const [keep, setKeep] = useState(false);
  const [groups, setGroups] = useState<readonly string[]>([]);
  const [form, change] = useForm(NO_CLIENTS);
  const { data: filesystems = [] } = useQuery(filesystemsQuery);
  const kind = filesystems.some((filesystem) => filesystem.dataset === chosen) ? "nfs" : "vmfs";
  const clients = kind === "nfs" ? clientsOf(form) : [];
  return (
    <JobDialog
      {...place}
      title={words.title}
      lead={words.lead}
      submit={words.submit}
      ready={() => chosen !== "" && name !== "" && clientsProblem({ ...form, kind }) === undefined}
      knownFields={["dataset", "name", "clients"]}
      body={(force) => ({
        dataset: chosen,
        name,
        identity: keep ? ("keep" as const) : ("new" as const),
        force,
        // What is left out does not change for a retained identity.
        ...(groups.length > 0 || !keep ? { host_groups: [...groups] } : {}),
        ...(clients.length > 0 ? { clients, anyone: form.anyone } : {}),
      })}
      ask={(body, headers) => api.POST("/api/v1/volumes/adopt", { body, headers })}
    >
      {(problem) => (
        <>
          <ChoiceField
            id="adopt-dataset"
            label={words.dataset}
            help={choices?.length === 0 ? words.none : words.datasetHelp}
            value={chosen}
            options={[["", words.choose], ...(choices ?? [])]}
            onChange={setChosen}
            problem={problem?.fields.get("dataset")}
            required
          />
          <TextField
            id="adopt-name"
            label={words.name}
            help={text.datastores.wizard.place.nameHelp}
            value={name}
            onChange={setName}
            problem={problem?.fields.get("name")}
            required
          />
          <Checkbox
            id="adopt-keep"
            label={words.keep}
            description={words.keepHelp}
            isChecked={keep}
            onChange={(_event, checked) => setKeep(checked)}
          />
          <Groups chosen={groups} onChange={setGroups} />
          {kind === "nfs" && <Clients form={form} onChange={change} help={words.clientsHelp} problem={problem?.at("clients")} />}
        </>
      )}
    </JobDialog>
  );
}
