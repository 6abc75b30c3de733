// SPDX-License-Identifier: Apache-2.0
/** Dialogs about a whole pool: trim, upgrade, thresholds, destruction. */

import { useState } from "react";
import { api } from "../../api/client";
import { poolQuery } from "../../api/queries";
import type { Pool, Vdev } from "../../api/types";
import { changedOf } from "../../parts/changed";
import { TextField } from "../../parts/field";
import { JobDialog, type Place } from "../../parts/job-dialog";
import { useKnown, useKnownForm, type Fact } from "../../parts/known";
import { text } from "../../text";

const words = text.pools;

export interface AboutPool extends Place {
  readonly pool: Pool;
}

export function isTrimming({ trim, vdevs }: Vdev): boolean {
  return trim === "active" || (vdevs ?? []).some(isTrimming);
}

/** Facts of a pool that changed while the dialog was open. */
function factsOf(pool: Pool): readonly Fact[] {
  return [
    [words.thresholds.warning, `${pool.warning_percent} %`],
    [words.thresholds.critical, `${pool.critical_percent} %`],
  ];
}

const pathOf = (pool: Pool) => ({ path: { name: pool.name } });

export function Trim({ pool, ...job }: AboutPool) {
  // The user confirms this action, also if a trim starts or ends meanwhile.
  const [action] = useState<"start" | "stop">(pool.vdevs.some(isTrimming) ? "stop" : "start");
  return (
    <JobDialog
      {...job}
      title={words.trim.titles[action](pool.name)}
      lead={words.trim.leads[action]}
      submit={words.trim[action]}
      body={() => ({ action }) as const}
      ask={(body, headers) => api.POST("/api/v1/pools/{name}/trim", { params: pathOf(pool), body, headers })}
    />
  );
}

export function Upgrade({ pool, ...job }: AboutPool) {
  return (
    <JobDialog
      {...job}
      danger
      title={words.upgrade.title(pool.name)}
      lead={words.upgrade.lead}
      submit={words.upgrade.submit}
      confirm={pool.name}
      body={() => null}
      ask={(_body, headers) => api.POST("/api/v1/pools/{name}/upgrade", { params: pathOf(pool), headers })}
    />
  );
}

interface Percents {
  readonly warning_percent: string;
  readonly critical_percent: string;
}

function percentsOf(pool: Pool): Percents {
  return { warning_percent: String(pool.warning_percent), critical_percent: String(pool.critical_percent) };
}

export function ChangeThresholds({ pool, ...job }: AboutPool) {
  const { known, first, form, change } = useKnownForm(pool, poolQuery(pool.name), factsOf, percentsOf);
  const numbers = [form.warning_percent, form.critical_percent].every((typed) => /^([1-9][0-9]?|100)$/.test(typed));
  return (
    <JobDialog
      {...job}
      known={known}
      title={words.thresholds.title(pool.name)}
      lead={words.thresholds.lead}
      submit={words.thresholds.submit}
      ready={() => numbers}
      knownFields={["warning_percent", "critical_percent"]}
      body={() =>
        Object.fromEntries(Object.entries(changedOf<Percents>(first, form)).map(([name, typed]) => [name, Number(typed)]))
      }
      ask={(body, headers) => api.PATCH("/api/v1/pools/{name}", { params: pathOf(pool), body, headers })}
    >
      {(problem) => (
        <>
          <TextField
            id="pool-warning"
            label={words.thresholds.warning}
            value={form.warning_percent}
            onChange={(warning_percent) => change({ warning_percent })}
            problem={problem?.fields.get("warning_percent")}
            required
          />
          <TextField
            id="pool-critical"
            label={words.thresholds.critical}
            value={form.critical_percent}
            onChange={(critical_percent) => change({ critical_percent })}
            problem={problem?.fields.get("critical_percent")}
            required
          />
        </>
      )}
    </JobDialog>
  );
}

/** Requires the pool's name. */
export function Destroy({ pool, ...job }: AboutPool) {
  const known = useKnown(pool, poolQuery(pool.name), factsOf);
  return (
    <JobDialog
      {...job}
      known={known}
      danger
      title={words.destroy.title(pool.name)}
      lead={words.destroy.lead}
      submit={words.destroy.submit}
      confirm={pool.name}
      body={(force) => ({ force })}
      ask={(query, headers) => api.DELETE("/api/v1/pools/{name}", { params: { ...pathOf(pool), query }, headers })}
    />
  );
}
