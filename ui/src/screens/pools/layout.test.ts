// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import type { Disk, Pool, Vdev } from "../../api/types";
import { candidatesFor, firstLayout, LAYOUTS, nameOf, ROLES, rowsOf, vdevsOf, wrongPart, type Layout, type Role } from "./layout";

const part = (layout: Layout, disks: number, role: Role = "data") => ({
  role,
  layout,
  devices: Array.from({ length: disks }, (_, index) => `/dev/${index}`),
});

describe("vdevsOf", () => {
  it("makes mirrors in the order of choosing", () =>
    expect(vdevsOf(part("mirror2", 4)).map((vdev) => vdev.devices)).toEqual([
      ["/dev/0", "/dev/1"],
      ["/dev/2", "/dev/3"],
    ]));
  it("makes one vdev else", () =>
    expect(vdevsOf(part("raidz2", 6))).toEqual([{ devices: part("raidz2", 6).devices, redundancy: "raidz2", role: "data" }]));
});

describe("wrongPart", () => {
  it.each<[Layout, number, boolean]>([
    ["mirror2", 1, true],
    ["mirror2", 3, true],
    ["mirror2", 4, false],
    ["mirror3", 4, true],
    ["mirror3", 6, false],
    ["raidz2", 2, true],
    ["raidz3", 4, false],
    ["stripe", 1, false],
  ])("%s of %d", (layout, disks, wrong) => expect(wrongPart(part(layout, disks)) !== null).toBe(wrong));
});

it("offers raidz for data alone", () =>
  expect(ROLES.filter((role) => LAYOUTS[role].some((layout) => layout.startsWith("raidz")))).toEqual(["data"]));

it.each<[string | null, number, Layout]>([
  [null, 0, "mirror2"],
  [null, 1, "stripe"],
  [null, 2, "mirror2"],
  ["tank", 1, "mirror2"],
])("firstLayout of pool %s with %d free disks", (pool, free, layout) => {
  const disks = Array.from({ length: 4 }, (_, index) => ({ used_by: index < free ? null : "pool other" }) as Disk);
  expect(firstLayout(pool, disks)).toBe(layout);
});

it("rowsOf shows roles one after the other, and each vdev above its disks", () => {
  const vdev = (name: string, role: string, vdevs: Vdev[] = []) => ({ name, role, vdevs }) as Vdev;
  const pool = {
    vdevs: [vdev("spare", "spare"), vdev("mirror-0", "data", [vdev("a", "data"), vdev("b", "data")]), vdev("x", "else")],
  } as Pool;
  expect(rowsOf(pool).map(({ role, rows }) => [role, rows.map((row) => `${row.level}${row.vdev.name}`)])).toEqual([
    ["data", ["0mirror-0", "1a", "1b"]],
    ["spare", ["0spare"]],
    ["else", ["0x"]],
  ]);
});

it("nameOf is the path where only one device has it", () => {
  const leaf = (path: string | null, guid: string) => ({ path, guid, role: "data", vdevs: [] as Vdev[] }) as Vdev;
  const [first, twice, other, without] = [leaf("/dev/a", "1"), leaf("/dev/b", "2"), leaf("/dev/b", "3"), leaf(null, "4")];
  const pool = { vdevs: [first, twice, other, without] } as Pool;
  expect(pool.vdevs.map((vdev) => nameOf(pool, vdev))).toEqual(["/dev/a", "2", "3", "4"]);
});

describe("candidatesFor", () => {
  const disk = (path: string, used_by: string | null) =>
    ({ path, used_by, in_use: used_by?.startsWith("pool") === true }) as Disk;
  const spare = (path: string, health: string) => ({ role: "spare", path, health, vdevs: [] as Vdev[] }) as unknown as Vdev;
  const candidates = (pool: Vdev[], disks: Disk[]) =>
    candidatesFor({ vdevs: pool } as Pool, disks, "replace").map((candidate) => [
      candidate.path,
      candidate.spare,
      candidate.disk?.path ?? null,
    ]);

  it("knows a spare by the partition that OpenZFS makes of a whole disk", () => {
    for (const [path, part] of [
      ["/dev/disk/by-id/wwn-1", "/dev/disk/by-id/wwn-1-part1"],
      ["/dev/nvme0n1", "/dev/nvme0n1p1"],
      ["/dev/sdb", "/dev/sdb1"],
      ["/dev/loop0", "/dev/loop0"],
    ] as const)
      expect(candidates([spare(part, "AVAIL")], [disk(path, "pool tank")])).toEqual([[path, true, path]]);
  });

  it("offers one whose disk is listed under another name as the pool tells it", () => {
    const other = disk("/dev/disk/by-id/ata-1", "pool tank");
    expect(candidates([spare("/dev/disk/by-id/wwn-1-part1", "AVAIL")], [other])).toEqual([
      ["/dev/disk/by-id/wwn-1-part1", true, null],
    ]);
  });

  it("offers free disks, then those with old content, and no disk or spare that is in use", () => {
    const disks = [disk("/dev/sda", "ext4"), disk("/dev/sdb", "pool tank"), disk("/dev/sdc", null)];
    const offered = candidatesFor({ vdevs: [spare("/dev/sdb1", "INUSE")] } as Pool, disks, "replace");
    expect(offered.map(({ path, content }) => [path, content])).toEqual([
      ["/dev/sdc", null],
      ["/dev/sda", "ext4"],
    ]);
  });

  it("offers no spare to attach", () => {
    const pool = { vdevs: [spare("/dev/sdb1", "AVAIL")] } as Pool;
    const offered = candidatesFor(pool, [disk("/dev/sdb", "pool tank"), disk("/dev/sdc", null)], "attach");
    expect(offered.map(({ path }) => path)).toEqual(["/dev/sdc"]);
  });
});
