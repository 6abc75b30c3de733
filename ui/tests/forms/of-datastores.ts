// SPDX-License-Identifier: Apache-2.0
/** The forms of datastores: their menus, snapshots, files, and the wizard. */

import type { Form } from "./walk";
import { begun, ID } from "./world";

const VMFS = { at: `/datastores/${ID.vmfs}/overview`, version: '"vmfs"', answer: begun };
const NFS = { at: `/datastores/${ID.nfs}/overview`, version: '"nfs"', answer: begun };
const GONE = { at: `/datastores/${ID.gone}/overview`, version: '"gone"', answer: begun };
const SNAPSHOTS = { at: `/datastores/${ID.vmfs}/snapshots`, answer: begun };

export const datastores: readonly Form[] = [
  {
    ...VMFS,
    form: "datastores Grow",
    open: ["Actions", "Grow"],
    fill: { "New size": "2 TiB" },
    send: ["Grow"],
    sends: ["POST", `/datastores/${ID.vmfs}/grow`, { size: "2199023255552" }],
    marks: { size: "New size" },
  },
  {
    ...NFS,
    form: "datastores Quota",
    open: ["Actions", "Set quota"],
    fill: { "New quota": "512 GiB" },
    send: ["Set quota"],
    sends: ["POST", `/datastores/${ID.nfs}/quota`, { size: "549755813888" }],
    marks: { size: "New quota" },
  },
  {
    ...VMFS,
    form: "datastores Present",
    open: ["Actions", "Change hosts"],
    fill: { lab: true },
    send: ["Change"],
    sends: ["PATCH", `/datastores/${ID.vmfs}`, { host_groups: [ID.group], force: false }],
  },
  {
    ...VMFS,
    form: "datastores TakeSnapshot",
    version: undefined,
    open: ["Actions", "Take snapshot"],
    fill: { Name: "mine" },
    send: ["Take snapshot"],
    sends: ["POST", "/snapshots", { name: "mine", datastores: [ID.vmfs] }],
    marks: { name: "Name" },
  },
  {
    ...VMFS,
    form: "datastores Clone",
    version: undefined,
    open: ["Actions", "Clone"],
    fill: { "Name of the clone": "copy", lab: true },
    send: ["Clone"],
    sends: ["POST", `/datastores/${ID.vmfs}/clone`, { name: "copy", snapshot: null, host_groups: [ID.group] }],
    marks: { name: "Name of the clone" },
  },
  {
    ...VMFS,
    form: "datastores Delete",
    open: ["Actions", "Delete"],
    fill: { "Type vmfs1 to confirm": "vmfs1" },
    send: ["Delete"],
    sends: ["DELETE", `/datastores/${ID.vmfs}`],
  },
  {
    ...GONE,
    form: "datastores Restore",
    open: ["Actions", "Restore"],
    fill: { lab: true },
    send: ["Restore"],
    sends: ["POST", `/datastores/${ID.gone}/restore`, { host_groups: [ID.group] }],
  },
  {
    ...GONE,
    form: "datastores Purge",
    open: ["Actions", "Purge"],
    fill: { "Type gone1 to confirm": "gone1" },
    send: ["Purge"],
    sends: ["POST", `/datastores/${ID.gone}/purge`],
  },
  {
    ...NFS,
    form: "datastores ChangeProvisioning",
    open: ["Actions", "Change provisioning"],
    fill: { Thin: true },
    send: ["Change"],
    sends: ["PATCH", `/datastores/${ID.nfs}`, { thick: false }],
  },
  {
    ...NFS,
    form: "datastores Serving",
    open: ["Actions", "Change access"],
    fill: { "More clients": "192.0.2.99", NFSv3: false, root: true },
    send: ["Change"],
    sends: ["PATCH", `/datastores/${ID.nfs}`, { clients: ["192.0.2.99"], versions: ["4"], squash: "root", force: false }],
    marks: { clients: "More clients" },
  },
  {
    at: `/datastores/${ID.nfs}/files`,
    form: "datastores CloneFile",
    open: ["Clone vm/disk-flat.vmdk"],
    fill: { "Path of the clone": "vm/new-flat.vmdk", "Fast clone: share all blocks": true },
    send: ["Clone"],
    sends: [
      "POST",
      `/datastores/${ID.nfs}/files/clone`,
      { source: "vm/disk-flat.vmdk", destination: "vm/new-flat.vmdk", fast: true },
    ],
    marks: { destination: "Path of the clone" },
    answer: begun,
  },
  {
    ...SNAPSHOTS,
    form: "datastores HoldSnapshot",
    open: ["Actions for snapshot before", "Hold"],
    fill: { Tag: "audit-2026" },
    send: ["Hold"],
    sends: ["POST", `/datastores/${ID.vmfs}/snapshots/before/holds`, { tag: "audit-2026" }],
    marks: { tag: "Tag" },
  },
  {
    ...SNAPSHOTS,
    form: "datastores ReleaseHold",
    open: ["Actions for snapshot after", "Release"],
    fill: { "audit-2026": true },
    send: ["Release"],
    sends: ["DELETE", `/datastores/${ID.vmfs}/snapshots/after/holds/audit-2026`],
  },
  {
    ...SNAPSHOTS,
    form: "datastores Rollback",
    open: ["Actions for snapshot before", "Roll back"],
    fill: { "Type vmfs1 to confirm": "vmfs1" },
    send: ["Roll back"],
    sends: ["POST", `/datastores/${ID.vmfs}/snapshots/before/rollback`, { force: false }],
  },
  {
    ...SNAPSHOTS,
    form: "datastores DeleteSnapshot",
    open: ["Actions for snapshot before", "Delete"],
    send: ["Delete"],
    sends: ["DELETE", `/datastores/${ID.vmfs}/snapshots/before`],
  },
  {
    at: "/datastores/new",
    form: "datastores Steps",
    inPage: true,
    steps: [
      ["Next", {}],
      ["Next", { Name: "vmfs2" }],
      ["Next", { Size: "2 TiB" }],
      ["Next", { lab: true }],
    ],
    send: ["Create datastore"],
    sends: [
      "POST",
      "/datastores",
      {
        ...{ kind: "vmfs", name: "vmfs2", pool: "tank", size: "2199023255552", thick: false, host_groups: [ID.group] },
        ...{ compression: "lz4", sync: "standard", block_size: 65536, soft_threshold: null, lun: null },
      },
    ],
    answer: begun,
    done: "Creating the datastore",
  },
];
