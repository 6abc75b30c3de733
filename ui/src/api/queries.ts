// SPDX-License-Identifier: Apache-2.0
/** Queries with their keys in the cache. Server-sent events invalidate them (events.ts). */

import { queryOptions } from "@tanstack/react-query";
import { secondsOf, type Times } from "../format/times";
import { api, unwrap } from "./client";
import { ApiProblem } from "./problem";
import type { Alert, AuditEntry, History, Job } from "./types";

const PAGE = 500;
const SLOW_MS = 30_000;
const LIVE_MS = 2_000;
/** Counters of all LUNs and exports, which are stored with each read. */
const COUNTERS_MS = 10_000;
const STATUS_MS = 30_000;

interface Page<Item> {
  readonly items: readonly Item[];
  readonly next_cursor: string | null;
}

/** All pages of a list. */
async function all<Item>(read: (query: { limit: number; cursor?: string }) => Promise<Page<Item>>): Promise<Item[]> {
  const items: Item[] = [];
  let cursor: string | null = null;
  do {
    const page: Page<Item> = await read(cursor === null ? { limit: PAGE } : { limit: PAGE, cursor });
    items.push(...page.items);
    cursor = page.next_cursor;
  } while (cursor !== null);
  return items;
}

export const setupQuery = queryOptions({
  queryKey: ["setup"],
  queryFn: ({ signal }) => unwrap(api.GET("/api/v1/setup", { signal })),
  staleTime: 0,
});

/** Polled: without an answer within some seconds the connection is lost. */
export const statusQuery = queryOptions({
  queryKey: ["status"],
  queryFn: ({ signal }) =>
    unwrap(api.GET("/api/v1/status", { signal: AbortSignal.any([signal, AbortSignal.timeout(STATUS_MS)]) })),
  refetchInterval: 10_000,
});

export const poolsQuery = queryOptions({
  queryKey: ["pools"],
  queryFn: ({ signal }) => all((query) => unwrap(api.GET("/api/v1/pools", { params: { query }, signal }))),
  refetchInterval: SLOW_MS,
});

/** Polled often while a job or a scan is running: no event reports progress. */
export const poolQuery = (name: string) =>
  queryOptions({
    queryKey: ["pools", name],
    queryFn: ({ signal }) => unwrap(api.GET("/api/v1/pools/{name}", { params: { path: { name } }, signal })),
    refetchInterval: ({ state: { data } }) => (data?.scan?.state === "scanning" ? LIVE_MS : SLOW_MS),
  });

export const importableQuery = queryOptions({
  queryKey: ["importable-pools"],
  queryFn: ({ signal }) => all((query) => unwrap(api.GET("/api/v1/importable-pools", { params: { query }, signal }))),
  staleTime: 0,
  // Each request reads all disks.
  retry: false,
});

export const keysQuery = queryOptions({
  queryKey: ["encryption-keys"],
  queryFn: ({ signal }) => all((query) => unwrap(api.GET("/api/v1/encryption-keys", { params: { query }, signal }))),
});

/** The key of one pool. The API has only a list of keys; without a key of the pool this fails as not found. */
export const keyQuery = (pool: string) =>
  queryOptions({
    queryKey: ["encryption-keys", pool],
    queryFn: async ({ signal }) => {
      const keys = await all((query) => unwrap(api.GET("/api/v1/encryption-keys", { params: { query }, signal })));
      const poolKey = keys.find((key) => key.pool === pool);
      if (poolKey === undefined) throw new ApiProblem(404, "not_found", "");
      return poolKey;
    },
  });

export const disksQuery = queryOptions({
  queryKey: ["disks"],
  queryFn: ({ signal }) => all((query) => unwrap(api.GET("/api/v1/disks", { params: { query }, signal }))),
});

export const datastoresQuery = queryOptions({
  queryKey: ["datastores"],
  queryFn: ({ signal }) => all((query) => unwrap(api.GET("/api/v1/datastores", { params: { query }, signal }))),
  refetchInterval: SLOW_MS,
});

/** Load of all datastores, over the last 10 s. */
export const loadQuery = queryOptions({
  queryKey: ["load"],
  queryFn: ({ signal }) => all((query) => unwrap(api.GET("/api/v1/load", { params: { query }, signal }))),
  refetchInterval: 10_000,
});

