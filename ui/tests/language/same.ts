// SPDX-License-Identifier: Apache-2.0
/** Texts that are the same in both languages: the field's words, properties of OpenZFS, and values alone. Functions are called with 0. */

const LINES = `
0 (undefined) | 0 Mbit/s | 0, 0 IOPS | 0-restored | 0/zvaai/0-… | ATS | Administrator | Appliance | Audit
Bond | Bridge | CHAP | Cache | Capabilities | Cockpit | Code | Dashboard | Dataset | Datastore | Datastores | Disk
Disks | Ethernet | Extended Statistics | Fast File Clone | Filter | Full File Clone | GUID | Generation | Hold | Host | Hosts
Information | Job | Jobs | LUN | LUN 0 | Layout | Link | Log | MTU | Median | NAA | NFS | Name
Navigation | ODX | OIDC | OK | Offloads | OpenID Connect | OpenZFS | Operation | Operator | Pool | Pools | Problem | Quota
Reserve Space | Resilver | SHA-256 | SMART | Scrub | Secret | Server | Snapshot | Snapshots | Spare | Spares | Special
System | Tag | Thick | Thin | Token 0 | Tokens | UNMAP | UUID | VAAI | VLAN | VMFS | Vdev | Volume
VMs | WRITE SAME | XCOPY | acltype | atime | compression | encryption | in 0:  | recordsize | refquota | refreservation
sync | volblocksize | volsize | xattr | zvaai | zvaai-configuration-0.json
Debug | Kernel: OpenZFS | Text | Unit
`;

export const SAME: readonly string[] = LINES.trim().split(/ \| |\n/);
