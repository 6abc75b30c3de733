// SPDX-License-Identifier: Apache-2.0
/** Makes a datastore of a volume, a file system or a copy that is on a pool already. */

import { Button, Checkbox } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useNavigate } from "react-router";
import { api } from "../../api/client";
import { filesystemsQuery, volumesQuery } from "../../api/queries";
import { formatBytes } from "../../format/bytes";
import { ChoiceField, TextField } from "../../parts/field";
import { JobDialog, type Place } from "../../parts/job-dialog";
import { text } from "../../text";
import { Groups } from "./actions";

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

/** Datasets without a datastore, with their names in the choice. */
function useAdoptable(): readonly (readonly [dataset: string, name: string])[] | undefined {
  const { data: volumes } = useQuery(volumesQuery);
  const { data: filesystems } = useQuery(filesystemsQuery);
  if (volumes === undefined || filesystems === undefined) return undefined;
  return [
    ...volumes.map(({ dataset, datastore, size }) => ({ dataset, datastore, name: words.volume(dataset, formatBytes(size)) })),
    ...filesystems.map(({ dataset, datastore, used }) => ({
      dataset,
      datastore,
      name: words.filesystem(dataset, formatBytes(used)),
    })),
  ].flatMap(({ dataset, datastore, name }) => (datastore === null ? [[dataset, name] as const] : []));
}

function Adopt(place: Place) {
  const adoptable = useAdoptable();
  const [chosen, setChosen] = useState("");
  const [name, setName] = useState("");
  const [keep, setKeep] = useState(false);
  const [groups, setGroups] = useState<readonly string[]>([]);
  return (
    <JobDialog
      {...place}
      title={words.title}
      lead={words.lead}
      submit={words.submit}
      ready={() => chosen !== "" && name !== ""}
      knownFields={["dataset", "name"]}
      body={() => ({ dataset: chosen, name, identity: keep ? ("keep" as const) : ("new" as const), host_groups: [...groups] })}
      ask={(body, headers) => api.POST("/api/v1/volumes/adopt", { body, headers })}
    >
      {(problem) => (
        <>
          <ChoiceField
            id="adopt-dataset"
            label={words.dataset}
            help={adoptable?.length === 0 ? words.none : words.datasetHelp}
            value={chosen}
            options={[["", words.choose], ...(adoptable ?? [])]}
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
        </>
      )}
    </JobDialog>
  );
}
