// SPDX-License-Identifier: Apache-2.0
/** Export settings of an NFS datastore: further clients and NFS versions. */

import { Checkbox, FormGroup } from "@patternfly/react-core";
import { api } from "../../api/client";
import type { Datastore } from "../../api/types";
import { changedOf } from "../../parts/changed";
import { JobDialog } from "../../parts/job-dialog";
import { text } from "../../text";
import type { DialogProps } from "./actions";
import { Clients } from "./host-groups";
import { pathOf, useStoreForm } from "./known-store";
import { clientsOf, clientsProblem } from "./form-values";

const words = text.datastores.detail.actions.serving;
const VERSIONS = ["3", "4"] as const;

interface Form {
  readonly clients: string;
  readonly anyone: boolean;
  readonly versions: readonly string[];
}

function formOf(store: Datastore): Form {
  return { clients: store.clients.join(", "), anyone: false, versions: store.versions };
}

/** The request's body. */
function valuesOf({ clients, versions }: Form) {
  return { clients: clientsOf({ clients }), versions: VERSIONS.filter((version) => versions.includes(version)) };
}

/** Sends changed fields only, so that meanwhile changes by others to other fields persist. */
export function Serving({ store, ...job }: DialogProps) {
  const { known, first, form, change } = useStoreForm(store, formOf);
  const { versions } = form;
  return (
    <JobDialog
      {...job}
      known={known}
      title={words.title(store.name)}
      lead={words.lead}
      submit={words.submit}
      ready={() => clientsProblem({ ...form, kind: "nfs" }) === undefined && versions.length > 0}
      knownFields={["clients"]}
      body={(force) => ({ ...changedOf(valuesOf(first), valuesOf(form)), anyone: form.anyone, force })}
      ask={(body, headers) => api.PATCH("/api/v1/datastores/{datastore_id}", { params: pathOf(store), body, headers })}
    >
      {(problem) => (
        <>
          <Clients form={form} onChange={change} problem={problem?.at("clients")} />
          <FormGroup role="group" label={words.versions} fieldId="versions" isStack>
            {VERSIONS.map((version) => (
              <Checkbox
                key={version}
                id={`version-${version}`}
                label={words.version[version]}
                isChecked={versions.includes(version)}
                onChange={(_event, checked) =>
                  change({ versions: checked ? [...versions, version] : versions.filter((other) => other !== version) })
                }
              />
            ))}
            {versions.length === 0 && <p role="alert">{words.noVersion}</p>}
          </FormGroup>
        </>
      )}
    </JobDialog>
  );
}
