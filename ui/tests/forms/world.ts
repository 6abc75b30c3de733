// SPDX-License-Identifier: Apache-2.0
/** The objects of the appliance in these tests: one of each kind, as the API returns it, with types of the OpenAPI document. */

import type { components } from "../../src/api/schema";
import type * as Api from "../../src/api/types";

export const AT = "2026-11-22T09:30:00Z";
const GIB = 2n ** 30n;
const bytes = (gib: bigint) => String(gib * GIB);

/** Identifiers, of which parts of a path are made. */
export const ID = {
  vmfs: "00000000-0000-4000-8000-000000000001",
  nfs: "00000000-0000-4000-8000-000000000002",
  gone: "00000000-0000-4000-8000-000000000003",
  group: "00000000-0000-4000-8000-000000000004",
  host: "00000000-0000-4000-8000-000000000005",
  schedule: "00000000-0000-4000-8000-000000000006",
  user: "00000000-0000-4000-8000-000000000007",
  token: "00000000-0000-4000-8000-000000000008",
  receiver: "00000000-0000-4000-8000-000000000009",
  bundle: "00000000-0000-4000-8000-00000000000a",
  job: "00000000-0000-4000-8000-00000000000b",
  begun: "00000000-0000-4000-8000-00000000000c",
  missing: "00000000-0000-4000-8000-00000000000d",
  copy: "copy-15",
} as const;
export const IQN = "iqn.1998-01.com.vmware:esx1";
export const TOTP_SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";
export const UNKNOWN = "iqn.1998-01.com.vmware:esx9";
export const DISKS = ["a", "b", "c", "d"].map((letter) => `/dev/disk/by-id/disk-${letter}`);

export const session: Api.Session = {
  ...{ user: "1", name: "admin", role: "admin", source: "local", csrf_token: "a token of the session" },
};

const device = (path: string): Api.Vdev => ({
  ...{ name: path, guid: `guid of ${path}`, kind: "disk", role: "data", health: "ONLINE", path, vdevs: [] },
  ...{ size: bytes(4096n), allocated: bytes(1n), read_errors: 0, write_errors: 0, checksum_errors: 0, note: "" },
  ...{ trim: "", was: null },
});
export const pool: Api.Pool = {
  ...{ etag: '"pool"', name: "tank", guid: "1", health: "ONLINE", readonly: false, error_count: 0, status: "", action: "" },
  ...{
    size: bytes(4096n),
    allocated: bytes(64n),
    free: bytes(4032n),
    available: bytes(3904n),
    usable: bytes(3968n),
    fragmentation: 1,
    scan: null,
  },
  ...{ bclone_used: "0", bclone_saved: "0", used_percent: 1, warning_percent: 80, critical_percent: 90 },
  ...{ ashift: 12, autotrim: false, upgradable: false, of_the_system: false },
  vdevs: [{ ...device("mirror-0"), kind: "mirror", path: null, vdevs: DISKS.slice(0, 2).map(device) }],
};
const disks: Api.Disk[] = DISKS.map((path, index) => ({
  ...{ path, device: `/dev/sd${path.slice(-1)}`, size: bytes(4096n), model: "a model", serial: `serial ${index}` },
  ...{ rotational: false, used_by: index < 2 ? "pool tank" : null, in_use: index < 2, smart: null },
}));

