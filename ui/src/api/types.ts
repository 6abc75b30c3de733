// SPDX-License-Identifier: Apache-2.0
/** Names for what the service tells. */

import type { components } from "./schema";

type Schemas = components["schemas"];
type Item<Page extends keyof Schemas> = Schemas[Page] extends { items: (infer One)[] } ? One : never;

export type Alert = Item<"AlertPage">;
export type ApiToken = Item<"TokenPage">;
export type AuditEntry = Item<"AuditPage">;
export type Bundle = Item<"BundlePage">;
export type Certificate = Schemas["CertificateTold"];
export type Datastore = Item<"DatastorePage">;
export type DatastoreAsked = Schemas["DatastoreAsked"];
export type Disk = Item<"DiskPage">;
export type VmdkFile = Item<"FilePage">;
export type Group = Item<"GroupPage">;
export type Hold = Item<"HoldPage">;
export type Host = Item<"HostPage">;
export type HostAsked = Schemas["HostAsked"];
export type Importable = Item<"ImportablePage">;
export type IscsiSession = Item<"SessionPage">;
export type Job = Item<"JobPage">;
export type Key = Item<"KeyPage">;
export type KeySecret = Schemas["KeySecret"];
export type NfsClient = Item<"ClientPage">;
export type Offload = Group["disabled_offloads"][number];
export type Offloads = Schemas["OffloadsTold"];
export type Pool = Item<"PoolPage">;
export type Readiness = Schemas["ReadinessTold"];
export type Check = Readiness["checks"][number];
export type Schedule = Item<"SchedulePage">;
export type Session = Schemas["SessionTold"];
export type Snapshot = Item<"SnapshotPage">;
export type Status = Schemas["StatusTold"];
export type User = Item<"UserPage">;
export type Receiver = Item<"ReceiverPage">;
export type ReceiverCreated = Schemas["ReceiverCreated"];
export type Delivery = Item<"DeliveryPage">;
export type Vdev = Pool["vdevs"][number];
export type VdevAsked = Schemas["PoolAsked"]["vdevs"][number];
export type Role = Session["role"];