export const datastoreQuery = (id: string) =>
  queryOptions({
    queryKey: ["datastores", id],
    queryFn: ({ signal }) =>
      unwrap(api.GET("/api/v1/datastores/{datastore_id}", { params: { path: { datastore_id: id } }, signal })),
    refetchInterval: SLOW_MS,
  });

/** One page of files: the request measures their space, for at most 10 s. */
export const filesQuery = (id: string, cursor: string | null) =>
  queryOptions({
    queryKey: ["files", id, cursor],
    queryFn: ({ signal }) => {
      const query = { limit: 50, ...(cursor === null ? {} : { cursor }) };
      return unwrap(
        api.GET("/api/v1/datastores/{datastore_id}/files", { params: { path: { datastore_id: id }, query }, signal }),
      );
    },
  });

/** Space of a datastore: what the target or the NFS server has counted. Hosts change it. */
export const spaceQuery = (id: string) =>
  queryOptions({
    queryKey: ["datastores", id, "space"],
    queryFn: ({ signal }) =>
      unwrap(api.GET("/api/v1/datastores/{datastore_id}/space", { params: { path: { datastore_id: id } }, signal })),
    refetchInterval: ({ state: { data } }) => (data?.counting ? LIVE_MS : SLOW_MS),
  });

export const snapshotsQuery = (id: string) =>
  queryOptions({
    queryKey: ["snapshots", id],
    queryFn: ({ signal }) =>
      all((query) =>
        unwrap(api.GET("/api/v1/datastores/{datastore_id}/snapshots", { params: { path: { datastore_id: id }, query }, signal })),
      ),
    // Its space grows as hosts write.
    refetchInterval: SLOW_MS,
  });

/** Snapshots of all datastores that match a search, the newest first. */
export const snapshotSearchQuery = (search: string) =>
  queryOptions({
    queryKey: ["snapshots", "search", search],
    queryFn: async ({ signal }) =>
      (await unwrap(api.GET("/api/v1/snapshots", { params: { query: { search, limit: 20 } }, signal }))).items,
    enabled: search.length > 1,
  });

/** Folders at the top of a snapshot of an NFS datastore: hosts store each VM in one folder. */
export const foldersQuery = (id: string, name: string) =>
  queryOptions({
    queryKey: ["snapshots", id, name, "folders"],
    queryFn: async ({ signal }) => {
      const path = { datastore_id: id, name };
      const entries = await all((query) =>
        unwrap(api.GET("/api/v1/datastores/{datastore_id}/snapshots/{name}/folder", { params: { path, query }, signal })),
      );
      return entries.filter((entry) => entry.kind === "folder");
    },
  });

export const holdsQuery = (id: string, name: string) =>
  queryOptions({
    queryKey: ["snapshots", id, name, "holds"],
    queryFn: ({ signal }) =>
      all((query) =>
        unwrap(
          api.GET("/api/v1/datastores/{datastore_id}/snapshots/{name}/holds", {
            params: { path: { datastore_id: id, name }, query },
            signal,
          }),
        ),
      ),
  });

export const groupsQuery = queryOptions({
  queryKey: ["host-groups"],
  queryFn: ({ signal }) => all((query) => unwrap(api.GET("/api/v1/host-groups", { params: { query }, signal }))),
});

export const groupQuery = (id: string) =>
  queryOptions({
    queryKey: ["host-groups", id],
    queryFn: ({ signal }) => unwrap(api.GET("/api/v1/host-groups/{group_id}", { params: { path: { group_id: id } }, signal })),
  });

export const hostsQuery = queryOptions({
  queryKey: ["hosts"],
  queryFn: ({ signal }) => all((query) => unwrap(api.GET("/api/v1/hosts", { params: { query }, signal }))),
  refetchInterval: SLOW_MS,
});

export const hostQuery = (id: string) =>
  queryOptions({
    queryKey: ["hosts", id],
    queryFn: ({ signal }) => unwrap(api.GET("/api/v1/hosts/{host_id}", { params: { path: { host_id: id } }, signal })),
    refetchInterval: SLOW_MS,
  });

export const sessionsQuery = queryOptions({
  queryKey: ["iscsi-sessions"],
  queryFn: ({ signal }) => all((query) => unwrap(api.GET("/api/v1/sessions", { params: { query }, signal }))),
  refetchInterval: 10_000,
});

