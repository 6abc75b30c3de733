// SPDX-License-Identifier: Apache-2.0
/** Names for what the service tells. */

import type { components } from "./schema";

type Schemas = components["schemas"];
type Item<Page extends keyof Schemas> = Schemas[Page] extends { items: (infer One)[] } ? One : never;

export type Alert = Item<"AlertPage">;
export type ApiToken = Item<"TokenPage">;
export type AuditEntry = Item<"AuditPage">;
export type Bundle = Item<"BundlePage">;
export type Certificate = Schemas["CertificateResponse"];
export type Datastore = Item<"DatastorePage">;
export type DatastoreCreate = Schemas["DatastoreCreate"];
export type Directory = Schemas["DirectoryResponse"];
export type Disk = Item<"DiskPage">;
export type VmdkFile = Item<"FilePage">;
export type Group = Item<"GroupPage">;
export type Hold = Item<"HoldPage">;
/** Of a datastore, host or pool: hosts have no capacity, pools alone a forecast. */
export type History = Schemas["HistoryResponse"] & Partial<Omit<Schemas["PoolHistoryResponse"], "load">>;
export type Host = Item<"HostPage">;
export type HostCreate = Schemas["HostCreate"];
export type Importable = Item<"ImportablePage">;
export type IscsiSession = Item<"SessionOfHostPage">;
export type LogEntry = Item<"LogPage">;
export type Load = Item<"DatastoreLoadPage">;
export type Job = Item<"JobPage">;
export type Key = Item<"KeyPage">;
export type KeySecret = Schemas["KeySecret"];
export type Network = Schemas["NetworkResponse"];
export type Interface = Network["interfaces"][number];
export type Ping = Item<"PingPage">;
export type NfsClient = Item<"ClientPage">;
export type Oidc = Schemas["OidcResponse"];
export type Offload = Group["disabled_offloads"][number];
export type Offloads = Schemas["OffloadsResponse"];
export type IscsiSettings = Schemas["IscsiSettings"];
export type Portal = Item<"PortalPage">;
export type Pool = Item<"PoolPage">;
export type Readiness = Schemas["ReadinessResponse"];
export type Check = Readiness["checks"][number];
export type Recovery = Schemas["RecoveryResponse"];
export type Schedule = Item<"SchedulePage">;
export type Session = Schemas["SessionResponse"];
export type Snapshot = Item<"SnapshotPage">;
export type Status = Schemas["StatusResponse"];
export type Totp = Schemas["TotpResponse"];
export type User = Item<"UserPage">;
export type Receiver = Item<"ReceiverPage">;
export type ReceiverCreated = Schemas["ReceiverCreated"];
export type Delivery = Item<"DeliveryPage">;
export type Vdev = Pool["vdevs"][number];
export type VdevCreate = Schemas["PoolCreate"]["vdevs"][number];
export type Role = Session["role"];
