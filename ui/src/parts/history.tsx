// SPDX-License-Identifier: Apache-2.0
/** Performance and space of a datastore, host or pool over time. */

import { Grid, GridItem, ToggleGroup, ToggleGroupItem } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { historyQuery, RANGES, type Historied, type Range } from "../api/queries";
import type { History } from "../api/types";
import { formatBytes, formatRate } from "../format/bytes";
import { formatLatency, formatOperations } from "../format/performance";
import { formatDay, formatTime } from "../format/time";
import { text } from "../text";
import { Chart, type Cursor, type Series } from "./chart";
import { Panel } from "./panel";
import { QueryBoundary } from "./states";

const words = text.history;
const MIB = 1048576;

interface Props {
  readonly kind: Historied;
  readonly id: string;
  /** Whether a pool has reached its alert threshold. */
  readonly isFull?: boolean;
}

export function HistoryPanel({ kind, id, isFull = false }: Props) {
  const [range, setRange] = useState<Range>("day");
  const query = useQuery(historyQuery(kind, id, range));
  return (
    <Panel title={words.title}>
      <ToggleGroup aria-label={words.range} isCompact>
        {RANGES.map((choice) => (
          <ToggleGroupItem
            key={choice}
            text={words.ranges[choice]}
            isSelected={choice === range}
            onChange={() => setRange(choice)}
          />
        ))}
      </ToggleGroup>
      <div className="zv-below">
        <QueryBoundary query={query} what={words.title} lines={8}>
          {(history) => <Charts key={range} history={history} isFull={isFull} />}
        </QueryBoundary>
      </div>
    </Panel>
  );
}

interface Drawn {
  readonly title: string;
  readonly part: { readonly start: string; readonly step_seconds: number };
  readonly series: readonly Series[];
  readonly format: (value: number) => string;
  readonly least: number;
  readonly binary: boolean;
}

function chartsOf({ load, capacity }: History): Drawn[] {
  const { series } = load;
  const counts = { part: load, format: formatOperations, least: 1, binary: false };
  const rates = { part: load, format: formatRate, least: MIB, binary: true };
  const drawn: Drawn[] = [
    {
      ...counts,
      title: words.operations,
      series: [
        { name: words.read, color: 1, values: series.read_operations },
        { name: words.write, color: 2, values: series.write_operations },
      ],
    },
    {
      ...rates,
      title: words.throughput,
      series: [
        { name: words.read, color: 1, values: series.read_bytes },
        { name: words.write, color: 2, values: series.write_bytes },
      ],
    },
    {
      ...counts,
      title: words.latency,
      format: formatLatency,
      series: [
        { name: words.median, color: 1, values: series.p50_ms },
        { name: words.p99, color: 2, values: series.p99_ms },
      ],
    },
    {
      ...rates,
      title: words.offloads,
      series: [
        { name: words.cloned, color: 1, values: series.cloned_bytes },
        { name: words.copied, color: 2, values: series.copied_bytes },
        { name: words.zeroed, color: 3, values: series.zeroed_bytes },
        { name: words.reclaimed, color: 4, values: series.unmapped_bytes },
      ],
    },
  ];
  if (capacity !== undefined) {
    drawn.push({
      ...{ title: words.capacity, part: capacity, format: formatBytes, least: MIB, binary: true },
      series: [
        { name: words.used, color: 1, values: capacity.series.used_bytes },
        { name: words.snapshots, color: 3, values: capacity.series.snapshot_bytes },
        { name: words.size, color: 2, values: capacity.series.size_bytes },
      ],
    });
  }
  // Uncounted series are left out.
  return drawn
    .map((chart) => ({ ...chart, series: chart.series.filter(({ values }) => values.some((value) => value !== null)) }))
    .filter((chart) => chart.series.length > 0);
}

function timesOf({ start, step_seconds }: Drawn["part"], count: number): number[] {
  const first = new Date(start).getTime() / 1000;
  return Array.from({ length: count }, (_, place) => first + step_seconds * place);
}

/** Only pools have a forecast. */
function forecastOf({ full_at: fullAt }: History, isFull: boolean): string | null {
  if (fullAt != null) return words.fullAt(formatDay(fullAt));
  return fullAt === undefined || isFull ? null : words.notForeseen;
}

function Charts({ history, isFull }: { readonly history: History; readonly isFull: boolean }) {
  const [at, onMove] = useState<number | null>(null);
  const cursor: Cursor = { at, onMove };
  const charts = chartsOf(history);
  const forecast = forecastOf(history, isFull);
  if (charts.length === 0) return <p>{words.nothing}</p>;
  return (
    <>
      <p className="zv-lead">{at === null ? words.newest : formatTime(new Date(at * 1000).toISOString())}</p>
      <Grid hasGutter>
        {charts.map(({ part, ...chart }) => (
          <GridItem key={chart.title} span={12} lg={6}>
            <Chart {...chart} times={timesOf(part, chart.series[0]?.values.length ?? 0)} cursor={cursor} />
          </GridItem>
        ))}
      </Grid>
      {forecast !== null && <p className="zv-below">{forecast}</p>}
    </>
  );
}