export const unknownQuery = queryOptions({
  queryKey: ["unknown-initiators"],
  queryFn: ({ signal }) => all((query) => unwrap(api.GET("/api/v1/unknown-initiators", { params: { query }, signal }))),
  refetchInterval: 10_000,
});

export const nfsClientsQuery = queryOptions({
  queryKey: ["nfs-clients"],
  queryFn: ({ signal }) => all((query) => unwrap(api.GET("/api/v1/nfs-clients", { params: { query }, signal }))),
  refetchInterval: 10_000,
});

export const networkQuery = queryOptions({
  queryKey: ["network"],
  queryFn: ({ signal }) => unwrap(api.GET("/api/v1/network", { signal })),
  refetchInterval: SLOW_MS,
});

/** Costs a simulation of apt after each change of its lists. */
export const updatesQuery = queryOptions({
  queryKey: ["updates"],
  queryFn: ({ signal }) => unwrap(api.GET("/api/v1/updates", { signal })),
  staleTime: 60_000,
});

/** Who uses the server now. */
export const powerQuery = queryOptions({
  queryKey: ["power"],
  queryFn: ({ signal }) => unwrap(api.GET("/api/v1/power", { signal })),
  refetchInterval: 10_000,
});

export const portalsQuery = queryOptions({
  queryKey: ["portals"],
  queryFn: ({ signal }) => all((query) => unwrap(api.GET("/api/v1/portals", { params: { query }, signal }))),
});

export const recoveryQuery = queryOptions({
  queryKey: ["recovery"],
  queryFn: ({ signal }) => unwrap(api.GET("/api/v1/recovery", { signal })),
});

export const iscsiSettingsQuery = queryOptions({
  queryKey: ["settings-iscsi"],
  queryFn: ({ signal }) => unwrap(api.GET("/api/v1/settings/iscsi", { signal })),
});

export const schedulesQuery = queryOptions({
  queryKey: ["schedules"],
  queryFn: ({ signal }) => all((query) => unwrap(api.GET("/api/v1/schedules", { params: { query }, signal }))),
  refetchInterval: SLOW_MS,
});

export const volumesQuery = queryOptions({
  queryKey: ["datastores", "volumes"],
  queryFn: ({ signal }) => all((query) => unwrap(api.GET("/api/v1/volumes", { params: { query }, signal }))),
  staleTime: 0,
});

export const filesystemsQuery = queryOptions({
  queryKey: ["datastores", "filesystems"],
  queryFn: ({ signal }) => all((query) => unwrap(api.GET("/api/v1/filesystems", { params: { query }, signal }))),
  staleTime: 0,
});

/** Space in the pool that the next snapshots of a schedule need. */
export const roomQuery = (id: string) =>
  queryOptions({
    queryKey: ["schedules", id, "room"],
    queryFn: ({ signal }) =>
      unwrap(api.GET("/api/v1/schedules/{schedule_id}/room", { params: { path: { schedule_id: id } }, signal })),
    staleTime: 0,
  });

export const scheduleQuery = (id: string) =>
  queryOptions({
    queryKey: ["schedules", id],
    queryFn: ({ signal }) =>
      unwrap(api.GET("/api/v1/schedules/{schedule_id}", { params: { path: { schedule_id: id } }, signal })),
  });

export const offloadsQuery = queryOptions({
  queryKey: ["offloads"],
  queryFn: ({ signal }) => unwrap(api.GET("/api/v1/offloads", { signal })),
  refetchInterval: COUNTERS_MS,
});

export const readinessQuery = queryOptions({
  refetchInterval: SLOW_MS,
  queryKey: ["readiness"],
  queryFn: ({ signal }) => unwrap(api.GET("/api/v1/readiness", { signal })),
});

/** The newest events. The cache has the list, so one page is enough. */
export const jobsQuery = queryOptions({
  queryKey: ["jobs"],
  queryFn: async ({ signal }) => (await unwrap(api.GET("/api/v1/jobs", { params: { query: { limit: 200 } }, signal }))).items,
});

