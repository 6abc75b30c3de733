// SPDX-License-Identifier: Apache-2.0
/** VMDK files of an NFS datastore, page by page, with their space and actions. */

import { Button, EmptyState, EmptyStateBody } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useCallback, useState } from "react";
import { Link } from "react-router";
import { filesQuery, jobsOfQuery } from "../../api/queries";
import type { Datastore, Job, VmdkFile } from "../../api/types";
import { formatBytes } from "../../format/bytes";
import { isActive, JobNews, JobProgress } from "../../parts/job";
import { Panel } from "../../parts/panel";
import { Alert } from "../../parts/patternfly";
import { QueryBoundary } from "../../parts/states";
import { Bytes, Time } from "../../parts/values";
import { May } from "../../session/session";
import { text } from "../../text";
import { CloneFile } from "./clone-file";
import { waysOf } from "./file-clone";

const words = text.files;

export function FilesTab({ store }: { readonly store: Datastore }) {
  // Cursors of all pages but the first: the service returns the cursor of the next page only.
  const [cursors, setCursors] = useState<readonly string[]>([]);
  const [chosen, setChosen] = useState<VmdkFile | null>(null);
  const [begun, setBegun] = useState<readonly string[]>([]);
  const begin = useCallback((id: string) => setBegun((before) => [...before, id]), []);
  const query = useQuery({ ...filesQuery(store.id, cursors.at(-1) ?? null), placeholderData: keepPreviousData });
  const next = query.data?.next_cursor ?? null;
  return (
    <>
      <p className="zv-lead zv-intro">{words.lead}</p>
      <QueryBoundary query={query} what={text.datastores.detail.tabs.files} lines={6}>
        {({ items, complete }) => (
          <>
            {!complete && (
              <Alert variant="warning" isInline component="p" title={words.incomplete.title} className="zv-intro">
                {words.incomplete.body}
              </Alert>
            )}
            {items.length === 0 ? (
              <EmptyState titleText={words.empty.title} headingLevel="h2">
                <EmptyStateBody>{words.empty.body}</EmptyStateBody>
              </EmptyState>
            ) : (
              <FileTable files={items} onClone={setChosen} />
            )}
          </>
        )}
      </QueryBoundary>
      {/* Shown even if this page cannot be loaded, so that the previous page can be reached. */}
      <nav aria-label={words.pages} className="zv-buttons">
        {(cursors.length > 0 || next !== null) && (
          <>
            <Button
              variant="secondary"
              isAriaDisabled={cursors.length === 0}
              onClick={() => setCursors((before) => before.slice(0, -1))}
            >
              {words.previous}
            </Button>
            <Button
              variant="secondary"
              isAriaDisabled={next === null || query.isPlaceholderData}
              onClick={() => next !== null && setCursors((before) => [...before, next])}
            >
              {words.next}
            </Button>
          </>
        )}
        <Button variant="secondary" isLoading={query.isFetching} onClick={() => void query.refetch()}>
          {words.refresh}
        </Button>
      </nav>
      <Clones store={store} begun={begun} />
      {begun.map((id) => (
        <JobNews key={id} id={id} />
      ))}
      {chosen !== null && <CloneFile store={store} file={chosen} onBegin={begin} onClose={() => setChosen(null)} />}
    </>
  );
}

interface FilesProps {
  readonly files: readonly VmdkFile[];
  readonly onClone: (file: VmdkFile) => void;
}

function FileTable({ files, onClone }: FilesProps) {
  const { columns } = words;
  return (
    <Table aria-label={words.list} variant="compact">
      <Thead>
        <Tr>
          <Th>{columns.path}</Th>
          <Th>{columns.total}</Th>
          <Th>{columns.allocated}</Th>
          <Th>{columns.unique}</Th>
          <Th>{columns.snapshot}</Th>
          <Th>{columns.deduplicated}</Th>
          <Th modifier="nowrap">{columns.asOf}</Th>
          <Th screenReaderText={words.clone.action} />
        </Tr>
      </Thead>
      <Tbody>
        {files.map((file) => (
          <Tr key={file.path}>
            <Td dataLabel={columns.path} modifier="breakWord">
              {file.path}
            </Td>
            <Td dataLabel={columns.total}>
              <Bytes value={file.total} />
            </Td>
            <Td dataLabel={columns.allocated}>
              <Bytes value={file.allocated} />
            </Td>
            <Td dataLabel={columns.unique}>
              <Unique file={file} />
            </Td>
            <Td dataLabel={columns.snapshot}>{file.snapshot === null ? <Unmeasured /> : <Bytes value={file.snapshot} />}</Td>
            <Td dataLabel={columns.deduplicated}>
              {file.deduplicated === null ? <Unmeasured /> : <Bytes value={file.deduplicated} />}
            </Td>
            <Td dataLabel={columns.asOf}>{file.as_of === null ? <Unmeasured /> : <Time at={file.as_of} />}</Td>
            <Td isActionCell>
              <May least="operator">
                <Button variant="secondary" size="sm" aria-label={words.clone.actionOf(file.path)} onClick={() => onClone(file)}>
                  {words.clone.action}
                </Button>
              </May>
            </Td>
          </Tr>
        ))}
      </Tbody>
    </Table>
  );
}

/** An exact value, or an upper bound marked as such. */
function Unique({ file }: { readonly file: VmdkFile }) {
  if (file.unique === null) return <Unmeasured />;
  return file.unique_exact ? <Bytes value={file.unique} /> : words.atMost(formatBytes(file.unique));
}

function Unmeasured() {
  return (
    <span className="zv-subtle" title={words.unmeasuredHelp}>
      {words.unmeasured}
    </span>
  );
}

interface ClonesProps {
  readonly store: Datastore;
  /** Jobs that were started here, also after their end. */
  readonly begun: readonly string[];
}

/** Running jobs of all users. */
function Clones({ store, begun }: ClonesProps) {
  const { data: jobs = [] } = useQuery(jobsOfQuery(store.id));
  const { columns, title } = words.clones;
  const shown = jobs.filter(
    (job) => job.kind === "file.clone" && job.subject.startsWith(`${store.id}/`) && (isActive(job) || begun.includes(job.id)),
  );
  if (shown.length === 0) return null;
  return (
    <div className="zv-below">
      <Panel title={title}>
        <Table aria-label={title} variant="compact">
          <Thead>
            <Tr>
              <Th>{columns.destination}</Th>
              <Th>{columns.state}</Th>
              <Th>{columns.result}</Th>
            </Tr>
          </Thead>
          <Tbody>
            {shown.map((job) => (
              <Tr key={job.id}>
                <Td dataLabel={columns.destination} modifier="breakWord">
                  <Link to={`/jobs/${job.id}`}>{job.subject.slice(store.id.length + 1)}</Link>
                </Td>
                <Td dataLabel={columns.state} width={30}>
                  <JobProgress job={job} />
                </Td>
                <Td dataLabel={columns.result}>
                  <Outcome job={job} />
                </Td>
              </Tr>
            ))}
          </Tbody>
        </Table>
      </Panel>
    </div>
  );
}

function Outcome({ job }: { readonly job: Job }) {
  if (job.state === "succeeded") return waysOf(job);
  return job.problem?.text ?? "–";
}
