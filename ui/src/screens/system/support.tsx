// SPDX-License-Identifier: Apache-2.0
/** Support bundles: made by a job, downloaded by the browser itself. */

import { Button } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useState } from "react";
import { api, idempotent, unwrap } from "../../api/client";
import { bundlesQuery } from "../../api/queries";
import type { Bundle } from "../../api/types";
import { formatTime } from "../../format/time";
import { ChangeDialog } from "../../parts/change-dialog";
import { JobNews } from "../../parts/job";
import { Panel } from "../../parts/panel";
import { ProblemAlert } from "../../parts/problem-alert";
import { QueryBoundary } from "../../parts/states";
import { useSubmission } from "../../parts/use-submission";
import { Bytes, Time } from "../../parts/values";
import { text } from "../../text";

const words = text.system.support;

export function Bundles() {
  const client = useQueryClient();
  const query = useQuery(bundlesQuery);
  const [job, setJob] = useState<string | null>(null);
  const old = useCallback(() => void client.invalidateQueries({ queryKey: bundlesQuery.queryKey }), [client]);
  const make = useSubmission(
    (_body: null, key: string) => unwrap(api.POST("/api/v1/support-bundles", { headers: idempotent(key) })),
    ({ id }) => setJob(id),
  );
  const [removing, setRemoving] = useState<Bundle | null>(null);
  const { problem } = make;
  const ended = useCallback(() => {
    setJob(null);
    old();
  }, [old]);
  return (
    <Panel title={words.title} lead={words.lead}>
      {problem !== null && <ProblemAlert problem={problem} />}
      <QueryBoundary query={query} what={words.title}>
        {(bundles) =>
          bundles.length === 0 ? (
            <p>{words.empty}</p>
          ) : (
            <Table aria-label={words.list} variant="compact">
              <Thead>
                <Tr>
                  <Th>{words.columns.created}</Th>
                  <Th>{words.columns.size}</Th>
                  <Th screenReaderText={words.download} />
                  <Th screenReaderText={words.remove} />
                </Tr>
              </Thead>
              <Tbody>
                {bundles
                  .toSorted((first, other) => Date.parse(other.created_at) - Date.parse(first.created_at))
                  .map((bundle) => (
                    <Tr key={bundle.id}>
                      <Td dataLabel={words.columns.created}>
                        <Time at={bundle.created_at} />
                      </Td>
                      <Td dataLabel={words.columns.size}>
                        <Bytes value={bundle.size} />
                      </Td>
                      <Td>
                        <a
                          href={`/api/v1/support-bundles/${bundle.id}`}
                          download
                          aria-label={words.downloadOne(formatTime(bundle.created_at))}
                        >
                          {words.download}
                        </a>
                      </Td>
                      <Td>
                        <Button
                          variant="link"
                          isDanger
                          isInline
                          aria-label={words.removeOne(formatTime(bundle.created_at))}
                          onClick={() => setRemoving(bundle)}
                        >
                          {words.remove}
                        </Button>
                      </Td>
                    </Tr>
                  ))}
              </Tbody>
            </Table>
          )
        }
      </QueryBoundary>
      <div className="zv-buttons">
        <Button
          variant="secondary"
          isLoading={make.pending || job !== null}
          isDisabled={make.pending || job !== null}
          onClick={() => void make.send(null)}
        >
          {job === null ? words.create : words.making}
        </Button>
      </div>
      {job !== null && <JobNews id={job} onEnd={ended} />}
      {removing !== null && <Remove bundle={removing} onClose={() => setRemoving(null)} />}
    </Panel>
  );
}

function Remove({ bundle, onClose }: { readonly bundle: Bundle; readonly onClose: () => void }) {
  const at = formatTime(bundle.created_at);
  return (
    <ChangeDialog
      danger
      title={words.removeTitle(at)}
      lead={words.removeLead}
      submit={words.removeSubmit}
      changes={bundlesQuery.queryKey}
      onClose={onClose}
      body={() => null}
      ask={(_body, headers) =>
        api.DELETE("/api/v1/support-bundles/{bundle_id}", { params: { path: { bundle_id: bundle.id } }, headers })
      }
    />
  );
}
