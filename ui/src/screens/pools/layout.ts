// SPDX-License-Identifier: Apache-2.0
/** Vdevs made of the chosen disks, and the order of a pool's vdevs. */

import type { Disk, Pool, Vdev, VdevCreate } from "../../api/types";
import { text } from "../../text";

const words = text.pools.build;

export const ROLES = ["data", "log", "cache", "spare", "special", "dedup"] as const;
export type Role = (typeof ROLES)[number];
export type Layout = keyof typeof words.layouts;

const MIRRORS: readonly Layout[] = ["mirror2", "mirror3"];
const NO_RAIDZ: readonly Layout[] = [...MIRRORS, "stripe"];

/** Layouts that zpool of OpenZFS 2.3 allows. */
export const LAYOUTS: Readonly<Record<Role, readonly Layout[]>> = {
  data: [...MIRRORS, "raidz1", "raidz2", "raidz3", "stripe"],
  special: NO_RAIDZ,
  dedup: NO_RAIDZ,
  log: NO_RAIDZ,
  cache: ["stripe"],
  spare: ["stripe"],
};

/** Mirrors, but for a server with a single free disk. */
export function firstLayout(pool: string | null, disks: readonly Disk[]): Layout {
  const free = disks.filter((disk) => disk.used_by == null);
  return pool === null && free.length === 1 ? "stripe" : "mirror2";
}

const FEWEST: Readonly<Record<Layout, number>> = { mirror2: 2, mirror3: 3, raidz1: 2, raidz2: 3, raidz3: 4, stripe: 1 };

/** Disks of one vdev. */
export interface Part {
  readonly role: Role;
  readonly layout: Layout;
  readonly devices: readonly string[];
}

/** Problem of this number of disks, or null. */
export function wrongPart({ layout, devices }: Part): string | null {
  const fewest = FEWEST[layout];
  if (devices.length < fewest) return words.tooFew(fewest);
  return MIRRORS.includes(layout) && devices.length % fewest > 0 ? words.uneven(fewest) : null;
}

/** Mirrors are made in the order of choice; other layouts are one vdev. */
export function vdevsOf({ role, layout, devices }: Part): VdevCreate[] {
  if (layout !== "mirror2" && layout !== "mirror3") return [{ devices: [...devices], redundancy: layout, role }];
  const vdevs: VdevCreate[] = [];
  for (let index = 0; index < devices.length; index += FEWEST[layout]) {
    vdevs.push({ devices: devices.slice(index, index + FEWEST[layout]), redundancy: "mirror", role });
  }
  return vdevs;
}

/** A device's name in requests: its path, or its GUID if two devices of the pool have the same path. */
export function nameOf(pool: Pool, device: Vdev): string {
  const { path } = device;
  const same = rowsOf(pool).flatMap(({ rows }) => rows.filter((row) => row.vdev.path === path));
  return path != null && same.length === 1 ? path : device.guid;
}

/** Whether a path reported by a pool is the disk. OpenZFS makes a partition on a whole disk. */
function isOfDisk(path: string, disk: string): boolean {
  const part = disk.startsWith("/dev/disk/") ? "-part1" : /[0-9]$/.test(disk) ? "p1" : "1";
  return path === disk || path === `${disk}${part}`;
}

/** A disk that can replace a device, or be attached to it. */
export interface Candidate {
  readonly path: string;
  readonly disk: Disk | undefined;
  readonly spare: boolean;
  /** Old content that is lost, for example a file system; null for a free disk and a spare. */
  readonly content: string | null;
}

/**
 * The pool's unused spares, even if the list of disks has another name for the disk; free disks; disks with old content.
 * OpenZFS attaches no spare.
 */
export function candidatesFor(pool: Pool, disks: readonly Disk[], action: "replace" | "attach"): Candidate[] {
  const spares = pool.vdevs
    .filter(({ role, health }) => action === "replace" && role === "spare" && health === "AVAIL")
    .flatMap(({ path }): Candidate[] => {
      if (path == null) return [];
      const disk = disks.find((candidate) => isOfDisk(path, candidate.path));
      return [{ path: disk?.path ?? path, disk, spare: true, content: null }];
    });
  const others = disks
    .filter((disk) => !disk.in_use && !spares.some((spare) => spare.path === disk.path))
    .map((disk): Candidate => ({ path: disk.path, disk, spare: false, content: disk.used_by ?? null }));
  const isFree = ({ content }: Candidate) => content === null;
  return [...spares, ...others.filter(isFree), ...others.filter((candidate) => !isFree(candidate))];
}

/** A row of the tree of vdevs. */
export interface Row {
  readonly vdev: Vdev;
  readonly level: number;
  readonly parent: Vdev | null;
}

/** The tree, role by role, each vdev before those below it. */
export function rowsOf(pool: Pool): { readonly role: string; readonly rows: readonly Row[] }[] {
  const below = (vdev: Vdev, level: number, parent: Vdev | null): Row[] => [
    { vdev, level, parent },
    ...(vdev.vdevs ?? []).flatMap((child) => below(child, level + 1, vdev)),
  ];
  const roles = [...new Set<string>([...ROLES, ...pool.vdevs.map((vdev) => vdev.role)])];
  return roles
    .map((role) => ({
      role,
      rows: pool.vdevs.filter((vdev) => vdev.role === role).flatMap((vdev) => below(vdev, 0, null)),
    }))
    .filter(({ rows }) => rows.length > 0);
}
