// SPDX-License-Identifier: Apache-2.0
/** Snapshots of one datastore, the newest first, with the space of each. */

import { Button, Checkbox, EmptyState, EmptyStateBody, Label, List, ListItem } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useQuery } from "@tanstack/react-query";
import { memo, useMemo, useState } from "react";
import { api } from "../../api/client";
import { schedulesQuery, snapshotsQuery } from "../../api/queries";
import type { Datastore, Snapshot } from "../../api/types";
import { formatExactTime, formatTime } from "../../format/time";
import { ActionsMenu } from "../../parts/actions-menu";
import { useBegun } from "../../parts/begun";
import { JobDialog } from "../../parts/job-dialog";
import { useSelection, type Select } from "../../parts/selection";
import { QueryBoundary } from "../../parts/states";
import { Bytes, Time } from "../../parts/values";
import { May, useMay } from "../../session/session";
import { text } from "../../text";
import { Clone, TakeSnapshot, type DialogProps } from "./actions";
import { RestoreVm } from "./restore-vm";
import { HoldLabels, HoldSnapshot, ReleaseHold } from "./holds";
import { rowOf, Timeline } from "./timeline";

const words = text.datastores.detail.snapshots;
const actions = text.datastores.detail.actions;
const ACTIONS = {
  clone: actions.clone.action,
  hold: words.holds.hold.action,
  release: words.holds.release.action,
  restoreVm: words.restoreVm.action,
  rollback: actions.rollback.action,
  delete: actions.deleteSnapshots.action,
} as const;
/** With more held snapshots only the number of holds is shown: tags take a request for each snapshot. */
const TAGS_SHOWN = 20;

/** An action that the user has chosen, for its dialog. The dialog stays if the snapshot leaves the list. */
interface Chosen {
  readonly action: keyof typeof ACTIONS;
  readonly snapshot: Snapshot;
  /** Names of the newer snapshots, which a rollback destroys. */
  readonly newer: readonly string[];
}

export function SnapshotsTab({ store }: { readonly store: Datastore }) {
  const query = useQuery(snapshotsQuery(store.id));
  const [taking, setTaking] = useState(false);
  const [chosen, setChosen] = useState<Chosen | null>(null);
  const [begin, news] = useBegun();
  return (
    <>
      <QueryBoundary query={query} what={text.datastores.detail.tabs.snapshots}>
        {(snapshots) =>
          snapshots.length === 0 ? (
            <EmptyState titleText={words.empty.title} headingLevel="h2">
              <EmptyStateBody>{words.empty.body}</EmptyStateBody>
            </EmptyState>
          ) : (
            <>
              <Timeline snapshots={snapshots} />
              <SnapshotTable store={store} snapshots={snapshots} onChoose={setChosen} onBegin={begin} />
            </>
          )
        }
      </QueryBoundary>
      {store.state === "active" && (
        <May least="operator">
          <div className="zv-buttons">
            <Button variant="secondary" onClick={() => setTaking(true)}>
              {actions.snapshot.action}
            </Button>
          </div>
        </May>
      )}
      {taking && <TakeSnapshot stores={[store]} onBegin={begin} onClose={() => setTaking(false)} />}
      {chosen && <ActionDialog {...chosen} store={store} onBegin={begin} onClose={() => setChosen(null)} />}
      {news}
    </>
  );
}

interface TableProps {
  readonly store: Datastore;
  readonly snapshots: readonly Snapshot[];
  readonly onChoose: (chosen: Chosen) => void;
  readonly onBegin: (id: string) => void;
}

