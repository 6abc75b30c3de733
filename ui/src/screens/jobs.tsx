// SPDX-License-Identifier: Apache-2.0
import { Button, EmptyState, EmptyStateBody, PageSection, ToolbarContent, ToolbarItem } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useState, type ReactNode } from "react";
import { Link, useParams } from "react-router";
import { api, idempotent, unwrap } from "../api/client";
import { takeJobEnd } from "../api/events";
import { jobPageQuery, jobQuery, readAllJobs } from "../api/queries";
import type { Job } from "../api/types";
import type { Cell } from "../format/csv";
import { capitalised, sentence } from "../format/sentence";
import { formatDuration } from "../format/time";
import { useAbout } from "../parts/about";
import { ChangeDialog } from "../parts/change-dialog";
import { Choice } from "../parts/choice";
import { ExportCsv } from "../parts/export-csv";
import { Facts } from "../parts/facts";
import { isActive, jobName, JobProgress, JobState } from "../parts/job";
import { shortcomingsOf, tracesOf } from "../parts/outcome";
import { Screen } from "../parts/page";
import { Pager } from "../parts/pager";
import { Toolbar } from "../parts/patternfly";
import { ProblemAlert } from "../parts/problem-alert";
import { QueryBoundary } from "../parts/states";
import { useSubmission } from "../parts/use-submission";
import { Time } from "../parts/values";
import { May } from "../session/session";
import { useToast } from "../shell/toasts";
import { text } from "../text";

const words = text.jobs;

const STATES = ["queued", "running", "succeeded", "failed", "cancelled"] as const;
const CSV_HEAD = [...Object.values(words.columns).slice(0, -1), words.ended, words.problem];
const csvRow = (job: Job): readonly Cell[] => [
  ...[job.kind, job.name === "" ? job.subject : job.name, job.state, job.actor, job.started_at ?? job.created_at, job.ended_at],
  job.problem?.text,
];

export function JobsScreen() {
  const [state, setState] = useState<"" | Job["state"]>("");
  const [cursors, setCursors] = useState<readonly string[]>([]);
  const query = useQuery({ ...jobPageQuery(state, cursors.at(-1) ?? null), placeholderData: keepPreviousData });
  const about = useAbout();
  return (
    <Screen title={words.title} lead={words.lead}>
      <Toolbar>
        <ToolbarContent alignItems="center">
          <ToolbarItem>
            <Choice
              label={words.columns.state}
              all={words.anyState}
              value={state}
              options={STATES.map((choice) => [choice, text.common.job.state[choice]])}
              onChange={(chosen) => {
                setState(STATES.find((choice) => choice === chosen) ?? "");
                setCursors([]);
              }}
            />
          </ToolbarItem>
          <ToolbarItem align={{ default: "alignEnd" }}>
            <ExportCsv name="jobs" head={CSV_HEAD} rows={async () => (await readAllJobs(state)).map(csvRow)} />
          </ToolbarItem>
        </ToolbarContent>
      </Toolbar>
      <QueryBoundary query={query} what={words.title} lines={6}>
        {({ items, next_cursor: next }) => (
          <>
            {items.length === 0 ? (
              <EmptyState titleText={state === "" ? words.empty.title : words.noMatch} headingLevel="h2">
                <EmptyStateBody>{words.empty.body}</EmptyStateBody>
              </EmptyState>
            ) : (
              <JobTable jobs={items} about={about} />
            )}
            <Pager words={words} cursors={cursors} next={query.isPlaceholderData ? null : next} onChange={setCursors} />
          </>
        )}
      </QueryBoundary>
    </Screen>
  );
}

interface TableProps {
  readonly jobs: readonly Job[];
  /** With the subject, unless the list is about one object. */
  readonly about?: (subject: string, name: string) => ReactNode;
}

export function JobTable({ jobs, about }: TableProps) {
  return (
    <Table aria-label={words.list} variant="compact">
      <Thead>
        <Tr>
          <Th>{words.columns.kind}</Th>
          {about !== undefined && <Th>{words.columns.subject}</Th>}
          <Th>{words.columns.state}</Th>
          <Th>{words.columns.actor}</Th>
          <Th>{words.columns.started}</Th>
          <Th>{words.columns.took}</Th>
        </Tr>
      </Thead>
      <Tbody>
        {jobs.map((job) => (
          <Tr key={job.id}>
            <Td dataLabel={words.columns.kind}>
              <Link to={`/jobs/${job.id}`}>{jobName(job)}</Link>
            </Td>
            {about !== undefined && (
              <Td dataLabel={words.columns.subject} modifier="breakWord">
                {about(job.subject, job.name)}
              </Td>
            )}
            <Td dataLabel={words.columns.state} width={30}>
              <JobProgress job={job} />
            </Td>
            <Td dataLabel={words.columns.actor}>{job.actor}</Td>
            <Td dataLabel={words.columns.started}>
              <Time at={job.started_at ?? job.created_at} ago />
            </Td>
            <Td dataLabel={words.columns.took}>{took(job)}</Td>
          </Tr>
        ))}
      </Tbody>
    </Table>
  );
}

