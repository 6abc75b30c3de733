/** Server-sent events, into the cache: what a screen shows is never older than what the service has told. */

import type { QueryClient } from "@tanstack/react-query";
import { reportLost, reportReached } from "./connection";
import type { Job } from "./types";

interface JobEvent {
  subject: string;
  state: Job["state"];
  step: string;
  percent: number;
}

const ENDED: readonly Job["state"][] = ["succeeded", "failed", "cancelled"];
/** What a job may have changed. */
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
/** While no stream can be had, all that events tell of is asked for, this often. */
const WITHOUT_STREAM_MS = 5_000;
/** Then a stream that was refused is asked for again. */
const REFUSED_MS = 30_000;

/** A job has ended: what it may have changed is asked for anew, where it is shown. */
export function takeJobEnd(client: QueryClient): void {
  for (const name of CHANGED_BY_JOBS) void client.invalidateQueries({ queryKey: [name] });
}

/** Takes a job's event: its place in the lists, and what it makes old when it has ended. */
export function takeJobEvent(client: QueryClient, event: JobEvent): void {
  const news = { state: event.state, step: event.step, percent: event.percent };
  const known = client.getQueryData<readonly Job[]>(["jobs"]);
  client.setQueryData<readonly Job[]>(["jobs"], (jobs) =>
    jobs?.map((job) => (job.id === event.subject ? { ...job, ...news } : job)),
  );
  client.setQueryData<Job>(["jobs", event.subject], (job) => (job === undefined ? job : { ...job, ...news }));
  const ended = ENDED.includes(event.state);
  // Times, results and problems are not in the event.
  if (ended || !known?.some((job) => job.id === event.subject)) void client.invalidateQueries({ queryKey: ["jobs"] });
  if (ended) takeJobEnd(client);
}

function isJobEvent(data: unknown): data is JobEvent {
  return typeof data === "object" && data !== null && "subject" in data && "state" in data && "step" in data && "percent" in data;
}

/** Listens until the returned function is called. */
export function listen(client: QueryClient): () => void {
  let poll: number | undefined;
  let again: number | undefined;
  let opened = false;
  let source = open();

  function everythingIsOld(): void {
    void client.invalidateQueries({ queryKey: ["jobs"] });
    void client.invalidateQueries({ queryKey: ["alerts"] });
    void client.invalidateQueries({ queryKey: ["status"] });
  }

  function open(): EventSource {
    const stream = new EventSource("/api/v1/events");
    stream.onopen = () => {
      const missed = opened || poll !== undefined;
      window.clearInterval(poll);
      poll = undefined;
      reportReached();
      // What happened while there was no stream; at first the screens ask by themselves.
      if (missed) void client.invalidateQueries();
      opened = true;
    };
    stream.onerror = () => {
      poll ??= window.setInterval(everythingIsOld, WITHOUT_STREAM_MS);
      // The browser tries again by itself after a lost connection, and gives up after a refusal: 401, or 429 for too many.
      if (stream.readyState === EventSource.CONNECTING) reportLost();
      else {
        again = window.setTimeout(() => {
          source = open();
        }, REFUSED_MS);
      }
    };
    stream.addEventListener("job", (message: MessageEvent<string>) => {
      const data: unknown = JSON.parse(message.data);
      if (isJobEvent(data)) takeJobEvent(client, data);
    });
    for (const kind of ["alert.raised", "alert.cleared"]) {
      stream.addEventListener(kind, () => {
        for (const name of ["alerts", "status", "readiness"]) void client.invalidateQueries({ queryKey: [name] });
      });
    }
    return stream;
  }

  return () => {
    window.clearInterval(poll);
    window.clearTimeout(again);
    source.close();
  };
}
