// SPDX-License-Identifier: Apache-2.0
/** Snapshots over time: a bar for each, as high as the space that it alone holds. The list below has the same in words. */

import { useMemo, useState } from "react";
import type { Snapshot } from "../../api/types";
import { formatBytes } from "../../format/bytes";
import { formatTime } from "../../format/time";
import { valueTicks } from "../../measures/scale";
import { placeOf, Plot } from "../../parts/chart";
import { text } from "../../text";

const words = text.datastores.detail.snapshots.timeline;
/** Bars at different places: on a narrow screen each has two pixels. */
const COLUMNS = 150;
const LEAST_BYTES = 1048576;
/** Height of the lowest bar, as a part of the axis. */
const LOWEST = 0.04;
/** With numbers of the chart colours. A mark has the first kind that one of its snapshots has. */
const KINDS = { held: 3, manual: 2, schedule: 1 } as const;
type Kind = keyof typeof KINDS;
const NAMES = Object.keys(KINDS) as Kind[];

/** Snapshots whose bars would lie upon each other. */
export interface Mark {
  /** When the newest was taken, in seconds since 1970. */
  readonly at: number;
  readonly kind: Kind;
  readonly oldest: Snapshot;
  readonly newest: Snapshot;
  readonly count: number;
  /** The most that one of them alone holds: together they can hold more than the sum. */
  readonly bytes: number;
}

export const rowOf = (snapshot: Snapshot): string => `snapshot-${snapshot.guid}`;
const secondsOf = (snapshot: Snapshot): number => new Date(snapshot.created_at).getTime() / 1000;

function kindOf({ holds, schedule }: Snapshot): Kind {
  return holds > 0 ? "held" : schedule === null ? "manual" : "schedule";
}

/** Marks of snapshots, the oldest first, on an axis that ends at `to`. */
export function marksOf(snapshots: readonly Snapshot[], to: number): readonly Mark[] {
  const times = snapshots.map(secondsOf);
  const from = Math.min(...times);
  const columns = new Map<number, Snapshot[]>();
  snapshots.forEach((snapshot, index) => {
    const column = Math.floor((COLUMNS * ((times[index] ?? to) - from)) / Math.max(1, to - from));
    const group = columns.get(column);
    if (group) group.push(snapshot);
    else columns.set(column, [snapshot]);
  });
  const marks = [...columns.values()].flatMap((group) => {
    const [oldest, newest] = [group[0], group.at(-1)];
    if (oldest === undefined || newest === undefined) return [];
    const kinds = new Set(group.map(kindOf));
    const kind = NAMES.find((name) => kinds.has(name)) ?? "schedule";
    const bytes = Math.max(...group.map(({ used }) => Number(used)));
    return [{ at: secondsOf(newest), kind, oldest, newest, count: group.length, bytes }];
  });
  return marks.toSorted((first, second) => first.at - second.at);
}

function inWords({ kind, oldest, newest, count, bytes }: Mark): string {
  const [last, most] = [formatTime(newest.created_at), formatBytes(bytes)];
  return count === 1
    ? words.single(newest.name, last, words.kinds[kind], most)
    : words.several(count, formatTime(oldest.created_at), last, most);
}

function openRow(snapshot: Snapshot): void {
  const row = document.getElementById(rowOf(snapshot));
  row?.scrollIntoView({ block: "center" });
  row?.focus({ preventScroll: true });
}

export function Timeline({ snapshots }: { readonly snapshots: readonly Snapshot[] }) {
  const [at, onMove] = useState<number | null>(null);
  const [now] = useState(() => Date.now() / 1000);
  const end = snapshots.reduce((latest, snapshot) => Math.max(latest, secondsOf(snapshot)), now);
  const marks = useMemo(() => marksOf(snapshots, end), [snapshots, end]);
  const times = useMemo(() => marks.map((mark) => mark.at), [marks]);
  const ticks = valueTicks(Math.max(LEAST_BYTES, ...marks.map(({ bytes }) => bytes)), true);
  const lowest = LOWEST * (ticks.at(-1) ?? 0);
  const mark = marks[placeOf(times, at)];
  if (mark === undefined) return null;
  return (
    <figure className="zv-figure zv-timeline">
      <figcaption className="zv-legend">
        <h2>{words.title}</h2>
        <span>{words.lead}</span>
        {NAMES.map((kind) => (
          <span key={kind} className={`zv-key zv-key-${KINDS[kind]}`}>
            {words.kinds[kind]}
          </span>
        ))}
      </figcaption>
      <Plot
        label={words.label}
        valueText={inWords(mark)}
        times={times}
        to={end}
        ticks={ticks}
        format={formatBytes}
        cursor={{ at, onMove }}
        {...(at === null ? {} : { tip: inWords(mark) })}
        onOpen={(place) => {
          const opened = marks[place];
          if (opened) openRow(opened.newest);
        }}
      >
        {(x, y) =>
          NAMES.map((kind) => {
            const bars = marks.filter((drawn) => drawn.kind === kind);
            const headOf = ({ at: taken, bytes }: Mark) => `${x(taken).toFixed(1)} ${y(Math.max(lowest, bytes)).toFixed(1)}`;
            return (
              <g key={kind} className={`zv-line-${KINDS[kind]}`}>
                <path d={bars.map((bar) => `M${headOf(bar)}V${y(0)}`).join("")} />
                {kind !== "schedule" && (
                  <path className={`zv-head-${kind}`} d={bars.map((bar) => `M${headOf(bar)}h0.01`).join("")} />
                )}
              </g>
            );
          })
        }
      </Plot>
    </figure>
  );
}
