// SPDX-License-Identifier: Apache-2.0
import { Grid, GridItem, Skeleton } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { offloadsQuery } from "../../api/queries";
import { formatRate } from "../../format/bytes";
import { formatLatency } from "../../format/performance";
import { RateHistory, type Rate } from "../../measures/rates";
import { lunsOf, totalsOf } from "../../measures/statistics";
import { Chart, type Series } from "../../parts/chart";
import { Panel } from "../../parts/panel";
import { text } from "../../text";

const words = text.dashboard.load;
const MIB = 1048576;
/** Load of all LUNs and exports, retained while the page is loaded. */
const history = new RateHistory();

export function LoadCard() {
  const { data, dataUpdatedAt, isError } = useQuery(offloadsQuery);
  if (data !== undefined) {
    const totals = totalsOf(lunsOf({ luns: [...data.luns, ...data.exports] }));
    history.take({ at: dataUpdatedAt / 1000, exports: data.nfs_problem === null, totals });
  }
  const { rates } = history;
  return (
    <Panel title={words.title} lead={words.lead}>
      {isError && data === undefined ? (
        <p>{words.unavailable}</p>
      ) : rates.length === 0 ? (
        <div role="status">
          <Skeleton height="200px" screenreaderText={words.waiting} />
        </div>
      ) : (
        <Charts rates={rates} />
      )}
    </Panel>
  );
}

function Charts({ rates }: { readonly rates: readonly Rate[] }) {
  const [at, onMove] = useState<number | null>(null);
  const times = rates.map((rate) => rate.at);
  const shared = { times, cursor: { at, onMove } };
  const throughput: Series[] = [
    { name: words.read, color: 1, values: rates.map((rate) => rate.readBytes) },
    { name: words.write, color: 2, values: rates.map((rate) => rate.writeBytes) },
  ];
  const latency: Series[] = [
    { name: words.read, color: 1, values: rates.map((rate) => rate.readLatency) },
    { name: words.write, color: 2, values: rates.map((rate) => rate.writeLatency) },
  ];
  return (
    <Grid hasGutter>
      <GridItem span={12} md={6}>
        <Chart {...shared} title={words.rate} series={throughput} format={formatRate} least={MIB} binary />
      </GridItem>
      <GridItem span={12} md={6}>
        <Chart {...shared} title={words.latency} series={latency} format={formatLatency} least={1} />
      </GridItem>
    </Grid>
  );
}
