// SPDX-License-Identifier: Apache-2.0
/** Vdevs that a layout makes of the chosen disks. */

import { text } from "../../text";

const words = text.session.setup.pool;

export const LAYOUTS = ["mirror", "raidz1", "raidz2", "stripe"] as const;
export type Layout = (typeof LAYOUTS)[number];

export const FEWEST: Readonly<Record<Layout, number>> = { mirror: 2, raidz1: 2, raidz2: 3, stripe: 1 };

interface Vdev {
  readonly devices: string[];
  readonly redundancy: Layout;
  readonly role: "data";
}

/** Problem of this number of disks for the layout, or null. */
export function wrongLayout(layout: Layout, disks: number): string | null {
  if (disks < FEWEST[layout]) return words.tooFew(FEWEST[layout]);
  return layout === "mirror" && disks % 2 === 1 ? words.uneven : null;
}

/** Mirrors have two disks each, in the order of choice; other layouts are one vdev. */
export function vdevsOf(layout: Layout, disks: readonly string[]): Vdev[] {
  if (layout !== "mirror") return [{ devices: [...disks], redundancy: layout, role: "data" }];
  const vdevs: Vdev[] = [];
  for (let index = 0; index < disks.length; index += 2) {
    vdevs.push({ devices: disks.slice(index, index + 2), redundancy: layout, role: "data" });
  }
  return vdevs;
}
