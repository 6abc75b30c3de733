// SPDX-License-Identifier: Apache-2.0
/** Schedules of scrubs: a pool, every so many days, at a time of day. */

import { useQuery } from "@tanstack/react-query";
import { api } from "../../api/client";
import type { ApiProblem } from "../../api/problem";
import { poolsQuery, scheduleQuery } from "../../api/queries";
import type { Schedule } from "../../api/types";
import { ChangeDialog } from "../../parts/change-dialog";
import { changedOf } from "../../parts/changed";
import { ChoiceField, TextField } from "../../parts/field";
import { useForm } from "../../parts/form";
import { useKnownForm, type Fact } from "../../parts/known";
import { text } from "../../text";
import { countOf, minutesOf } from "./interval";
import { StartFields, wrongTime } from "./tiers";

const words = text.schedules;
const CHANGES = ["schedules"];
const FIELDS = ["name", "pool", "every_minutes", "at", "time_zone"];
const DAY = 1440;

function formOf({ name, pool, every_minutes: minutes, at, time_zone }: Schedule) {
  return { name, pool: pool ?? "", days: String(minutes % DAY === 0 ? minutes / DAY : countOf(minutes)), at, time_zone };
}

type Form = ReturnType<typeof formOf>;

/** As the service takes it; null while something of it is wrong. */
function valuesOf({ name, days, at, time_zone }: Form) {
  const every = minutesOf(days, "days");
  return name === "" || every === null || wrongTime(at) || time_zone === ""
    ? null
    : { name, every_minutes: every, at, time_zone };
}

interface FieldsProps {
  readonly form: Form;
  readonly onChange: (part: Partial<Form>) => void;
  readonly problem: ApiProblem | null;
}

function Fields({ form, onChange, problem }: FieldsProps) {
  return (
    <>
      <TextField
        id="scrub-name"
        label={words.form.name}
        value={form.name}
        onChange={(name) => onChange({ name })}
        problem={problem?.at("name")}
        required
      />
      <TextField
        id="scrub-days"
        label={words.scrub.days}
        help={words.scrub.daysHelp}
        value={form.days}
        onChange={(days) => onChange({ days })}
        problem={minutesOf(form.days, "days") === null ? words.scrub.daysWrong : problem?.at("every_minutes")}
        required
      />
      <StartFields form={form} onChange={onChange} problem={problem} />
    </>
  );
}

export function AddScrub({ onClose }: { readonly onClose: () => void }) {
  const { data: pools = [] } = useQuery(poolsQuery);
  const [form, change] = useForm<Form>({ name: "", pool: "", days: "28", at: "02:00", time_zone: "UTC" });
  const pool = form.pool === "" ? (pools[0]?.name ?? "") : form.pool;
  const values = valuesOf(form);
  return (
    <ChangeDialog
      title={words.scrub.title}
      lead={words.scrub.lead}
      submit={words.create.submit}
      done={words.create.done(form.name)}
      changes={CHANGES}
      knownFields={FIELDS}
      ready={values !== null && pool !== ""}
      onClose={onClose}
      body={() => ({ name: "", every_minutes: 0, ...values, kind: "scrub" as const, pool, enabled: true })}
      ask={(body, headers) => api.POST("/api/v1/schedules", { body, headers })}
    >
      {(problem) => (
        <>
          <Fields form={form} onChange={change} problem={problem} />
          <ChoiceField
            id="scrub-pool"
            label={words.scrub.pool}
            value={pool}
            options={pools.map((pool) => [pool.name, pool.name])}
            onChange={(chosen) => change({ pool: chosen })}
            problem={problem?.at("pool")}
          />
        </>
      )}
    </ChangeDialog>
  );
}

/** Shown of a schedule that another admin has changed meanwhile. */
const factsOf = ({ name, every_minutes: minutes, at, time_zone }: Schedule): readonly Fact[] => [
  [words.form.name, name],
  [words.scrub.days, String(minutes / DAY)],
  [words.tiers.labels.at, at],
  [words.tiers.labels.time_zone, time_zone],
];

export function ChangeScrub({ schedule, onClose }: { readonly schedule: Schedule; readonly onClose: () => void }) {
  const { known, first, form, change } = useKnownForm(schedule, scheduleQuery(schedule.id), factsOf, formOf);
  const values = valuesOf(form);
  return (
    <ChangeDialog
      known={known}
      title={words.change.title(schedule.name)}
      submit={words.change.submit}
      done={words.change.done(form.name)}
      changes={CHANGES}
      knownFields={FIELDS}
      ready={values !== null}
      onClose={onClose}
      body={() => (values === null ? {} : changedOf(valuesOf(first) ?? {}, values))}
      ask={(body, headers) =>
        api.PATCH("/api/v1/schedules/{schedule_id}", { params: { path: { schedule_id: schedule.id } }, body, headers })
      }
    >
      {(problem) => <Fields form={form} onChange={change} problem={problem} />}
    </ChangeDialog>
  );
}
