// SPDX-License-Identifier: Apache-2.0
/** Thin or thick. */

import { FormGroup, Radio } from "@patternfly/react-core";
import { api } from "../../api/client";
import type { Datastore } from "../../api/types";
import { changedOf } from "../../parts/changed";
import { JobDialog } from "../../parts/job-dialog";
import { text } from "../../text";
import type { DialogProps } from "./actions";
import { pathOf, useStoreForm } from "./known-store";

const { size } = text.datastores.wizard;
const words = text.datastores.detail.actions.provisioning;

interface Props {
  readonly thick: boolean;
  readonly onChange: (thick: boolean) => void;
}

export function Provisioning({ thick, onChange }: Props) {
  return (
    <FormGroup role="radiogroup" label={size.provisioning} fieldId="provisioning" isStack>
      {[size.thin, size.thick].map(({ label, help }, index) => (
        <Radio
          key={label}
          id={`provisioning-${index === 1 ? "thick" : "thin"}`}
          name="provisioning"
          label={label}
          description={help}
          isChecked={thick === (index === 1)}
          onChange={() => onChange(index === 1)}
        />
      ))}
    </FormGroup>
  );
}

function formOf({ thick }: Datastore) {
  return { thick };
}

export function ChangeProvisioning({ store, ...job }: DialogProps) {
  const { known, first, form, change } = useStoreForm(store, formOf);
  return (
    <JobDialog
      {...job}
      known={known}
      title={words.title(store.name)}
      lead={words.lead}
      submit={words.submit}
      body={() => changedOf(first, form)}
      ask={(body, headers) => api.PATCH("/api/v1/datastores/{datastore_id}", { params: pathOf(store), body, headers })}
    >
      {() => <Provisioning thick={form.thick} onChange={(thick) => change({ thick })} />}
    </JobDialog>
  );
}
