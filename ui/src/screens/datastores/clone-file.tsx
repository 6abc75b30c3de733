// SPDX-License-Identifier: Apache-2.0
/** Clones a file of an NFS datastore to a new name. */

import { FormGroup, Radio } from "@patternfly/react-core";
import { useState } from "react";
import { api } from "../../api/client";
import type { VmdkFile } from "../../api/types";
import { TextField } from "../../parts/field";
import { JobDialog } from "../../parts/job-dialog";
import { text } from "../../text";
import type { DialogProps } from "./actions";

const words = text.files.clone;

export function CloneFile({ store, file, ...job }: DialogProps & { readonly file: VmdkFile }) {
  const [destination, setDestination] = useState(() => file.path.slice(0, file.path.lastIndexOf("/") + 1));
  const [fast, setFast] = useState(false);
  return (
    <JobDialog
      {...job}
      title={words.title(file.path)}
      lead={words.lead}
      submit={words.submit}
      ready={() => destination !== "" && !destination.endsWith("/")}
      knownFields={["destination"]}
      body={() => ({ source: file.path, destination, fast })}
      ask={(body, headers) =>
        api.POST("/api/v1/datastores/{datastore_id}/files/clone", {
          params: { path: { datastore_id: store.id } },
          body,
          headers,
        })
      }
    >
      {(problem) => (
        <>
          <TextField
            id="clone-path"
            label={words.destination}
            help={words.destinationHelp}
            value={destination}
            onChange={setDestination}
            problem={problem?.at("destination")}
            required
          />
          <FormGroup role="radiogroup" label={words.how} fieldId="clone-how" isStack>
            {[false, true].map((value) => (
              <Radio
                key={String(value)}
                id={value ? "clone-fast" : "clone-full"}
                name="clone-how"
                label={value ? words.fast : words.full}
                description={value ? words.fastHelp : words.fullHelp}
                isChecked={fast === value}
                onChange={() => setFast(value)}
              />
            ))}
          </FormGroup>
        </>
      )}
    </JobDialog>
  );
}