const vmfs: Api.Datastore = {
  ...{ etag: '"vmfs"', id: ID.vmfs, kind: "vmfs", state: "active", name: "vmfs1", dataset: "tank/zvaai/vmfs1", pool: "tank" },
  ...{ guid: "11", uuid: null, size: bytes(1024n), block_size: 65536, thick: false, reserved: "0", used: "0", referenced: "0" },
  ...{ snapshot_bytes: "0", compression: "lz4", sync: "standard", origin: null, created_at: AT, lun: 1, soft_threshold: null },
  ...{ deleted_at: null, copy_reason: null, copy_of: null, host_groups: [], designation: null, available: bytes(4032n) },
  ...{ export: null, share: null, clients: [], encryption: null, key_status: null },
  ...{ previous_host_groups: [], previous_clients: [] },
};
const nfs: Api.Datastore = {
  ...vmfs,
  ...{ etag: '"nfs"', id: ID.nfs, kind: "nfs", name: "nfs1", dataset: "tank/zvaai/nfs1", guid: "12", lun: null, thick: true },
  ...{
    origin: "tank/zvaai/nfs0@before",
    export: 1,
    share: "/nfs1",
    clients: ["192.0.2.17"],
  },
};
const gone: Api.Datastore = {
  ...vmfs,
  ...{ etag: '"gone"', id: ID.gone, state: "deleted", name: "gone1", dataset: "tank/zvaai/gone1", guid: "13", deleted_at: AT },
};
const missing: Api.Datastore = {
  ...vmfs,
  ...{ etag: '"missing"', id: ID.missing, state: "missing", name: "missing1", dataset: "", guid: "0", pool: "" },
  // The API returns these values in place of unknown ones.
  ...{
    uuid: ID.missing,
    size: "0",
    block_size: 0,
    compression: "",
    sync: "",
    created_at: "1970-01-01T00:00:00Z",
    available: "0",
  },
};
const copy: Api.Datastore = {
  ...vmfs,
  ...{ etag: '"copy"', id: ID.copy, state: "copy", name: "vmfs1", dataset: "tank/copied", guid: "15", copy_of: "vmfs1" },
};
const snapshots: Api.Snapshot[] = ["before", "after"].map((name, index) => ({
  ...{ datastore: ID.vmfs, name, full_name: `tank/zvaai/vmfs1@${name}`, guid: `2${index}`, created_at: AT },
  ...{ used: "0", referenced: "0", holds: index, clones: [], schedule: null, protected_until: null },
}));
const hold: Api.Hold = { tag: "audit-2026", created_at: AT, of: "user" };
const space = {
  ...{ thick: false, size: bytes(1024n), admitted: null, counting: false, problem: "" },
  ...{ allocated: null, shared: null, unique: null, unique_exact: false, snapshot: null, as_of: null },
};
const file: Api.VmdkFile = {
  ...{ path: "vm/disk-flat.vmdk", total: "4096", allocated: "4096", unique: "4096", unique_exact: true },
  ...{ snapshot: "0", deduplicated: "0", as_of: AT },
};

const group: Api.Group = { etag: '"group"', id: ID.group, name: "lab", disabled_offloads: [], hosts: [ID.host], created_at: AT };
const host: Api.Host = {
  ...{ etag: '"host"', id: ID.host, name: "esx1", group: ID.group, iqns: [IQN], addresses: ["192.0.2.9"] },
  ...{ chap_name: IQN, chap_revision: 1, last_seen_at: null, created_at: AT },
};
export const schedule: Api.Schedule = {
  ...{ etag: '"schedule"', id: ID.schedule, name: "hourly", datastores: [ID.vmfs], every_minutes: 60, keep: 48 },
  ...{ enabled: true, last_at: null, next_at: AT, created_at: AT, kind: "snapshot", pool: null, at: "00:00", time_zone: "UTC" },
  ...{ hourly: 0, daily: 0, weekly: 0, monthly: 0, protect_days: 0 },
};
const user: Api.User = {
  etag: '"user"',
  id: ID.user,
  name: "olga",
  role: "viewer",
  source: "local",
  disabled: false,
  totp: true,
  created_at: AT,
};
export const token: Api.ApiToken = {
  ...{ id: ID.token, name: "prometheus", scope: "viewer", created_at: AT, expires_at: "2100-01-01T00:00:00Z", used_at: null },
};
export const receiver: Api.Receiver = {
  ...{ etag: '"receiver"', id: ID.receiver, name: "chat", url: "https://chat.example/hook", severity: "warning" },
  ...{ certificate: null, enabled: true, created_at: AT, last_delivery: null, waiting: 0 },
  ...{ kind: "webhook", sender: "", recipients: [], user: null },
};
export const directory: Api.Directory = {
  ...{ etag: '"directory"', servers: ["ldaps://ldap.example.com"], start_tls: true, certificate: null, bind_dn: null },
  ...{ base: "dc=example", filter: "(uid={login})", admin: ["cn=storage, dc=example"], operator: [], viewer: [] },
};
const oidc: Api.Oidc = {
  ...{ etag: '"oidc"', name: "Example", issuer: "https://login.example", certificate: null, client_id: "zvaai", scopes: [] },
  ...{ claim: "groups", external_url: null, admin: ["storage"], operator: [], viewer: [] },
};
const bundle: Api.Bundle = { id: ID.bundle, created_at: AT, size: "4096" };
const alert: Api.Alert = {
  ...{ id: 1, key: "device", severity: "warning", subject: "tank", text: "a disk is OFFLINE", remedy: "replace it" },
  ...{ raised_at: AT, cleared_at: null, acknowledged_at: null, acknowledged_by: null },
};
const key: Api.Key = {
  ...{ etag: '"key"', pool: "tank", dataset: "tank/zvaai", algorithm: "aes-256-gcm", key_status: "available", stored: true },
  ...{ exported_at: null, confirmed_at: null },
};
const importable: Api.Importable = {
  ...{
    name: "vault",
    guid: "31",
    health: "ONLINE",
    status: "",
    action: "",
    last_host: "another system",
    devices: DISKS.slice(2),
  },
};