function SnapshotTable({ store, snapshots, onChoose, onBegin }: TableProps) {
  const enabled = snapshots.filter((snapshot) => snapshot.holds > 0).length <= TAGS_SHOWN;
  const { data: schedules } = useQuery(schedulesQuery);
  const names = useMemo(() => schedules && new Map(schedules.map(({ id, name }) => [id, name])), [schedules]);
  const [selected, select] = useSelection();
  // What the reader confirms does not change with the list.
  const [deleting, setDeleting] = useState<readonly Snapshot[] | null>(null);
  const mayDelete = useMay("admin") && store.state === "active";
  const selectable = snapshots.filter(isSelectable);
  const chosen = selectable.filter((snapshot) => selected.has(snapshot.guid));
  return (
    <>
      {mayDelete && (
        <Button variant="secondary" isDanger isAriaDisabled={chosen.length === 0} onClick={() => setDeleting(chosen)}>
          {actions.deleteSnapshots.several(chosen.length)}
        </Button>
      )}
      <Table aria-label={words.list} variant="compact">
        <Thead>
          <Tr>
            {mayDelete && (
              <Th>
                <Checkbox
                  id="select-all"
                  aria-label={words.selectAll}
                  isChecked={chosen.length > 0 && chosen.length === selectable.length}
                  isDisabled={selectable.length === 0}
                  onChange={(_event, on) =>
                    select(
                      selectable.map((snapshot) => snapshot.guid),
                      on,
                    )
                  }
                />
              </Th>
            )}
            <Th>{words.columns.created}</Th>
            <Th>{words.columns.name}</Th>
            <Th>{words.columns.schedule}</Th>
            <Th>{words.columns.used}</Th>
            <Th>{words.columns.clones}</Th>
            <Th screenReaderText={text.datastores.detail.actions.menu} />
          </Tr>
        </Thead>
        <Tbody>
          {snapshots.toReversed().map((snapshot) => (
            <Row
              key={snapshot.guid}
              store={store}
              snapshot={snapshot}
              all={snapshots}
              schedules={names}
              showTags={enabled}
              selected={mayDelete ? selected.has(snapshot.guid) : null}
              onSelect={select}
              onChoose={onChoose}
            />
          ))}
        </Tbody>
      </Table>
      {deleting !== null && (
        <DeleteSnapshots
          store={store}
          snapshots={deleting}
          onBegin={(job) => {
            select([...selected], false);
            onBegin(job);
          }}
          onClose={() => setDeleting(null)}
        />
      )}
    </>
  );
}

function isSelectable({ holds, clones }: Snapshot): boolean {
  return holds === 0 && clones.length === 0;
}

interface RowProps extends MenuProps {
  /** Names by identifier; undefined until they are loaded. */
  readonly schedules: ReadonlyMap<string, string> | undefined;
  readonly showTags: boolean;
  /** Null for readers who cannot delete it. */
  readonly selected: boolean | null;
  readonly onSelect: Select;
}

// A thousand rows, of which a selection changes one.
const Row = memo(function Row({ store, snapshot, all, schedules, showTags, selected, onSelect, onChoose }: RowProps) {
  const { schedule } = snapshot;
  return (
    <Tr id={rowOf(snapshot)} tabIndex={-1} className="zv-snapshot">
      {selected !== null && (
        <Td>
          <Checkbox
            id={`select-${snapshot.guid}`}
            aria-label={words.select(snapshot.name)}
            isChecked={selected && isSelectable(snapshot)}
            isDisabled={!isSelectable(snapshot)}
            onChange={(_event, on) => onSelect([snapshot.guid], on)}
          />
        </Td>
      )}
      <Td dataLabel={words.columns.created}>
        <Time at={snapshot.created_at} />
      </Td>
      <Td dataLabel={words.columns.name} modifier="breakWord">
        {snapshot.name} <HoldLabels store={store} snapshot={snapshot} enabled={showTags} />{" "}
        {snapshot.protected_until != null && (
          <Label isCompact>{words.protectedUntil(formatTime(snapshot.protected_until))}</Label>
        )}
      </Td>
      <Td dataLabel={words.columns.schedule}>
        {schedule === null ? "–" : schedules && (schedules.get(schedule) ?? words.deletedSchedule)}
      </Td>
      <Td dataLabel={words.columns.used}>
        <Bytes value={snapshot.used} />
      </Td>
      <Td dataLabel={words.columns.clones}>{snapshot.clones.length}</Td>
      <Td isActionCell>
        <May least="operator">
          {(store.state === "active" || (store.state === "deleted" && snapshot.holds > 0)) && (
            <SnapshotMenu store={store} snapshot={snapshot} all={all} onChoose={onChoose} />
          )}
        </May>
      </Td>
    </Tr>
  );
});

