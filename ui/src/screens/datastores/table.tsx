// SPDX-License-Identifier: Apache-2.0
/** The list of datastores. Only visible rows are rendered, so that thousands scroll. */

import { Checkbox, Label } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useVirtualizer, type Range } from "@tanstack/react-virtual";
import { memo, useCallback, useMemo, useRef, type CSSProperties } from "react";
import { Link } from "react-router";
import type { Datastore, Group, Load } from "../../api/types";
import { Fill } from "../../parts/fill";
import { formatRate } from "../../format/bytes";
import { formatOperations } from "../../format/performance";
import { capitalised } from "../../format/sentence";
import type { Select } from "../../parts/selection";
import { Bytes } from "../../parts/values";
import { May } from "../../session/session";
import { text } from "../../text";
import { ActionMenu, type Chosen } from "./actions";
import { groupNames, type Column, type Direction, type Loads } from "./filter";
import { freeOf } from "./summary";
import { useUnserved } from "./unserved";

const words = text.datastores;
const ROW_PX = 45;
interface TableColumn {
  readonly name: string;
  readonly sort?: Column;
  /** With 1280 px the header has room for its text and arrow. Without a width the column takes what is left. */
  readonly width?: string;
}

const { columns } = words;
const COLUMNS: readonly TableColumn[] = [
  { name: columns.name, sort: "name" },
  { name: columns.type, width: "10%" },
  { name: columns.state, width: "8%" },
  { name: columns.pool, sort: "pool", width: "8.5%" },
  { name: columns.lun, sort: "lun", width: "8.5%" },
  { name: columns.size, sort: "size", width: "8.5%" },
  { name: columns.onDisk, sort: "used", width: "10%" },
  { name: columns.free, sort: "free", width: "8.5%" },
  { name: columns.load, sort: "load", width: "9%" },
  { name: columns.hosts, width: "7.5%" },
  { name: columns.actions, width: "5%" },
];
const SELECTION_WIDTH = "3rem";

const BLOCK = 5;

/** Rows in whole blocks: each row that comes or goes makes the browser compute the styles of the whole table. */
function blocksAround({ startIndex, endIndex, count }: Range): number[] {
  const first = Math.max(0, (Math.floor(startIndex / BLOCK) - 2) * BLOCK);
  const end = Math.min(count, (Math.floor(endIndex / BLOCK) + 3) * BLOCK);
  return Array.from({ length: end - first }, (_, index) => first + index);
}

interface Props {
  readonly stores: readonly Datastore[];
  readonly groups: readonly Group[];
  readonly loads: Loads;
  readonly onChoose: (chosen: Chosen) => void;
  /** Identifiers of the selected rows; null for readers who have nothing to do with several. */
  readonly selected: ReadonlySet<string> | null;
  readonly onSelect: Select;
  readonly column: Column;
  readonly direction: Direction;
  readonly onSort: (column: Column, direction: Direction) => void;
}

export function DatastoreTable({ stores, groups, loads, onChoose, selected, onSelect, column, direction, onSort }: Props) {
  const busiest = Math.max(...[...loads.values()].map((load) => load.bytes), 0);
  const unserved = useUnserved();
  const selectable = useMemo(() => stores.filter(isSelectable).map((store) => store.id), [stores]);
  const selectAll = useCallback((on: boolean) => onSelect(selectable, on), [onSelect, selectable]);
  const scrolled = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({
    count: stores.length,
    getScrollElement: () => scrolled.current,
    estimateSize: () => ROW_PX,
    rangeExtractor: blocksAround,
  });
  const shown = rows.getVirtualItems();
  const before = shown[0]?.start ?? 0;
  const after = rows.getTotalSize() - (shown.at(-1)?.end ?? 0);
  return (
    // The keyboard must be able to scroll it.
    // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex
    <div ref={scrolled} className="zv-scrolled" tabIndex={0} role="region" aria-label={words.list}>
      <Table aria-label={words.list} aria-rowcount={stores.length + 1} variant="compact" isStickyHeader className="zv-datastores">
        <colgroup>
          {selected !== null && <col style={{ width: SELECTION_WIDTH }} />}
          {COLUMNS.map(({ name, width }) => (
            <col key={name} style={{ width }} />
          ))}
        </colgroup>
        <Head
          column={column}
          direction={direction}
          onSort={onSort}
          selectable={selected !== null}
          allSelected={selectable.length > 0 && selectable.every((id) => selected?.has(id))}
          onSelectAll={selectAll}
        />
        <Tbody>
          <Space height={before} />
          {shown.map(({ index }) => {
            const store = stores[index];
            return (
              store && (
                <Row
                  key={store.id}
                  store={store}
                  unserved={unserved?.get(store.id)}
                  groups={groups}
                  index={index}
                  load={loads.get(store.id)}
                  busiest={busiest}
                  onChoose={onChoose}
                  selected={selected?.has(store.id) ?? null}
                  onSelect={onSelect}
                />
              )
            );
          })}
          <Space height={after} />
        </Tbody>
      </Table>
    </div>
  );
}

interface HeadProps extends Pick<Props, "column" | "direction" | "onSort"> {
  readonly selectable: boolean;
  readonly allSelected: boolean;
  readonly onSelectAll: (on: boolean) => void;
}