function took({ started_at: began, ended_at: ended }: Job): string {
  return began == null || ended == null ? "–" : formatDuration(Date.parse(ended) - Date.parse(began));
}

export function JobScreen() {
  const { id = "" } = useParams();
  const query = useQuery(jobQuery(id));
  const client = useQueryClient();
  const ended = query.data !== undefined && !isActive(query.data);
  // Without a stream of events nothing else reports it.
  const kind = query.data?.kind;
  useEffect(() => {
    if (kind !== undefined && ended) takeJobEnd(client, kind);
  }, [client, ended, kind]);
  const title = query.data === undefined ? words.columns.kind : jobName(query.data);
  return (
    <Screen title={title} parent={{ to: "/jobs", name: words.title }}>
      <QueryBoundary query={query} what={words.columns.kind}>
        {(job) => <JobFacts job={job} />}
      </QueryBoundary>
    </Screen>
  );
}

function JobFacts({ job }: { readonly job: Job }) {
  const client = useQueryClient();
  const notify = useToast();
  const { send, pending, problem } = useSubmission(
    useCallback(
      (job: string, key: string) =>
        unwrap(api.POST("/api/v1/jobs/{job_id}/cancel", { params: { path: { job_id: job } }, headers: idempotent(key) })),
      [],
    ),
    useCallback(
      (job: Job) => {
        void client.invalidateQueries({ queryKey: ["jobs"] });
        if (isActive(job)) notify({ variant: "info", title: words.cancelRequested, body: words.cancelHelp, about: job.id });
      },
      [client, notify],
    ),
  );
  const [abandoning, setAbandoning] = useState(false);
  const missing = shortcomingsOf(job);
  const about = useAbout();
  return (
    <>
      {problem !== null && <ProblemAlert problem={problem} />}
      <PageSection padding={{ default: "noPadding" }}>
        <Facts
          facts={[
            [words.columns.state, isActive(job) ? <JobProgress key="progress" job={job} /> : <JobState key="state" job={job} />],
            job.step === "" ? null : [words.step, capitalised(job.step)],
            job.problem == null ? null : [words.problem, sentence(job.problem.text)],
            job.state === "failed" ? [words.traces, tracesOf(job)] : null,
            missing.length === 0
              ? null
              : [words.shortcomings, missing.map((shortcoming) => <div key={shortcoming}>{shortcoming}</div>)],
            [words.columns.subject, about(job.subject, job.name)],
            [words.columns.actor, job.actor],
            [words.created, <Time key="created" at={job.created_at} />],
            job.started_at == null ? null : [words.columns.started, <Time key="started" at={job.started_at} />],
            job.ended_at == null ? null : [words.ended, <Time key="ended" at={job.ended_at} />],
            job.ended_at == null ? null : [words.columns.took, took(job)],
          ]}
        />
        {isActive(job) && (
          <div className="zv-buttons">
            <May least="operator">
              <Button variant="secondary" isLoading={pending} isDisabled={pending} onClick={() => void send(job.id)}>
                {words.cancel}
              </Button>
            </May>
            {job.state === "running" && (
              <May least="admin">
                <Button variant="link" isDanger onClick={() => setAbandoning(true)}>
                  {words.abandon.action}
                </Button>
              </May>
            )}
          </div>
        )}
        {abandoning && <AbandonJob job={job} onClose={() => setAbandoning(false)} />}
      </PageSection>
    </>
  );
}

/** For a job that hangs with its pool: the pool's other jobs can run, and what the job has changed remains. */
function AbandonJob({ job, onClose }: { readonly job: Job; readonly onClose: () => void }) {
  return (
    <ChangeDialog
      danger
      title={words.abandon.title(jobName(job))}
      lead={words.abandon.lead}
      submit={words.abandon.action}
      done={words.abandon.done}
      body={() => null}
      ask={(_body, headers) => api.POST("/api/v1/jobs/{job_id}/abandon", { params: { path: { job_id: job.id } }, headers })}
      changes={["jobs", "datastores", "alerts"]}
      onClose={onClose}
    />
  );
}
