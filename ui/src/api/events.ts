// SPDX-License-Identifier: Apache-2.0
/**
 * Server-sent events update the cache: a screen never shows data older than the last event. The service allows few streams, so a
 * browser opens only one: the tab that holds the lock listens, and forwards events to the other tabs over a channel.
 */

import type { QueryClient } from "@tanstack/react-query";
import { reportLost, reportReached } from "./connection";
import type { Job } from "./types";

/** Events that all tabs apply to their caches: news of a job, new alerts, and the loss of earlier events. */
type News = { kind: "job"; event: JobEvent } | { kind: "alerts" } | { kind: "unreported" } | { kind: "missed" };

/** Name of the lock and of the channel. Another appliance has another origin, so its lock and channel are separate. */
const NAME = "zvaai-events";

interface JobEvent {
  subject: string;
  job_kind: string;
  state: Job["state"];
  step: string;
  percent: number;
}

const ENDED: readonly Job["state"][] = ["succeeded", "failed", "cancelled"];
/** Queries that a job can change. */
const CHANGED_BY_JOBS = [
  "datastores",
  "snapshots",
  "pools",
  "importable-pools",
  "disks",
  "encryption-keys",
  "schedules",
  "status",
  "readiness",
  "host-groups",
  "hosts",
];
/** Jobs that do not change files. Measuring the space of files takes seconds, so these jobs do not refresh it. */
const LEAVING_FILES: readonly string[] = [
  "snapshot.create",
  "snapshot.delete",
  "snapshot.retention",
  "snapshot.hold",
  "snapshot.release",
  "pool.scrub",
  "support.bundle",
];
/** Polling interval of everything that events report, without a stream. */
const WITHOUT_STREAM_MS = 5_000;
/** Delay before a refused stream is requested again. */
const REFUSED_MS = 30_000;

/** A job of this kind has ended: requests again what it may have changed, where that is shown. */
export function takeJobEnd(client: QueryClient, kind: string): void {
  for (const name of CHANGED_BY_JOBS) void client.invalidateQueries({ queryKey: [name] });
  if (!LEAVING_FILES.includes(kind)) void client.invalidateQueries({ queryKey: ["files"] });
}

/** Applies a job's event: updates lists, and after the job's end invalidates what it changed. */
export function takeJobEvent(client: QueryClient, event: JobEvent): void {
  const news = { state: event.state, step: event.step, percent: event.percent };
  client.setQueriesData<unknown>({ queryKey: ["jobs"] }, (known: unknown) =>
    Array.isArray(known) ? (known as Job[]).map((job) => (job.id === event.subject ? { ...job, ...news } : job)) : known,
  );
  client.setQueryData<Job>(["jobs", event.subject], (job) => (job === undefined ? job : { ...job, ...news }));
  // The job is new, or has ended: the event has no times, results and problems.
  if (event.state !== "running") void client.invalidateQueries({ queryKey: ["jobs"] });
  if (ENDED.includes(event.state)) takeJobEnd(client, event.job_kind);
}

function isJobEvent(data: unknown): data is JobEvent {
  return (
    typeof data === "object" && data !== null && ["subject", "job_kind", "state", "step", "percent"].every((name) => name in data)
  );
}

function take(client: QueryClient, news: News): void {
  const old = (...names: string[]) => {
    for (const name of names) void client.invalidateQueries({ queryKey: [name] });
  };
  if (news.kind === "job") takeJobEvent(client, news.event);
  else if (news.kind === "alerts") old("alerts", "status", "readiness");
  else if (news.kind === "unreported") old("jobs", "alerts", "status", "readiness");
  else void client.invalidateQueries();
}

/** Opens the browser's only stream, until `end`; `notify` gets its news. */
function lead(notify: (news: News) => void, first: boolean, end: AbortSignal): void {
  let poll: number | undefined;
  let again: number | undefined;
  let opened = false;
  let source = open();

  function open(): EventSource {
    const stream = new EventSource("/api/v1/events");
    stream.onopen = () => {
      const missed = opened || !first || poll !== undefined;
      window.clearInterval(poll);
      poll = undefined;
      reportReached();
      // Events were missed while there was no stream. At the first connection the screens load by themselves.
      if (missed) notify({ kind: "missed" });
      opened = true;
    };
    stream.onerror = () => {
      poll ??= window.setInterval(() => notify({ kind: "unreported" }), WITHOUT_STREAM_MS);
      // The browser reconnects by itself, but gives up after a refusal: 401, or 429 for too many streams.
      if (stream.readyState === EventSource.CONNECTING) reportLost();
      else {
        again = window.setTimeout(() => {
          source = open();
        }, REFUSED_MS);
      }
    };
    stream.addEventListener("job", (message: MessageEvent<string>) => {
      const event: unknown = JSON.parse(message.data);
      if (isJobEvent(event)) notify({ kind: "job", event });
    });
    for (const kind of ["alert.raised", "alert.changed", "alert.cleared"])
      stream.addEventListener(kind, () => notify({ kind: "alerts" }));
    return stream;
  }

  end.addEventListener("abort", () => {
    window.clearInterval(poll);
    window.clearTimeout(again);
    source.close();
  });
}

/** Listens until the returned function is called. */
export function listen(client: QueryClient): () => void {
  const channel = new BroadcastChannel(NAME);
  const ending = new AbortController();
  let waited = false;

  // Only tabs of this console write to the channel.
  channel.onmessage = ({ data }: MessageEvent<News>) => take(client, data);

  function notify(news: News): void {
    take(client, news);
    channel.postMessage(news);
  }

  // The lock is held as long as this tab listens. The browser does not suspend a tab with a lock. When the tab closes, the next
  // tab gets it.
  const held = () => {
    lead(notify, !waited, ending.signal);
    return new Promise<void>((resolve) => ending.signal.addEventListener("abort", () => resolve()));
  };
  navigator.locks
    .request(NAME, { ifAvailable: true }, async (lock) => {
      if (lock !== null && !ending.signal.aborted) await held();
    })
    .then(async () => {
      waited = true;
      if (!ending.signal.aborted) await navigator.locks.request(NAME, { signal: ending.signal }, held);
    })
    .catch((error: unknown) => {
      if (!ending.signal.aborted) throw error;
    });

  return () => {
    ending.abort();
    channel.close();
  };
}
