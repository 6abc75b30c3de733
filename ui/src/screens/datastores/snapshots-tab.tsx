// SPDX-License-Identifier: Apache-2.0
/** Snapshots of one datastore, the newest first, with the space of each. */

import { Button, EmptyState, EmptyStateBody, List, ListItem } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api } from "../../api/client";
import { snapshotsQuery } from "../../api/queries";
import type { Datastore, Snapshot } from "../../api/types";
import { formatExactTime } from "../../format/time";
import { ActionsMenu } from "../../parts/actions-menu";
import { useBegun } from "../../parts/begun";
import { JobDialog } from "../../parts/job-dialog";
import { QueryBoundary } from "../../parts/states";
import { Bytes, Time } from "../../parts/values";
import { May } from "../../session/session";
import { text } from "../../text";
import { Clone, TakeSnapshot, type DialogProps } from "./actions";
import { RestoreVm } from "./restore-vm";
import { HoldLabels, HoldSnapshot, ReleaseHold } from "./holds";

const words = text.datastores.detail.snapshots;
const actions = text.datastores.detail.actions;
const ACTIONS = {
  clone: actions.clone.action,
  hold: words.holds.hold.action,
  release: words.holds.release.action,
  restoreVm: words.restoreVm.action,
  rollback: actions.rollback.action,
  delete: actions.deleteSnapshot.action,
} as const;
/** With more held snapshots only the number of holds is shown: tags take a request for each snapshot. */
const TAGS_SHOWN = 20;

export function SnapshotsTab({ store }: { readonly store: Datastore }) {
  const query = useQuery(snapshotsQuery(store.id));
  const [taking, setTaking] = useState(false);
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
            <SnapshotTable store={store} snapshots={snapshots} onBegin={begin} />
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
      {news}
    </>
  );
}

interface TableProps {
  readonly store: Datastore;
  readonly snapshots: readonly Snapshot[];
  readonly onBegin: (id: string) => void;
}

function SnapshotTable({ store, snapshots, onBegin }: TableProps) {
  const enabled = snapshots.filter((snapshot) => snapshot.holds > 0).length <= TAGS_SHOWN;
  return (
    <Table aria-label={words.list} variant="compact" className="zv-timeline">
      <Thead>
        <Tr>
          <Th>{words.columns.created}</Th>
          <Th>{words.columns.name}</Th>
          <Th>{words.columns.used}</Th>
          <Th>{words.columns.clones}</Th>
          <Th screenReaderText={text.datastores.detail.actions.menu} />
        </Tr>
      </Thead>
      <Tbody>
        {snapshots.toReversed().map((snapshot, index) => (
          <Tr key={snapshot.guid}>
            <Td dataLabel={words.columns.created}>
              <Time at={snapshot.created_at} />
            </Td>
            <Td dataLabel={words.columns.name} modifier="breakWord">
              {snapshot.name} <HoldLabels store={store} snapshot={snapshot} enabled={enabled} />
            </Td>
            <Td dataLabel={words.columns.used}>
              <Bytes value={snapshot.used} />
            </Td>
            <Td dataLabel={words.columns.clones}>{snapshot.clones.length}</Td>
            <Td isActionCell>
              <May least="operator">
                {(store.state === "active" || (store.state === "deleted" && snapshot.holds > 0)) && (
                  <SnapshotMenu
                    store={store}
                    snapshot={snapshot}
                    newer={snapshots.slice(snapshots.length - index).map((snapshot) => snapshot.name)}
                    onBegin={onBegin}
                  />
                )}
              </May>
            </Td>
          </Tr>
        ))}
      </Tbody>
    </Table>
  );
}

interface MenuProps {
  readonly store: Datastore;
  readonly snapshot: Snapshot;
  /** Names of the snapshots that a rollback would destroy. */
  readonly newer: readonly string[];
  readonly onBegin: (id: string) => void;
}

function SnapshotMenu({ store, snapshot, newer, onBegin }: MenuProps) {
  const [chosen, setChosen] = useState<keyof typeof ACTIONS | null>(null);
  const dialog = { store, onBegin, onClose: () => setChosen(null) };
  // Holds on snapshots of a deleted datastore can only be released, so that it can be purged.
  const shown = (["clone", "restoreVm", "hold", "release", "rollback", "delete"] as const).filter((action) =>
    action === "release" ? snapshot.holds > 0 : store.state === "active" && (action !== "restoreVm" || store.kind === "nfs"),
  );
  return (
    <>
      <ActionsMenu
        row
        label={words.actions(snapshot.name)}
        choices={shown.map((action) => ({
          name: ACTIONS[action],
          danger: action === "delete",
          onChoose: () => setChosen(action),
        }))}
      />
      {chosen === "clone" && <Clone {...dialog} snapshot={snapshot.name} />}
      {chosen === "hold" && <HoldSnapshot {...dialog} snapshot={snapshot} />}
      {chosen === "release" && <ReleaseHold {...dialog} snapshot={snapshot} />}
      {chosen === "restoreVm" && <RestoreVm {...dialog} snapshot={snapshot} />}
      {chosen === "rollback" && <Rollback {...dialog} snapshot={snapshot} newer={newer} />}
      {chosen === "delete" && <DeleteSnapshot {...dialog} snapshot={snapshot} />}
    </>
  );
}

interface RollbackProps extends DialogProps {
  readonly snapshot: Snapshot;
  readonly newer: readonly string[];
}

/** The API path of the snapshot. */
function pathOf(store: Datastore, snapshot: Snapshot) {
  return { path: { datastore_id: store.id, name: snapshot.name } };
}

/** Names what will be lost, and requires the datastore's name. */
function Rollback({ store, snapshot, newer, ...job }: RollbackProps) {
  return (
    <JobDialog
      {...job}
      danger
      title={actions.rollback.title(snapshot.name)}
      lead={`${actions.rollback.lead(formatExactTime(snapshot.created_at))} ${actions.rollback.hosts}`}
      submit={actions.rollback.submit}
      confirm={store.name}
      // The reader has seen these snapshots: only others prevent the rollback.
      body={(force) => ({ force, destroy: [...newer] })}
      ask={(body, headers) =>
        api.POST("/api/v1/datastores/{datastore_id}/snapshots/{name}/rollback", {
          params: pathOf(store, snapshot),
          body,
          headers,
        })
      }
    >
      {() =>
        newer.length > 0 && (
          <>
            <p>{actions.rollback.newer(newer.length)}</p>
            <List>
              {newer.map((name) => (
                <ListItem key={name}>{name}</ListItem>
              ))}
            </List>
          </>
        )
      }
    </JobDialog>
  );
}

function DeleteSnapshot({ store, snapshot, ...job }: DialogProps & { readonly snapshot: Snapshot }) {
  return (
    <JobDialog
      {...job}
      danger
      title={actions.deleteSnapshot.title(snapshot.name)}
      lead={actions.deleteSnapshot.lead}
      submit={actions.deleteSnapshot.submit}
      body={() => null}
      ask={(_body, headers) =>
        api.DELETE("/api/v1/datastores/{datastore_id}/snapshots/{name}", { params: pathOf(store, snapshot), headers })
      }
    />
  );
}
