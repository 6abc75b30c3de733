// SPDX-License-Identifier: Apache-2.0
/** Settings of a datastore that are changed seldom: LUN number and alert threshold; independence of a clone; giving one up. */

import { api } from "../../api/client";
import type { Datastore } from "../../api/types";
import { changedOf } from "../../parts/changed";
import { TextField } from "../../parts/field";
import { JobDialog } from "../../parts/job-dialog";
import { text } from "../../text";
import type { DialogProps } from "./actions";
import { lunProblem, thresholdProblem } from "./form-values";
import { pathOf, useKnownStore, useStoreForm } from "./known-store";

const words = text.datastores.detail.actions;
const { size } = text.datastores.wizard;

function settingsOf(store: Datastore) {
  return { lun: String(store.lun ?? ""), threshold: String(store.soft_threshold ?? "") };
}

/** As the service takes them. */
function bodyOf({ lun, threshold }: ReturnType<typeof settingsOf>) {
  return { lun: lun === "" ? null : Number(lun), soft_threshold: threshold === "" ? null : Number(threshold) };
}

export function Settings({ store, ...job }: DialogProps) {
  const { known, first, form, change } = useStoreForm(store, settingsOf);
  const wrong = { lun: form.lun === "" ? size.lunWrong : lunProblem(form.lun), threshold: thresholdProblem(form.threshold) };
  const changed = changedOf(bodyOf(first), bodyOf(form));
  return (
    <JobDialog
      {...job}
      known={known}
      title={words.settings.title(store.name)}
      lead={words.settings.lead}
      submit={words.settings.submit}
      ready={(problem) =>
        wrong.lun === undefined &&
        wrong.threshold === undefined &&
        (Object.keys(changed).length > 0 || problem?.effect === "unknown")
      }
      knownFields={["lun", "soft_threshold"]}
      body={(force) => ({ ...changed, force })}
      ask={(body, headers) => api.PATCH("/api/v1/datastores/{datastore_id}", { params: pathOf(store), body, headers })}
    >
      {(problem) => (
        <>
          <TextField
            id="lun-number"
            label={size.lun}
            value={form.lun}
            onChange={(lun) => change({ lun: lun.trim() })}
            problem={wrong.lun ?? problem?.fields.get("lun")}
            required
          />
          <TextField
            id="new-threshold"
            label={size.threshold}
            help={size.thresholdHelp}
            value={form.threshold}
            onChange={(threshold) => change({ threshold: threshold.trim() })}
            problem={wrong.threshold ?? problem?.fields.get("soft_threshold")}
          />
        </>
      )}
    </JobDialog>
  );
}

/** Of a clone: its origin can be purged then. */
export function Promote({ store, ...job }: DialogProps) {
  return (
    <JobDialog
      {...job}
      title={words.promote.title(store.name)}
      lead={words.promote.lead}
      submit={words.promote.submit}
      body={() => null}
      ask={(_body, headers) => api.POST("/api/v1/datastores/{datastore_id}/promote", { params: pathOf(store), headers })}
    />
  );
}

/** Of a missing one. */
export function Forget({ store, ...job }: DialogProps) {
  const known = useKnownStore(store);
  return (
    <JobDialog
      {...job}
      known={known}
      danger
      title={words.forget.title(store.name)}
      lead={words.forget.lead}
      submit={words.forget.submit}
      confirm={known.thing.name}
      body={(force) => ({ force })}
      ask={(query, headers) =>
        api.POST("/api/v1/datastores/{datastore_id}/forget", { params: { ...pathOf(store), query }, headers })
      }
    />
  );
}
