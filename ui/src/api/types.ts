// SPDX-License-Identifier: Apache-2.0
/** Names for responses of the API. */

import type { components } from "./schema";

type Schemas = components["schemas"];
type Item<Page extends keyof Schemas> = Schemas[Page] extends { items: (infer Entry)[] } ? Entry : never;

export type Alert = Item<"AlertPageResponse">;
export type ApiToken = Item<"TokenPageResponse">;
export type AuditEntry = Item<"AuditPageResponse">;
export type Bundle = Item<"BundlePageResponse">;
export type Certificate = Schemas["CertificateResponse"];
export type Datastore = Item<"DatastorePageResponse">;
export type DatastoreCreate = Schemas["DatastoreCreate"];
export type Directory = Schemas["DirectoryResponse"];
export type Disk = Item<"DiskPageResponse">;
export type VmdkFile = Item<"FilePageResponse">;
export type Group = Item<"GroupPageResponse">;
export type Hold = Item<"HoldPageResponse">;
/** History of a datastore, host or pool: hosts have no capacity, only pools a forecast. */
export type History = Schemas["HistoryResponse"] & Partial<Omit<Schemas["PoolHistoryResponse"], "load">>;
export type Host = Item<"HostPageResponse">;
export type HostCreate = Schemas["HostCreate"];
export type Importable = Item<"ImportablePageResponse">;
export type IscsiSession = Item<"IscsiSessionPageResponse">;
export type LogEntry = Item<"LogPageResponse">;
export type Load = Item<"DatastoreLoadPageResponse">;
export type Job = Item<"JobPageResponse">;
export type Key = Item<"KeyPageResponse">;
export type KeySecret = Schemas["KeySecretResponse"];
export type Network = Schemas["NetworkResponse"];
export type Interface = Network["interfaces"][number];
export type Ping = Item<"PingPageResponse">;
export type NfsClient = Item<"ClientPageResponse">;
export type Oidc = Schemas["OidcResponse"];
export type Offload = Group["disabled_offloads"][number];
export type Offloads = Schemas["OffloadsResponse"];
export type IscsiSettings = Schemas["IscsiSettingsResponse"];
export type Portal = Item<"PortalPageResponse">;
export type Pool = Item<"PoolPageResponse">;
export type PoolPlan = Schemas["PlanResponse"];
export type Readiness = Schemas["ReadinessResponse"];
export type Check = Readiness["checks"][number];
export type Power = Schemas["PowerResponse"];
export type Updates = Schemas["UpdatesResponse"];
export type Recovery = Schemas["RecoveryResponse"];
export type Schedule = Item<"SchedulePageResponse">;
export type Session = Schemas["SessionResponse"];
export type Snapshot = Item<"SnapshotPageResponse">;
export type Status = Schemas["StatusResponse"];
export type Totp = Schemas["TotpResponse"];
export type User = Item<"UserPageResponse">;
export type Receiver = Item<"ReceiverPageResponse">;
export type ReceiverSecret = Schemas["ReceiverSecretResponse"];
export type Delivery = Item<"DeliveryPageResponse">;
export type Vdev = Pool["vdevs"][number];
export type VdevCreate = Schemas["PoolCreate"]["vdevs"][number];
export type Role = Session["role"];
