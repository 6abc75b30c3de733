// SPDX-License-Identifier: Apache-2.0
/** How an NFS datastore is exported: to whom in addition to its host groups, by which versions, and who is nobody. */

import { Checkbox, FormGroup, Radio } from "@patternfly/react-core";
import { api } from "../../api/client";
import type { Datastore } from "../../api/types";
import { changedOf } from "../../parts/changed";
import { TextField } from "../../parts/field";
import { JobDialog } from "../../parts/job-dialog";
import { text } from "../../text";
import type { DialogProps } from "./actions";
import { pathOf, useStoreForm } from "./known-store";
import { clientsOf, clientsProblem } from "./form-values";

const words = text.datastores.detail.actions.serving;
const VERSIONS = ["3", "4"] as const;
const SQUASH = ["none", "root", "all"] as const;
type Squash = (typeof SQUASH)[number];

function squashOf(store: Datastore): Squash {
  return SQUASH.find((one) => one === store.squash) ?? "none";
}

interface Form {
  readonly clients: string;
  readonly versions: readonly string[];
  readonly squash: Squash;
}

function formOf(store: Datastore): Form {
  return { clients: store.clients.join(", "), versions: store.versions, squash: squashOf(store) };
}

/** As the service takes it. */
function valuesOf({ clients, versions, squash }: Form) {
  return { clients: clientsOf({ clients }), versions: VERSIONS.filter((one) => versions.includes(one)), squash };
}

/** Sends what was changed only: what somebody else changed meanwhile stays. */
export function Serving({ store, ...job }: DialogProps) {
  const { known, first, form, change } = useStoreForm(store, formOf);
  const { versions, squash } = form;
  const wrong = clientsProblem({ kind: store.kind, clients: form.clients });
  return (
    <JobDialog
      {...job}
      known={known}
      title={words.title(store.name)}
      lead={words.lead}
      submit={words.submit}
      ready={() => wrong === undefined && versions.length > 0}
      knownFields={["clients"]}
      body={(force) => ({ ...changedOf(valuesOf(first), valuesOf(form)), force })}
      ask={(body, headers) => api.PATCH("/api/v1/datastores/{datastore_id}", { params: pathOf(store), body, headers })}
    >
      {(problem) => (
        <>
          <TextField
            id="clients"
            label={text.datastores.wizard.hosts.clients}
            help={words.clientsHelp}
            value={form.clients}
            onChange={(clients) => change({ clients })}
            problem={wrong ?? problem?.at("clients")}
          />
          <FormGroup role="group" label={words.versions} fieldId="versions" isStack>
            {VERSIONS.map((one) => (
              <Checkbox
                key={one}
                id={`version-${one}`}
                label={words.version[one]}
                isChecked={versions.includes(one)}
                onChange={(_event, checked) =>
                  change({ versions: checked ? [...versions, one] : versions.filter((other) => other !== one) })
                }
              />
            ))}
            {versions.length === 0 && <p role="alert">{words.noVersion}</p>}
          </FormGroup>
          <FormGroup role="radiogroup" label={words.squash} fieldId="squash" isStack>
            {SQUASH.map((one) => (
              <Radio
                key={one}
                id={`squash-${one}`}
                name="squash"
                label={text.datastores.detail.overview.squashed[one]}
                description={words.squashHelp[one]}
                isChecked={squash === one}
                onChange={() => change({ squash: one })}
              />
            ))}
          </FormGroup>
        </>
      )}
    </JobDialog>
  );
}
