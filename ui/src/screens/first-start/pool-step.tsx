// SPDX-License-Identifier: Apache-2.0
import {
  Button,
  EmptyState,
  EmptyStateActions,
  EmptyStateBody,
  EmptyStateFooter,
  EmptyStateVariant,
} from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { disksQuery } from "../../api/queries";
import { JobNews } from "../../parts/job";
import { QueryBoundary } from "../../parts/states";
import { text } from "../../text";
import { Builder } from "../pools/builder";

const words = text.session.setup.pool;

/** Ends when the pool exists. */
export function PoolStep({ onLater }: { readonly onLater: () => void }) {
  const query = useQuery(disksQuery);
  const [job, setJob] = useState<string | null>(null);
  return (
    <>
      <h2 className="zv-step-title">{words.title}</h2>
      <p>{words.lead}</p>
      <QueryBoundary query={query} what={text.pools.disks.list}>
        {(disks) =>
          // The job can use the last free disks.
          job === null && disks.every((disk) => disk.in_use) ? (
            <NoDisks onRefresh={() => void query.refetch()} onLater={onLater} />
          ) : (
            <Builder pool={null} disks={disks} busy={job !== null} cancel={words.later} onBegin={setJob} onCancel={onLater} />
          )
        }
      </QueryBoundary>
      {job !== null && <JobNews id={job} onEnd={({ state }) => state !== "succeeded" && setJob(null)} />}
    </>
  );
}

function NoDisks({ onRefresh, onLater }: { readonly onRefresh: () => void; readonly onLater: () => void }) {
  return (
    <EmptyState titleText={text.pools.disks.noneFree} headingLevel="h3" variant={EmptyStateVariant.sm}>
      <EmptyStateBody>{words.noDisks.body}</EmptyStateBody>
      <EmptyStateFooter>
        <EmptyStateActions>
          <Button onClick={onRefresh}>{words.noDisks.action}</Button>
          <Button variant="link" onClick={onLater}>
            {words.later}
          </Button>
        </EmptyStateActions>
      </EmptyStateFooter>
    </EmptyState>
  );
}
