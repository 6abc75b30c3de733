// SPDX-License-Identifier: Apache-2.0
import {
  Button,
  EmptyState,
  EmptyStateActions,
  EmptyStateBody,
  EmptyStateFooter,
  ToolbarContent,
  ToolbarItem,
} from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { useDeferredValue, useMemo, useState } from "react";
import { Link, useSearchParams } from "react-router";
import { datastoresQuery, groupsQuery, loadQuery } from "../../api/queries";
import type { Datastore, Group } from "../../api/types";
import { useBegun } from "../../parts/begun";
import type { Cell } from "../../format/csv";
import { Choice } from "../../parts/choice";
import { ExportCsv } from "../../parts/export-csv";
import { Screen } from "../../parts/page";
import { SearchInput, Toolbar } from "../../parts/patternfly";
import { useSelection } from "../../parts/selection";
import { QueryBoundary } from "../../parts/states";
import { May, useMay } from "../../session/session";
import { text } from "../../text";
import { ActionDialog, TakeSnapshot, type Chosen } from "./actions";
import { AdoptButton } from "./adopt";
import { filterOf, groupNames, matches, sorted, type Column, type Direction, type Loads } from "./filter";
import { freeOf } from "./summary";
import { DatastoreTable } from "./table";

const words = text.datastores;
const STATES = ["active", "deleted", "copy", "missing"] as const;
const NO_GROUPS: readonly Group[] = [];

export function DatastoresScreen() {
  const query = useQuery(datastoresQuery);
  const groups = useQuery(groupsQuery);
  return (
    <Screen
      title={words.title}
      actions={
        // Without datastores the button is in the middle of the page.
        query.data?.length !== 0 && (
          <>
            <May least="admin">
              <AdoptButton />
            </May>
            <May least="operator">
              <CreateLink />
            </May>
          </>
        )
      }
    >
      <QueryBoundary query={query} what={words.title} lines={8}>
        {(stores) => (stores.length === 0 ? <Empty /> : <List stores={stores} groups={groups.data ?? NO_GROUPS} />)}
      </QueryBoundary>
    </Screen>
  );
}

function CreateLink() {
  return (
    <Button variant="primary" component={NewLink}>
      {words.create}
    </Button>
  );
}

function NewLink(props: object) {
  return <Link {...props} to="/datastores/new" />;
}

function Empty() {
  return (
    <EmptyState titleText={words.empty.title} headingLevel="h2">
      <EmptyStateBody>{words.empty.body}</EmptyStateBody>
      <May least="operator">
        <EmptyStateFooter>
          <EmptyStateActions>
            <CreateLink />
          </EmptyStateActions>
          <May least="admin">
            <EmptyStateActions>
              <AdoptButton />
            </EmptyStateActions>
          </May>
        </EmptyStateFooter>
      </May>
    </EmptyState>
  );
}

const CSV_HEAD = Object.values(words.columns).slice(0, -1);

/** In the order of the table. */
function csvRow(store: Datastore, groups: readonly Group[], loads: Loads): readonly Cell[] {
  const { name, kind, state, pool, lun, share, size, referenced, clients } = store;
  const seen = [...groupNames(store, groups), ...clients].join(" ");
  const [whole, onDisk] = state === "missing" ? [null, null] : [size, referenced];
  return [name, kind, state, pool, lun ?? share, whole, onDisk, freeOf(store), loads.get(store.id)?.bytes, seen];
}

function List({ stores, groups }: { readonly stores: readonly Datastore[]; readonly groups: readonly Group[] }) {
  const [parameters, setParameters] = useSearchParams();
  const [column, setColumn] = useState<Column>("name");
  const [direction, setDirection] = useState<Direction>("asc");
  const { data: load } = useQuery(loadQuery);
  const loads = useMemo(() => new Map(load?.map((row) => [row.datastore, row])), [load]);
  const [begin, news] = useBegun();
  const operator = useMay("operator");
  const [selected, select] = useSelection();
  const [taking, setTaking] = useState(false);
  const [acting, setActing] = useState<Chosen | null>(null);
  const filter = filterOf(parameters);
  const { search, state, pool } = useDeferredValue(filter);
  const shown = useMemo(
    () =>
      sorted(
        stores.filter((store) => matches(store, { search, state, pool }, groups)),
        column,
        direction,
        loads,
      ),
    [stores, groups, search, state, pool, column, direction, loads],
  );
  // What a filter hides is not acted upon.
  const chosen = shown.filter((store) => store.state === "active" && selected.has(store.id));
  const pools = useMemo(() => [...new Set(stores.map((store) => store.pool))].filter((pool) => pool !== "").toSorted(), [stores]);

  function set(name: string, value: string): void {
    setParameters(
      (before) => {
        if (value === "") before.delete(name);
        else before.set(name, value);
        return before;
      },
      { replace: true },
    );
  }

  return (
    <>
      <Toolbar clearAllFilters={() => setParameters({}, { replace: true })}>
        <ToolbarContent alignItems="center">
          <ToolbarItem>
            <SearchInput
              className="zv-search"
              aria-label={words.search}
              placeholder={words.search}
              value={filter.search}
              onChange={(_event, typed) => set("search", typed)}
              onClear={() => set("search", "")}
            />
          </ToolbarItem>
          <ToolbarItem>
            <Choice
              label={words.filterState}
              all={words.anyState}
              value={filter.state}
              options={STATES.map((state) => [state, words.state[state]])}
              onChange={(value) => set("state", value)}
            />
          </ToolbarItem>
          <ToolbarItem>
            <Choice
              label={words.filterPool}
              all={words.anyPool}
              value={filter.pool}
              options={pools.map((name) => [name, name])}
              onChange={(value) => set("pool", value)}
            />
          </ToolbarItem>
          {chosen.length > 0 && (
            <ToolbarItem>
              <Button variant="secondary" onClick={() => setTaking(true)}>
                {words.snapshotOf(chosen.length)}
              </Button>
            </ToolbarItem>
          )}
          <ToolbarItem align={{ default: "alignEnd" }}>
            <span role="status">{words.shown(shown.length, stores.length)}</span>
          </ToolbarItem>
          <ToolbarItem>
            <ExportCsv name="datastores" head={CSV_HEAD} rows={() => shown.map((store) => csvRow(store, groups, loads))} />
          </ToolbarItem>
        </ToolbarContent>
      </Toolbar>
      {shown.length === 0 ? (
        <EmptyState titleText={words.noMatch.title} headingLevel="h2">
          <EmptyStateBody>{words.noMatch.body}</EmptyStateBody>
          <EmptyStateFooter>
            <EmptyStateActions>
              <Button variant="link" onClick={() => setParameters({}, { replace: true })}>
                {text.common.clearFilters}
              </Button>
            </EmptyStateActions>
          </EmptyStateFooter>
        </EmptyState>
      ) : (
        <DatastoreTable
          stores={shown}
          groups={groups}
          loads={loads}
          onChoose={setActing}
          selected={operator ? selected : null}
          onSelect={select}
          column={column}
          direction={direction}
          onSort={(newColumn, newDirection) => {
            setColumn(newColumn);
            setDirection(newDirection);
          }}
        />
      )}
      {acting && <ActionDialog {...acting} onBegin={begin} onClose={() => setActing(null)} />}
      {taking && (
        <TakeSnapshot
          stores={chosen}
          onBegin={(job) => {
            select([...selected], false);
            begin(job);
          }}
          onClose={() => setTaking(false)}
        />
      )}
      {news}
    </>
  );
}
