// SPDX-License-Identifier: Apache-2.0
import { Grid, GridItem, Skeleton } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense } from "react";
import { offloadsQuery } from "../../api/queries";
import { formatRate } from "../../format/bytes";
import { RateHistory, type Rate } from "../../measures/rates";
import { lunsOf, totalsOf } from "../../measures/statistics";
import type { Series } from "../../parts/chart";
import { Panel } from "../../parts/panel";
import { text } from "../../text";

const Chart = lazy(async () => ({ default: (await import("../../parts/chart")).Chart }));

const words = text.dashboard.load;
const READ = "--zv-read";
const WRITE = "--zv-write";
const MIB = 1048576;
/** Of all LUNs, for as long as the page lives. */
const history = new RateHistory();

function formatLatency(milliseconds: number): string {
  return `${milliseconds.toLocaleString(undefined, { maximumSignificantDigits: 2 })} ms`;
}

export function LoadCard() {
  const { data, dataUpdatedAt, isError } = useQuery(offloadsQuery);
  if (data !== undefined) history.take({ at: dataUpdatedAt / 1000, totals: totalsOf(lunsOf(data)) });
  const { rates } = history;
  const newest = rates.at(-1);
  return (
    <Panel title={words.title} lead={words.lead}>
      {isError && data === undefined ? (
        <p>{words.unavailable}</p>
      ) : newest === undefined ? (
        <div role="status">
          <Skeleton height="200px" screenreaderText={words.waiting} />
        </div>
      ) : (
        <Suspense fallback={<Skeleton height="200px" screenreaderText={words.waiting} />}>
          <Charts rates={rates} newest={newest} />
        </Suspense>
      )}
    </Panel>
  );
}

function Charts({ rates, newest }: { readonly rates: readonly Rate[]; readonly newest: Rate }) {
  const times = rates.map((rate) => rate.at);
  const throughput: Series[] = [
    { name: words.read, color: READ, values: rates.map((rate) => rate.readBytes) },
    { name: words.write, color: WRITE, values: rates.map((rate) => rate.writeBytes) },
  ];
  const latency: Series[] = [
    { name: words.read, color: READ, values: rates.map((rate) => rate.readLatency) },
    { name: words.write, color: WRITE, values: rates.map((rate) => rate.writeLatency) },
  ];
  const rateNow = `${words.read} ${formatRate(newest.readBytes)}, ${words.write} ${formatRate(newest.writeBytes)}`;
  const inWords = (value: number | null) => (value === null ? "–" : formatLatency(value));
  const latencyNow = `${words.read} ${inWords(newest.readLatency)}, ${words.write} ${inWords(newest.writeLatency)}`;
  return (
    <Grid hasGutter>
      <GridItem span={12} md={6}>
        <Legend title={words.rate} read={formatRate(newest.readBytes)} write={formatRate(newest.writeBytes)} />
        <Chart
          label={words.chart(words.rate, rateNow)}
          times={times}
          series={throughput}
          format={formatRate}
          least={MIB}
          binary
        />
      </GridItem>
      <GridItem span={12} md={6}>
        <Legend title={words.latency} read={inWords(newest.readLatency)} write={inWords(newest.writeLatency)} />
        <Chart label={words.chart(words.latency, latencyNow)} times={times} series={latency} format={formatLatency} least={1} />
      </GridItem>
    </Grid>
  );
}

function Legend({ title, read, write }: { readonly title: string; readonly read: string; readonly write: string }) {
  return (
    <div className="zv-legend">
      <h3>{title}</h3>
      <span className="zv-key zv-key-read">
        {words.read} <b>{read}</b>
      </span>
      <span className="zv-key zv-key-write">
        {words.write} <b>{write}</b>
      </span>
    </div>
  );
}