const running: Api.Job = {
  ...{ id: ID.job, kind: "datastore.grow", subject: ID.vmfs, name: "vmfs", state: "running", step: "growing", percent: 50 },
  ...{ problem: null, result: null, actor: "admin", created_at: AT, started_at: AT, ended_at: null },
};
/** What begins a job is answered with it. */
export const begun: Api.Job = { ...running, id: ID.begun };
const status: Api.Status = {
  ...{ version: "1.0", pools: [], storage_problem: null },
  ...{ reconciled_at: AT, reconcile_problem: null, unacknowledged_alerts: 1, active_jobs: 1 },
  target: { running: true, version: "1.0", portals: [], luns_serving: 1, luns_failed: 0, sessions: 0, problem: null },
};
const certificate: Api.Certificate = {
  ...{ subject: "CN=appliance", issuer: "CN=appliance", names: ["appliance"], not_before: AT, not_after: AT },
  ...{ fingerprint: "00:11", self_signed: true },
};
const updates: Api.Updates = {
  ...{ others: 3, refreshed_at: AT, notes: "## 1.1", reboot: ["Linux 6.12.9 runs and 6.12.57 is installed"] },
  packages: [{ name: "zvaai-target", installed: "1.0", version: "1.1", effect: "The iSCSI target restarts" }],
  obstacles: ["tank is DEGRADED"],
};
export const power: Api.Power = {
  ...{ iscsi_hosts: ["esx1"], nfs_clients: ["192.0.2.9"], console_users: ["admin"], unknown: [], jobs: [running], warning: "" },
};
const settings: components["schemas"]["IscsiSettingsResponse"] = { chap_required: false, target_chap_name: "storage" };

export const portal: Api.Portal = {
  address: "192.0.2.1:3260",
  group_tag: 1,
  advertised: null,
  interfaces: ["eth1"],
  problem: "",
};
const network: Api.Network = {
  ...{ hostname: "storage", dns_servers: ["192.0.2.53"], search_domains: [], time: { synchronized: true, zone: "Etc/UTC" } },
  interfaces: [
    {
      ...{ name: "eth1", kind: "ethernet", state: "up", mac: "52:54:00:00:00:01", mtu: 9000, speed: 10_000 },
      ...{ addresses: ["192.0.2.1/24"], members: [], detail: "" },
    },
  ],
};
export const recovery: Api.Recovery = {
  ...{ active: false, reason: null, installation: "one", generation: 7, suggested: null },
  copies: [
    {
      pool: "tank",
      installation: "one",
      generation: 9,
      hash: "x",
      written_at: 1795000000,
      this_installation: true,
      known: false,
    },
  ],
};
const empty = { start: AT, step_seconds: 60 };
const history: Api.History = {
  load: {
    ...empty,
    series: {
      ...{ read_operations: [], write_operations: [], read_bytes: [], write_bytes: [], p50_ms: [], p99_ms: [] },
      ...{ cloned_bytes: [], copied_bytes: [], zeroed_bytes: [], unmapped_bytes: [] },
    },
  },
  capacity: { ...empty, series: { used_bytes: [], snapshot_bytes: [], size_bytes: [] } },
  full_at: null,
};

