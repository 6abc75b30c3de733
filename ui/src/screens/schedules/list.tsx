// SPDX-License-Identifier: Apache-2.0
/** Schedules: datastores, times of snapshots, and how many snapshots are retained. */

import { Button, EmptyState, EmptyStateBody, Label } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { datastoresQuery, schedulesQuery } from "../../api/queries";
import type { Datastore, Schedule } from "../../api/types";
import { ActionsMenu } from "../../parts/actions-menu";
import { useBegun } from "../../parts/begun";
import type { Place } from "../../parts/job-dialog";
import { Screen } from "../../parts/page";
import { QueryBoundary } from "../../parts/states";
import { Time } from "../../parts/values";
import { May, useMay } from "../../session/session";
import { text } from "../../text";
import { AddSchedule, ChangeSchedule, DeleteSchedule, PauseSchedule, RunSchedule } from "./dialogs";
import { formatSpan, reachOfAll, TIERS } from "./interval";
import { AddScrub, ChangeScrub } from "./scrub";

const words = text.schedules;

export default function SchedulesScreen() {
  const query = useQuery(schedulesQuery);
  const { data: stores } = useQuery(datastoresQuery);
  const [adding, setAdding] = useState<"snapshots" | "scrub" | null>(null);
  const [chosen, setChosen] = useState<Chosen | null>(null);
  const [begin, news] = useBegun();
  return (
    <Screen
      title={words.title}
      lead={words.lead}
      actions={
        <May least="operator">
          <Button onClick={() => setAdding("snapshots")}>{words.create.action}</Button>
          <Button variant="secondary" onClick={() => setAdding("scrub")}>
            {words.scrub.action}
          </Button>
        </May>
      }
    >
      <QueryBoundary query={query} what={words.title} lines={5}>
        {(schedules) =>
          schedules.length === 0 ? (
            <EmptyState titleText={words.empty.title} headingLevel="h2">
              <EmptyStateBody>{words.empty.body}</EmptyStateBody>
            </EmptyState>
          ) : (
            <ScheduleTable schedules={schedules} stores={stores} onChoose={setChosen} />
          )
        }
      </QueryBoundary>
      {adding === "snapshots" && <AddSchedule onClose={() => setAdding(null)} />}
      {adding === "scrub" && <AddScrub onClose={() => setAdding(null)} />}
      {chosen && <ActionDialog {...chosen} onBegin={begin} onClose={() => setChosen(null)} />}
      {news}
    </Screen>
  );
}

interface TableProps {
  readonly schedules: readonly Schedule[];
  readonly stores: readonly Datastore[] | undefined;
  readonly onChoose: (chosen: Chosen) => void;
}

function ScheduleTable({ schedules, stores, onChoose }: TableProps) {
  const { columns } = words;
  return (
    <Table aria-label={words.list} variant="compact">
      <Thead>
        <Tr>
          <Th>{columns.name}</Th>
          <Th width={20}>{columns.datastores}</Th>
          <Th>{columns.state}</Th>
          <Th>{columns.every}</Th>
          <Th>{columns.keep}</Th>
          <Th>{columns.reach}</Th>
          <Th>{columns.last}</Th>
          <Th>{columns.next}</Th>
          <Th screenReaderText={columns.actions} />
        </Tr>
      </Thead>
      <Tbody>
        {schedules.map((schedule) => (
          <Tr key={schedule.id}>
            <Td dataLabel={columns.name} modifier="breakWord">
              {schedule.name}
            </Td>
            <Td dataLabel={columns.datastores} modifier="breakWord">
              {schedule.pool != null
                ? words.scrub.of(schedule.pool)
                : stores === undefined
                  ? schedule.datastores.length
                  : namesOf(schedule, stores)}
            </Td>
            <Td dataLabel={columns.state}>
              <Label isCompact color={schedule.enabled ? "green" : "orange"}>
                {schedule.enabled ? words.state.on : words.state.off}
              </Label>
            </Td>
            <Td dataLabel={columns.every}>{formatSpan(schedule.every_minutes)}</Td>
            <Td dataLabel={columns.keep}>{schedule.kind === "scrub" ? "–" : retainsOf(schedule)}</Td>
            <Td dataLabel={columns.reach}>{schedule.kind === "scrub" ? "–" : reachOfAll(schedule)}</Td>
            <Td dataLabel={columns.last}>{schedule.last_at == null ? text.common.never : <Time at={schedule.last_at} ago />}</Td>
            <Td dataLabel={columns.next}>
              <Next schedule={schedule} />
            </Td>
            <Td isActionCell>
              <May least="operator">
                <ScheduleMenu schedule={schedule} onChoose={onChoose} />
              </May>
            </Td>
          </Tr>
        ))}
      </Tbody>
    </Table>
  );
}

function namesOf(schedule: Schedule, stores: readonly Datastore[]): string {
  const present = stores.filter((store) => store.state === "active" && schedule.datastores.includes(store.id));
  const gone = schedule.datastores.length - present.length;
  return [...present.map((store) => store.name), ...(gone > 0 ? [words.gone(gone)] : [])].join(", ");
}

function retainsOf(schedule: Schedule): string {
  const tiers = TIERS.filter((tier) => schedule[tier] > 0).map((tier) => words.tiers.counts[tier](schedule[tier]));
  const days = schedule.protect_days;
  return [words.keeps(schedule.keep), ...tiers, ...(days > 0 ? [words.protects(words.span.days(days))] : [])].join(", ");
}

function Next({ schedule: { next_at: next, last_at: last, enabled } }: { readonly schedule: Schedule }) {
  if (next == null) return enabled ? text.hosts.state.unknown : "–";
  if (Date.parse(next) <= Date.now()) return last == null ? words.soon : words.overdue;
  return <Time at={next} ago />;
}

/** An action that the user has chosen, for its dialog. The dialog stays if the schedule leaves the list. */
interface Chosen {
  readonly schedule: Schedule;
  readonly action: "change" | "pause" | "run" | "delete";
}

interface MenuProps extends Pick<TableProps, "onChoose"> {
  readonly schedule: Schedule;
}

function ScheduleMenu({ schedule, onChoose }: MenuProps) {
  const admin = useMay("admin"); // a run displaces older snapshots
  const choice = (action: Chosen["action"], name: string) => ({ name, onChoose: () => onChoose({ schedule, action }) });
  return (
    <ActionsMenu
      row
      label={words.actions(schedule.name)}
      choices={[
        choice("change", words.change.action),
        choice("pause", schedule.enabled ? words.pause.action : words.resume.action),
        ...(admin ? [choice("run", words.run.action)] : []),
        { ...choice("delete", words.delete.action), danger: true },
      ]}
    />
  );
}

function ActionDialog({ schedule, action, onBegin, onClose }: Chosen & Place) {
  const about = { schedule, onClose };
  return (
    <>
      {action === "change" && (schedule.kind === "scrub" ? <ChangeScrub {...about} /> : <ChangeSchedule {...about} />)}
      {action === "pause" && <PauseSchedule {...about} />}
      {action === "run" && <RunSchedule {...about} onBegin={onBegin} />}
      {action === "delete" && <DeleteSchedule {...about} />}
    </>
  );
}
