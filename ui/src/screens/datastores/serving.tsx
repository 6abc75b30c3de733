// SPDX-License-Identifier: Apache-2.0
/** The further clients of an NFS datastore. */

import { api } from "../../api/client";
import type { Datastore } from "../../api/types";
import { changedOf } from "../../parts/changed";
import { JobDialog } from "../../parts/job-dialog";
import { text } from "../../text";
import type { DialogProps } from "./actions";
import { Clients, type ClientsForm } from "./host-groups";
import { pathOf, useStoreForm } from "./known-store";
import { clientsOf, clientsProblem } from "./form-values";

const words = text.datastores.detail.actions.serving;

function formOf(store: Datastore): ClientsForm {
  return { clients: store.clients.join(", "), anyone: false };
}

/** The request's body. */
function valuesOf({ clients }: ClientsForm) {
  return { clients: clientsOf({ clients }) };
}

/** Sends changed fields only, so that meanwhile changes by others to other fields persist. */
export function Serving({ store, ...job }: DialogProps) {
  const { known, first, form, change } = useStoreForm(store, formOf);
  return (
    <JobDialog
      {...job}
      known={known}
      title={words.title(store.name)}
      lead={words.lead}
      submit={words.submit}
      ready={() => clientsProblem({ ...form, kind: "nfs" }) === undefined}
      knownFields={["clients"]}
      body={(force) => ({ ...changedOf(valuesOf(first), valuesOf(form)), anyone: form.anyone, force })}
      ask={(body, headers) => api.PATCH("/api/v1/datastores/{datastore_id}", { params: pathOf(store), body, headers })}
    >
      {(problem) => <Clients form={form} onChange={change} problem={problem?.at("clients")} />}
    </JobDialog>
  );
}
