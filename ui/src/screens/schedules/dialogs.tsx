// SPDX-License-Identifier: Apache-2.0
/** Dialogs of schedules: create, change, pause, run now, delete. */

import { Checkbox, FormGroup, FormHelperText, HelperText, HelperTextItem, TextInput } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api } from "../../api/client";
import type { ApiProblem } from "../../api/problem";
import { datastoresQuery, roomQuery, scheduleQuery } from "../../api/queries";
import type { Schedule } from "../../api/types";
import { formatBytes } from "../../format/bytes";
import { ChangeDialog } from "../../parts/change-dialog";
import { changedOf } from "../../parts/changed";
import { ChoiceField, TextField } from "../../parts/field";
import { useForm } from "../../parts/form";
import { JobDialog, type Place } from "../../parts/job-dialog";
import { useKnown, useKnownForm, type Fact } from "../../parts/known";
import { Alert } from "../../parts/patternfly";
import { text } from "../../text";
import { NO_TIERS, TIER_FIELDS, TierFields, tiersOf, tierValuesOf, type TierForm } from "./tiers";
import { shownOf } from "./choices";
import { countOf, retainedOf, minutesOf, reachOf, unitOf, UNITS, type Unit } from "./interval";

const words = text.schedules;
const CHANGES = ["schedules", "alerts"];
const FIELDS = ["name", "datastores", "every_minutes", "keep", ...TIER_FIELDS];
/** Number of datastores listed without a search. */
const FEW = 12;

interface Form {
  readonly name: string;
  readonly datastores: readonly string[];
  readonly every: { readonly count: string; readonly unit: Unit };
  readonly keep: string;
  readonly tiers: TierForm;
}

const NOTHING_YET: Form = { name: "", datastores: [], every: { count: "1", unit: "hours" }, keep: "24", tiers: NO_TIERS };

function formOf(schedule: Schedule): Form {
  const minutes = schedule.every_minutes;
  const { name, datastores, keep } = schedule;
  const every = { count: String(countOf(minutes)), unit: unitOf(minutes) };
  return { name, datastores, every, keep: String(keep), tiers: tiersOf(schedule) };
}

/** The request's body; null while the input has a problem. */
function valuesOf({ name, datastores, every: { count, unit }, keep, tiers }: Form) {
  const every = minutesOf(count, unit);
  const retained = retainedOf(keep);
  const more = tierValuesOf(tiers);
  if (name === "" || datastores.length === 0 || every === null || retained === null || more === null) return null;
  return { name, datastores: datastores.toSorted(), every_minutes: every, keep: retained, ...more };
}

function reachSaid(every: number, retained: number): string {
  return retained === 1 ? words.form.reachNone : words.form.reach(reachOf(every, retained));
}

interface FieldsProps {
  readonly form: Form;
  readonly onChange: (part: Partial<Form>) => void;
  readonly problem: ApiProblem | null;
}

function Fields({ form, onChange, problem }: FieldsProps) {
  const every = minutesOf(form.every.count, form.every.unit);
  const retained = retainedOf(form.keep);
  const reach = every === null || retained === null ? "" : ` ${reachSaid(every, retained)}`;
  return (
    <>
      <TextField
        id="schedule-name"
        label={words.form.name}
        value={form.name}
        onChange={(name) => onChange({ name })}
        problem={problem?.at("name")}
        required
      />
      <Datastores form={form} onChange={onChange} problem={problem} />
      <TextField
        id="schedule-every"
        label={words.form.every}
        help={words.form.everyHelp}
        value={form.every.count}
        onChange={(count) => onChange({ every: { ...form.every, count } })}
        problem={every === null ? words.form.everyWrong : problem?.at("every_minutes")}
        required
      />
      <ChoiceField
        id="schedule-unit"
        label={words.form.unit}
        value={form.every.unit}
        options={UNITS.map((unit) => [unit, words.form.units[unit]])}
        onChange={(chosen) => onChange({ every: { ...form.every, unit: UNITS.find((unit) => unit === chosen) ?? "hours" } })}
      />
      <TextField
        id="schedule-keep"
        label={words.form.keep}
        help={`${words.form.keepHelp}${reach}`}
        value={form.keep}
        onChange={(keep) => onChange({ keep })}
        problem={retained === null ? words.form.keepWrong : problem?.at("keep")}
        required
      />
      <TierFields form={form.tiers} onChange={(part) => onChange({ tiers: { ...form.tiers, ...part } })} problem={problem} />
    </>
  );
}