const newestJobs = (of: { readonly active: true } | { readonly subject: string }) =>
  queryOptions({
    queryKey: ["jobs", of],
    queryFn: async ({ signal }) =>
      (await unwrap(api.GET("/api/v1/jobs", { params: { query: { limit: 100, ...of } }, signal }))).items,
    staleTime: 0,
    refetchInterval: ({ state: { data } }) => (data?.some((job) => job.ended_at == null) ? 3_000 : SLOW_MS),
  });

/** Jobs that wait or run. */
export const activeJobsQuery = newestJobs({ active: true });

/** The newest jobs of a datastore. */
export const jobsOfQuery = (store: string) => newestJobs({ subject: store });

/** Of one state, or all, for a file. */
export function readAllJobs(state: "" | Job["state"]): Promise<Job[]> {
  const of = state === "" ? {} : { state };
  return all((page) => unwrap(api.GET("/api/v1/jobs", { params: { query: { ...page, ...of } } })));
}

/** One page of all jobs, or of those in one state. */
export const jobPageQuery = (state: "" | Job["state"], cursor: string | null) =>
  queryOptions({
    queryKey: ["jobs", "page", state, cursor],
    queryFn: ({ signal }) => {
      const query = { limit: 100, ...(state === "" ? {} : { state }), ...(cursor === null ? {} : { cursor }) };
      return unwrap(api.GET("/api/v1/jobs", { params: { query }, signal }));
    },
    staleTime: 0,
    refetchInterval: ({ state: { data } }) => (data?.items.some((job) => job.ended_at == null) ? 3_000 : SLOW_MS),
  });

export const jobQuery = (id: string) =>
  queryOptions({
    queryKey: ["jobs", id],
    queryFn: ({ signal }) => unwrap(api.GET("/api/v1/jobs/{job_id}", { params: { path: { job_id: id } }, signal })),
    // Events report it immediately; without a stream it is polled.
    refetchInterval: ({ state: { data } }) => (data?.ended_at == null ? 3_000 : false),
  });

export const alertsQuery = queryOptions({
  queryKey: ["alerts"],
  queryFn: ({ signal }) => readAllAlerts(true, signal),
  // No event reports an acknowledgement.
  refetchInterval: SLOW_MS,
});

/** Open ones, or all. */
export function readAllAlerts(open: boolean, signal?: AbortSignal): Promise<Alert[]> {
  return all((page) => unwrap(api.GET("/api/v1/alerts", { params: { query: { ...page, open } }, signal })));
}

/** One page of all alerts, those that have ended too. */
export const alertPageQuery = (cursor: string | null) =>
  queryOptions({
    queryKey: ["alerts", "all", cursor],
    queryFn: ({ signal }) => {
      const query = { open: false, limit: 100, ...(cursor === null ? {} : { cursor }) };
      return unwrap(api.GET("/api/v1/alerts", { params: { query }, signal }));
    },
    staleTime: 0,
    refetchInterval: SLOW_MS,
  });

export interface AuditFilter extends Times {
  readonly actor: string;
  readonly action: string;
  readonly outcome: "" | "done" | "refused";
}

export interface LogFilter extends Times {
  readonly unit: string;
  readonly priority: string;
  readonly text: string;
}

/** One page of the server's journal. */
export const logsQuery = ({ since, until, ...filter }: LogFilter, cursor: string | null) =>
  queryOptions({
    queryKey: ["logs", filter, since, until, cursor],
    queryFn: ({ signal }) => {
      const given = Object.entries({ ...filter, cursor: cursor ?? "" }).filter(([, value]) => value !== "");
      const query = { limit: 100, ...(Object.fromEntries(given) as object), ...secondsOf({ since, until }) };
      return unwrap(api.GET("/api/v1/logs", { params: { query }, signal }));
    },
    staleTime: 0,
  });

function readAudit(
  { actor, action, outcome, since, until }: AuditFilter,
  page: { limit: number; cursor?: string },
  signal?: AbortSignal,
) {
  const query = {
    ...page,
    ...(actor === "" ? {} : { actor }),
    ...(action === "" ? {} : { action }),
    ...(outcome === "" ? {} : { refused: outcome === "refused" }),
    ...secondsOf({ since, until }),
  };
  return unwrap(api.GET("/api/v1/audit", { params: { query }, ...(signal === undefined ? {} : { signal }) }));
}