// Rows and head are memoised, and only visible rows are rendered: each new cell of PatternFly measures itself.
const Head = memo(function Head({ column, direction, onSort, selectable, allSelected, onSelectAll }: HeadProps) {
  return (
    <Thead>
      <Tr aria-rowindex={1}>
        {selectable && (
          <Th>
            <Checkbox
              id="select-all"
              aria-label={words.selectAll}
              isChecked={allSelected}
              onChange={(_event, on) => onSelectAll(on)}
            />
          </Th>
        )}
        {COLUMNS.map(({ name, sort }, index) => (
          <Th
            key={name}
            {...(name === columns.actions ? { screenReaderText: name } : {})}
            sort={
              sort && {
                columnIndex: index,
                sortBy: { index: COLUMNS.findIndex((shown) => shown.sort === column), direction },
                onSort: (_event, _index, chosen) => onSort(sort, chosen),
              }
            }
          >
            {name === columns.actions ? null : name}
          </Th>
        ))}
      </Tr>
    </Thead>
  );
});

/** Placeholder of invisible rows. */
function Space({ height }: { readonly height: number }) {
  const style: CSSProperties = { height };
  return height > 0 ? (
    <tr aria-hidden="true">
      <td colSpan={COLUMNS.length + 1} style={style} />
    </tr>
  ) : null;
}

const COLORS = { active: "green", deleted: "grey", copy: "orange", missing: "orange" } as const;

interface LabelProps {
  readonly store: Datastore;
  /** The reason, if readiness knows that it is not served. */
  readonly unserved: string | undefined;
}

export function StateLabel({ store, unserved }: LabelProps) {
  if (store.state === "active" && store.key_status === "unavailable")
    return (
      <Label isCompact status="danger" title={words.lockedHelp}>
        {words.locked}
      </Label>
    );
  if (store.state === "active" && unserved !== undefined)
    return (
      <Label isCompact status="danger" title={capitalised(unserved)}>
        {words.detail.summary.notServed}
      </Label>
    );
  return (
    <Label isCompact color={COLORS[store.state]} title={words.stateHelp[store.state]}>
      {words.state[store.state]}
    </Label>
  );
}

interface RowProps extends LabelProps {
  readonly groups: readonly Group[];
  readonly index: number;
  readonly load: Load | undefined;
  /** Bytes per second. */
  readonly busiest: number;
  readonly onChoose: (chosen: Chosen) => void;
  readonly selected: boolean | null;
  readonly onSelect: Props["onSelect"];
}

/** Only active datastores can have a snapshot taken. */
function isSelectable(store: Datastore): boolean {
  return store.state === "active";
}

const Row = memo(function Row({ store, unserved, groups, index, load, busiest, onChoose, selected, onSelect }: RowProps) {
  const names = groupNames(store, groups);
  const missing = store.state === "missing";
  return (
    <Tr aria-rowindex={index + 2}>
      {selected !== null && (
        <Td>
          <Checkbox
            id={`select-${store.id}`}
            aria-label={words.select(store.name)}
            isChecked={selected}
            isDisabled={!isSelectable(store)}
            onChange={(_event, on) => onSelect([store.id], on)}
          />
        </Td>
      )}
      <Td dataLabel={words.columns.name} className="zv-cut">
        <Link to={`/datastores/${store.id}/overview`} title={store.name}>
          {store.name}
        </Link>
      </Td>
      <Td dataLabel={words.columns.type}>
        {words.type[store.kind]}
        {!missing && `, ${(store.thick ? words.thick : words.thin).toLowerCase()}`}
      </Td>
      <Td dataLabel={words.columns.state}>
        <StateLabel store={store} unserved={unserved} />
      </Td>
      <Td dataLabel={words.columns.pool} modifier="truncate">
        {store.pool}
      </Td>
      <Td dataLabel={words.columns.lun}>{store.lun ?? "–"}</Td>
      <Td dataLabel={words.columns.size}>
        {store.size === "0" && !missing ? words.noQuota : <Bytes value={missing ? null : store.size} />}
      </Td>
      <Td dataLabel={words.columns.onDisk}>
        {store.size === "0" ? (
          <Bytes value={missing ? null : store.referenced} />
        ) : (
          <Fill
            label={words.usage(store.name)}
            part={store.referenced}
            whole={store.size}
            warning={store.soft_threshold ?? undefined}
          />
        )}
      </Td>
      <Td dataLabel={words.columns.free}>
        <Bytes value={store.state === "active" ? freeOf(store) : null} />
      </Td>
      <Td dataLabel={words.columns.load}>{load ? <LoadBar name={store.name} load={load} busiest={busiest} /> : "–"}</Td>
      <Td dataLabel={words.columns.hosts} modifier="truncate">
        {names.length + store.clients.length > 0 ? (
          [...names, ...store.clients].join(", ")
        ) : store.state === "active" ? (
          <span className="zv-subtle">{words.noHosts}</span>
        ) : (
          "–"
        )}
      </Td>
      <Td isActionCell>
        <May least="operator">
          <ActionMenu row store={store} onChoose={onChoose} />
        </May>
      </Td>
    </Tr>
  );
});

/** A plain meter: bars of PatternFly would measure themselves, a thousand times. */
function LoadBar({ name, load, busiest }: { readonly name: string; readonly load: Load; readonly busiest: number }) {
  const shown = words.load(formatRate(load.bytes), formatOperations(load.operations));
  return (
    <>
      <meter className="zv-load" aria-label={words.loadOf(name)} max={Math.max(busiest, 1)} value={load.bytes} />
      <div className="zv-load-words">{shown}</div>
    </>
  );
}
