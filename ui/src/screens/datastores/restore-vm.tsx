// SPDX-License-Identifier: Apache-2.0
/** Restores a VM from a snapshot of an NFS datastore, next to the original. */

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api } from "../../api/client";
import { foldersQuery } from "../../api/queries";
import type { Snapshot } from "../../api/types";
import { ChoiceField, TextField } from "../../parts/field";
import { JobDialog } from "../../parts/job-dialog";
import { QueryBoundary } from "../../parts/states";
import { text } from "../../text";
import type { DialogProps } from "./actions";

const words = text.datastores.detail.snapshots.restoreVm;

export function RestoreVm({ store, snapshot, ...job }: DialogProps & { readonly snapshot: Snapshot }) {
  const query = useQuery(foldersQuery(store.id, snapshot.name));
  const [folder, setFolder] = useState("");
  const [name, setName] = useState("");
  return (
    <JobDialog
      {...job}
      title={words.title(snapshot.name)}
      lead={words.lead}
      submit={words.submit}
      ready={() => folder !== "" && name !== ""}
      knownFields={["folder", "name"]}
      body={() => ({ folder, name })}
      ask={(body, headers) =>
        api.POST("/api/v1/datastores/{datastore_id}/snapshots/{name}/restore-vm", {
          params: { path: { datastore_id: store.id, name: snapshot.name } },
          body,
          headers,
        })
      }
    >
      {(problem) => (
        <QueryBoundary query={query} what={words.folder}>
          {(folders) =>
            folders.length === 0 ? (
              <p>{words.none}</p>
            ) : (
              <>
                <ChoiceField
                  id="restore-folder"
                  label={words.folder}
                  value={folder}
                  options={[["", words.choose], ...folders.map((folder) => [folder.name, folder.name] as const)]}
                  onChange={(chosen) => {
                    setFolder(chosen);
                    if (name === "" || name === words.restored(folder)) setName(chosen === "" ? "" : words.restored(chosen));
                  }}
                  problem={problem?.at("folder")}
                  required
                />
                <TextField
                  id="restore-name"
                  label={words.name}
                  help={words.nameHelp}
                  value={name}
                  onChange={setName}
                  problem={problem?.at("name")}
                  required
                />
              </>
            )
          }
        </QueryBoundary>
      )}
    </JobDialog>
  );
}