/** One page; the audit is long. */
export const auditQuery = (filter: AuditFilter, cursor: string | null) =>
  queryOptions({
    queryKey: ["audit", filter, cursor],
    queryFn: ({ signal }) => readAudit(filter, { limit: 50, ...(cursor === null ? {} : { cursor }) }, signal),
    staleTime: 0,
  });

/** All entries, for a file. */
export function readWholeAudit(filter: AuditFilter): Promise<AuditEntry[]> {
  return all((page) => readAudit(filter, page));
}

export const usersQuery = queryOptions({
  queryKey: ["users"],
  queryFn: ({ signal }) => all((query) => unwrap(api.GET("/api/v1/users", { params: { query }, signal }))),
});

export const userQuery = (id: string) =>
  queryOptions({
    queryKey: ["users", id],
    queryFn: ({ signal }) => unwrap(api.GET("/api/v1/users/{user_id}", { params: { path: { user_id: id } }, signal })),
  });

export const directoryQuery = queryOptions({
  queryKey: ["directory"],
  queryFn: ({ signal }) => unwrap(api.GET("/api/v1/settings/directory", { signal })),
});

export const oidcQuery = queryOptions({
  queryKey: ["oidc"],
  queryFn: ({ signal }) => unwrap(api.GET("/api/v1/settings/oidc", { signal })),
});

/** The appliance's name, and logins other than by password. */
export const loginsQuery = queryOptions({
  queryKey: ["logins"],
  queryFn: ({ signal }) => unwrap(api.GET("/api/v1/session/logins", { signal })),
});

/** The user's two-factor login, with a new secret each time. */
export const totpQuery = queryOptions({
  queryKey: ["totp"],
  queryFn: ({ signal }) => unwrap(api.GET("/api/v1/session/totp", { signal })),
  staleTime: 0,
  gcTime: 0,
});

/** The user's API tokens. */
export const tokensQuery = queryOptions({
  queryKey: ["tokens"],
  queryFn: ({ signal }) => all((query) => unwrap(api.GET("/api/v1/tokens", { params: { query }, signal }))),
});

export const certificateQuery = queryOptions({
  queryKey: ["certificate"],
  queryFn: ({ signal }) => unwrap(api.GET("/api/v1/certificate", { signal })),
  // nginx presents a new certificate some seconds after the upload.
  refetchInterval: SLOW_MS,
});

export const bundlesQuery = queryOptions({
  queryKey: ["support-bundles"],
  queryFn: ({ signal }) => all((query) => unwrap(api.GET("/api/v1/support-bundles", { params: { query }, signal }))),
});

export const receiversQuery = queryOptions({
  queryKey: ["receivers"],
  queryFn: ({ signal }) => all((query) => unwrap(api.GET("/api/v1/receivers", { params: { query }, signal }))),
});

/** The newest deliveries to a receiver: the appliance stores 200. */
export const deliveriesQuery = (id: string) =>
  queryOptions({
    queryKey: ["receivers", id, "deliveries"],
    queryFn: ({ signal }) =>
      all((query) =>
        unwrap(api.GET("/api/v1/receivers/{receiver_id}/deliveries", { params: { path: { receiver_id: id }, query }, signal })),
      ),
    staleTime: 0,
  });

export const receiverQuery = (id: string) =>
  queryOptions({
    queryKey: ["receivers", id],
    queryFn: ({ signal }) =>
      unwrap(api.GET("/api/v1/receivers/{receiver_id}", { params: { path: { receiver_id: id } }, signal })),
  });

export const RANGES = ["hour", "day", "week", "month", "year"] as const;
export type Range = (typeof RANGES)[number];
export type Historied = "datastores" | "hosts" | "pools";

export const historyQuery = (kind: Historied, id: string, range: Range) =>
  queryOptions({
    queryKey: ["history", kind, id, range],
    queryFn: ({ signal }): Promise<History> => {
      const query = { range };
      if (kind === "hosts")
        return unwrap(api.GET("/api/v1/hosts/{host_id}/history", { params: { path: { host_id: id }, query }, signal }));
      if (kind === "pools")
        return unwrap(api.GET("/api/v1/pools/{name}/history", { params: { path: { name: id }, query }, signal }));
      return unwrap(
        api.GET("/api/v1/datastores/{datastore_id}/history", { params: { path: { datastore_id: id }, query }, signal }),
      );
    },
    refetchInterval: range === "hour" ? 10_000 : 60_000,
  });