/** Present datastores, and chosen ones that were deleted, so that they can be removed. */
function Datastores({ form, onChange, problem }: FieldsProps) {
  const { data: stores = [] } = useQuery(datastoresQuery);
  const active = stores.filter((store) => store.state === "active");
  const gone = form.datastores.filter((id) => !active.some((store) => store.id === id));
  const [search, setSearch] = useState("");
  const wrong = problem?.at("datastores");
  const choices = [
    ...active.map((store) => ({ id: store.id, name: store.name, of: store.pool })),
    ...gone.map((id) => ({ id, name: id, of: words.gone(1) })),
  ];
  return (
    <FormGroup role="group" label={words.form.datastores} fieldId="schedule-datastores" isRequired>
      {choices.length > FEW && (
        <TextInput
          type="search"
          aria-label={words.form.search}
          placeholder={words.form.search}
          value={search}
          onChange={(_event, typed) => setSearch(typed)}
          // It filters the list; it does not send the form.
          onKeyDown={(event) => {
            if (event.key === "Enter") event.preventDefault();
          }}
        />
      )}
      <div className="zv-choices">
        {shownOf(choices, search, form.datastores).map(({ id, name, of }) => (
          <Checkbox
            key={id}
            id={`scheduled-${id}`}
            label={name}
            description={of}
            isChecked={form.datastores.includes(id)}
            onChange={(_event, on) => {
              const others = form.datastores.filter((other) => other !== id);
              onChange({ datastores: on ? [...others, id] : others });
            }}
          />
        ))}
      </div>
      <FormHelperText>
        <HelperText isLiveRegion>
          <HelperTextItem variant={wrong === undefined ? "default" : "error"}>
            {wrong ?? (choices.length === 0 ? words.form.noDatastores : words.form.datastoresHelp)}
          </HelperTextItem>
        </HelperText>
      </FormHelperText>
    </FormGroup>
  );
}

interface Close {
  readonly onClose: () => void;
}

export function AddSchedule({ onClose }: Close) {
  const [form, change] = useForm(NOTHING_YET);
  const values = valuesOf(form);
  return (
    <ChangeDialog
      title={words.create.title}
      submit={words.create.submit}
      done={words.create.done(form.name)}
      changes={CHANGES}
      knownFields={FIELDS}
      ready={values !== null}
      onClose={onClose}
      body={() => ({ name: "", datastores: [], every_minutes: 0, keep: 0, ...values, enabled: true })}
      ask={(body, headers) => api.POST("/api/v1/schedules", { body, headers })}
    >
      {(problem) => <Fields form={form} onChange={change} problem={problem} />}
    </ChangeDialog>
  );
}

interface AboutSchedule extends Close {
  readonly schedule: Schedule;
}

/** The API path of the schedule. */
function pathOf(schedule: Schedule) {
  return { path: { schedule_id: schedule.id } };
}

/** Facts of a schedule that changed while the dialog was open. */
function useFacts(): (schedule: Schedule) => readonly Fact[] {
  const { data: stores = [] } = useQuery(datastoresQuery);
  return ({ name, datastores, every_minutes: every, keep, enabled, ...more }) => [
    [words.form.name, name],
    [words.form.datastores, text.common.listed(datastores.map((id) => stores.find((store) => store.id === id)?.name ?? id))],
    [words.form.every, words.span[unitOf(every)](countOf(every))],
    [words.form.keep, String(keep)],
    ...TIER_FIELDS.map((name) => [words.tiers.labels[name], String(more[name])] as const),
    [words.columns.state, enabled ? words.state.on : words.state.off],
  ];
}