interface MenuProps {
  readonly store: Datastore;
  readonly snapshot: Snapshot;
  /** Those of the datastore, the oldest first. */
  readonly all: readonly Snapshot[];
  readonly onChoose: (chosen: Chosen) => void;
}

function SnapshotMenu({ store, snapshot, all, onChoose }: MenuProps) {
  const admin = useMay("admin");
  const newer = all.slice(all.indexOf(snapshot) + 1);
  const active = store.state === "active";
  // Holds on snapshots of a deleted datastore can only be released, so that it can be purged.
  const may = {
    clone: active,
    restoreVm: active && store.kind === "nfs",
    hold: active,
    release: admin && snapshot.holds > 0,
    // It destroys newer snapshots.
    rollback: active && (admin || newer.length === 0),
    delete: admin && active,
  } as const;
  const shown = (Object.keys(may) as (keyof typeof may)[]).filter((action) => may[action]);
  return (
    <ActionsMenu
      row
      label={words.actions(snapshot.name)}
      choices={shown.map((action) => ({
        name: ACTIONS[action],
        danger: action === "delete",
        onChoose: () => onChoose({ action, snapshot, newer: namesOf(newer) }),
      }))}
    />
  );
}

function ActionDialog({ action, snapshot, newer, ...dialog }: DialogProps & Chosen) {
  return (
    <>
      {action === "clone" && <Clone {...dialog} snapshot={snapshot.name} />}
      {action === "hold" && <HoldSnapshot {...dialog} snapshot={snapshot} />}
      {action === "release" && <ReleaseHold {...dialog} snapshot={snapshot} />}
      {action === "restoreVm" && <RestoreVm {...dialog} snapshot={snapshot} />}
      {action === "rollback" && <Rollback {...dialog} snapshot={snapshot} newer={newer} />}
      {action === "delete" && <DeleteSnapshots {...dialog} snapshots={[snapshot]} />}
    </>
  );
}

function namesOf(snapshots: readonly Snapshot[]): readonly string[] {
  return snapshots.map((snapshot) => snapshot.name);
}

function Names({ names }: { readonly names: readonly string[] }) {
  return (
    <List>
      {names.map((name) => (
        <ListItem key={name}>{name}</ListItem>
      ))}
    </List>
  );
}

/**
 * Names what will be lost, and requires the datastore's name. A snapshot that was taken since the choice is not destroyed unseen:
 * the service refuses, and names it.
 */
function Rollback({ store, snapshot, newer, ...job }: DialogProps & Omit<Chosen, "action">) {
  return (
    <JobDialog
      {...job}
      danger
      title={actions.rollback.title(snapshot.name)}
      lead={`${actions.rollback.lead(formatExactTime(snapshot.created_at))} ${actions.rollback.hosts}`}
      submit={actions.rollback.submit}
      confirm={store.name}
      body={(force) => ({ force, destroy: [...newer] })}
      ask={(body, headers) =>
        api.POST("/api/v1/datastores/{datastore_id}/snapshots/{name}/rollback", {
          params: { path: { datastore_id: store.id, name: snapshot.name } },
          body,
          headers,
        })
      }
    >
      {() =>
        newer.length > 0 && (
          <>
            <p>{actions.rollback.newer(newer.length)}</p>
            <Names names={newer} />
          </>
        )
      }
    </JobDialog>
  );
}

/** Several are listed, and require the datastore's name. */
function DeleteSnapshots({ store, snapshots, ...job }: DialogProps & { readonly snapshots: readonly Snapshot[] }) {
  const names = namesOf(snapshots);
  const several = names.length > 1;
  return (
    <JobDialog
      {...job}
      {...(several ? { confirm: store.name } : {})}
      danger
      title={actions.deleteSnapshots.title(names, store.name)}
      lead={actions.deleteSnapshots.lead(names.length)}
      submit={actions.deleteSnapshots.submit}
      body={() => ({ names: [...names] })}
      ask={(body, headers) =>
        api.POST("/api/v1/datastores/{datastore_id}/snapshots/delete", {
          params: { path: { datastore_id: store.id } },
          body,
          headers,
        })
      }
    >
      {() => several && <Names names={names} />}
    </JobDialog>
  );
}