export const page = (...items: readonly unknown[]) => ({ items, next_cursor: null });

/** Responses by path below /api/v1. */
export const world: Readonly<Record<string, unknown>> = {
  "/setup": { needed: false },
  "/session": session,
  "/status": status,
  "/pools": page(pool),
  "/pools/tank": pool,
  "/pools/tank/history": history,
  "/importable-pools": page(importable),
  "/encryption-keys": page(key),
  "/disks": page(...disks),
  "/datastores": page(vmfs, nfs, gone, missing, copy),
  ...Object.fromEntries([vmfs, nfs, gone, missing, copy].map((store) => [`/datastores/${store.id}`, store])),
  [`/datastores/${ID.vmfs}/snapshots`]: page(...snapshots),
  [`/datastores/${ID.vmfs}/snapshots/after/holds`]: page(hold),
  [`/datastores/${ID.nfs}/files`]: { ...page(file), complete: true },
  [`/datastores/${ID.vmfs}/space`]: space,
  [`/datastores/${ID.nfs}/space`]: { ...space, thick: true, admitted: bytes(1000n) },
  [`/datastores/${ID.nfs}/snapshots`]: page({ ...snapshots[0], datastore: ID.nfs }),
  [`/datastores/${ID.nfs}/snapshots/before/folder`]: page({ name: "web", kind: "folder", size: "0", modified_at: AT }),
  "/recovery": recovery,
  "/snapshots": page(),
  ...Object.fromEntries(
    [`datastores/${ID.vmfs}`, `datastores/${ID.nfs}`, `hosts/${ID.host}`].map((path) => [`/${path}/history`, history]),
  ),
  "/host-groups": page(group),
  [`/host-groups/${ID.group}`]: group,
  "/hosts": page(host),
  [`/hosts/${ID.host}`]: host,
  "/sessions": page(),
  "/load": page({ datastore: ID.vmfs, operations: 340, bytes: 12 * 1024 * 1024 }),
  "/unknown-initiators": page({ initiator: UNKNOWN, address: "192.0.2.99", at: AT }),
  "/nfs-clients": page(),
  "/settings/iscsi": settings,
  "/network": network,
  "/updates": updates,
  "/power": power,
  "/health/ready": { status: "ok" },
  "/portals": page(portal),
  "/schedules": page(schedule),
  [`/schedules/${ID.schedule}`]: schedule,
  [`/schedules/${ID.schedule}/room`]: { needed: bytes(1n), available: bytes(4n), datastores: [] },
  "/jobs": page(running),
  [`/jobs/${ID.job}`]: running,
  [`/jobs/${ID.begun}`]: begun,
  "/alerts": page(alert),
  "/session/totp": {
    enabled: false,
    recovery_codes_left: 0,
    secret: TOTP_SECRET,
    uri: `otpauth://totp/zvaai?secret=${TOTP_SECRET}`,
  },
  "/users": page(user),
  [`/users/${ID.user}`]: user,
  "/settings/directory": directory,
  "/settings/oidc": oidc,
  "/session/logins": { appliance: "storage1", oidc: null },
  "/tokens": page(token),
  "/receivers": page(receiver),
  [`/receivers/${ID.receiver}`]: receiver,
  "/support-bundles": page(bundle),
  "/certificate": certificate,
  "/offloads": { luns: [], exports: [], nfs_problem: null, totals: {} },
  "/readiness": { checks: [], esxcli: [], target: "", portals: [], hosts: [] },
};