function useKnownSchedule(schedule: Schedule) {
  return useKnown(schedule, scheduleQuery(schedule.id), useFacts());
}

/**
 * Sends changed fields only: a number of retained snapshots that was raised meanwhile is not lowered again, and a deleted
 * datastore does not prevent other changes.
 */
export function ChangeSchedule({ schedule, onClose }: AboutSchedule) {
  const { known, first, form, change } = useKnownForm(schedule, scheduleQuery(schedule.id), useFacts(), formOf);
  const values = valuesOf(form);
  return (
    <ChangeDialog
      known={known}
      title={words.change.title(schedule.name)}
      lead={words.changeLead}
      submit={words.change.submit}
      done={words.change.done(form.name)}
      changes={CHANGES}
      knownFields={FIELDS}
      ready={values !== null}
      onClose={onClose}
      body={() => (values === null ? {} : changedOf(valuesOf(first) ?? {}, values))}
      ask={(body, headers) => api.PATCH("/api/v1/schedules/{schedule_id}", { params: pathOf(schedule), body, headers })}
    >
      {(problem) => (
        <>
          <Fields form={form} onChange={change} problem={problem} />
          <Room schedule={schedule} />
        </>
      )}
    </ChangeDialog>
  );
}

export function PauseSchedule({ schedule, onClose }: AboutSchedule) {
  // The state when the dialog opened: the request does what the dialog says even if the schedule was changed meanwhile.
  const [enabled] = useState(!schedule.enabled);
  const known = useKnownSchedule(schedule);
  const said = enabled ? words.resume : words.pause;
  const deletes = enabled && schedule.kind === "snapshot";
  return (
    <ChangeDialog
      known={known}
      danger={deletes}
      title={said.title(schedule.name)}
      lead={deletes ? `${said.lead} ${words.resume.deletes}` : said.lead}
      submit={said.submit}
      done={said.done(schedule.name)}
      changes={CHANGES}
      onClose={onClose}
      body={() => ({ enabled })}
      ask={(body, headers) => api.PATCH("/api/v1/schedules/{schedule_id}", { params: pathOf(schedule), body, headers })}
    />
  );
}

export function DeleteSchedule({ schedule, onClose }: AboutSchedule) {
  const known = useKnownSchedule(schedule);
  return (
    <ChangeDialog
      known={known}
      danger
      title={words.delete.title(schedule.name)}
      lead={words.delete.lead}
      submit={words.delete.submit}
      confirm={known.thing.name}
      done={words.delete.done(schedule.name)}
      changes={CHANGES}
      onClose={onClose}
      body={() => null}
      ask={(_body, headers) => api.DELETE("/api/v1/schedules/{schedule_id}", { params: pathOf(schedule), headers })}
    />
  );
}

export function RunSchedule({ schedule, ...job }: Place & { readonly schedule: Schedule }) {
  return (
    <JobDialog
      {...job}
      title={words.run.title(schedule.name)}
      lead={words.run.lead}
      submit={words.run.submit}
      body={() => null}
      ask={(_body, headers) => api.POST("/api/v1/schedules/{schedule_id}/run", { params: pathOf(schedule), headers })}
    >
      {() => schedule.kind === "snapshot" && <Room schedule={schedule} />}
    </JobDialog>
  );
}

/** Only snapshots of thick datastores need space when they are taken. */
function Room({ schedule }: { readonly schedule: Schedule }) {
  const { data: room } = useQuery(roomQuery(schedule.id));
  if (room === undefined || room.needed === "0") return null;
  const enough = BigInt(room.needed) <= BigInt(room.available);
  return (
    <Alert
      isInline
      isPlain
      variant={enough ? "info" : "warning"}
      title={words.room(formatBytes(room.needed), formatBytes(room.available))}
    />
  );
}
