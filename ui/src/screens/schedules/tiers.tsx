// SPDX-License-Identifier: Apache-2.0
/** Start of a schedule's day, retention of older snapshots, and their protection against destruction. */

import { FormFieldGroupExpandable, FormFieldGroupHeader } from "@patternfly/react-core";
import type { ApiProblem } from "../../api/problem";
import type { Schedule } from "../../api/types";
import { TextField } from "../../parts/field";
import { text } from "../../text";
import { TIERS } from "./interval";

const words = text.schedules.tiers;
const NUMBERS = [...TIERS, "protect_days"] as const;
export const TIER_FIELDS = [...NUMBERS, "at", "time_zone"] as const;

/** As typed. */
export type TierForm = Readonly<Record<(typeof TIER_FIELDS)[number], string>>;

export const NO_TIERS: TierForm = {
  ...{ hourly: "0", daily: "0", weekly: "0", monthly: "0", protect_days: "0" },
  ...{ at: "00:00", time_zone: "UTC" },
};

export function tiersOf(schedule: Schedule): TierForm {
  const { hourly, daily, weekly, monthly, protect_days, at, time_zone } = schedule;
  const numbers = { hourly, daily, weekly, monthly, protect_days };
  return { ...NO_TIERS, ...Object.fromEntries(NUMBERS.map((name) => [name, String(numbers[name])])), at, time_zone };
}

/** The request's body; null while the input has a problem. */
export function tierValuesOf(form: TierForm) {
  const { at, time_zone } = form;
  if (NUMBERS.some((name) => wrongNumber(name, form[name])) || wrongTime(at) || time_zone === "") return null;
  const [hourly, daily, weekly, monthly, protect_days] = NUMBERS.map((name) => Number(form[name])) as [
    number,
    number,
    number,
    number,
    number,
  ];
  return { hourly, daily, weekly, monthly, protect_days, at, time_zone };
}

/** The service's limits. */
const mostOf = (name: (typeof NUMBERS)[number]) => (name === "protect_days" ? 3650 : 1000);
export const wrongNumber = (name: (typeof NUMBERS)[number], typed: string) =>
  !/^[0-9]{1,4}$/.test(typed) || Number(typed) > mostOf(name);
export const wrongTime = (typed: string) => !/^([01][0-9]|2[0-3]):[0-5][0-9]$/.test(typed);

interface NumberProps {
  readonly name: (typeof NUMBERS)[number];
  readonly help?: string;
  readonly value: string;
  readonly onChange: (typed: string) => void;
  readonly problem: ApiProblem | null;
}

export function NumberField({ name, problem, ...field }: NumberProps) {
  return (
    <TextField
      id={`schedule-${name}`}
      label={words.labels[name]}
      problem={wrongNumber(name, field.value) ? words.numberWrong(mostOf(name)) : problem?.at(name)}
      {...field}
    />
  );
}

interface Props {
  readonly form: TierForm;
  readonly onChange: (part: Partial<TierForm>) => void;
  readonly problem: ApiProblem | null;
}

export function TierFields({ form, onChange, problem }: Props) {
  return (
    <FormFieldGroupExpandable
      isExpanded
      toggleAriaLabel={words.title}
      header={<FormFieldGroupHeader titleText={{ text: words.title, id: "schedule-tiers" }} titleDescription={words.lead} />}
    >
      {NUMBERS.map((name) => (
        <NumberField
          key={name}
          name={name}
          value={form[name]}
          onChange={(typed) => onChange({ [name]: typed })}
          problem={problem}
        />
      ))}
      <StartFields form={form} onChange={onChange} problem={problem} />
    </FormFieldGroupExpandable>
  );
}

interface StartProps {
  readonly form: Pick<TierForm, "at" | "time_zone">;
  readonly onChange: (part: Partial<Pick<TierForm, "at" | "time_zone">>) => void;
  readonly problem: ApiProblem | null;
}

export function StartFields({ form, onChange, problem }: StartProps) {
  return (
    <>
      <TextField
        id="schedule-at"
        label={words.labels.at}
        help={words.atHelp}
        value={form.at}
        onChange={(at) => onChange({ at })}
        problem={wrongTime(form.at) ? words.atWrong : problem?.at("at")}
      />
      <TextField
        id="schedule-zone"
        label={words.labels.time_zone}
        help={words.zoneHelp}
        value={form.time_zone}
        onChange={(time_zone) => onChange({ time_zone })}
        problem={problem?.at("time_zone")}
      />
    </>
  );
}
