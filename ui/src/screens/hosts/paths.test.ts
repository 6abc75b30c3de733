// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import type { Check, Datastore, Host } from "../../api/types";
import { isRecent, isUsageKnown, linesFor, entriesOf, nameIn } from "./paths";

const [FIRST, OTHER] = ["naa.61", "naa.62"];
const check = (id: string, subject: string, evidence: string, remedy = ""): Check => ({
  id,
  subject,
  evidence,
  remedy,
  title: "",
  result: "ok",
});
const store = (id: string) => ({ id }) as Datastore;

it("isUsageKnown: nothing can be said of a host before all is known by which it could be using something", () => {
  const [iscsi, nfs] = [{ addresses: [] as string[] } as Host, { addresses: ["192.0.2.1"] } as Host];
  expect([isUsageKnown(iscsi, undefined, []), isUsageKnown(iscsi, [], undefined)]).toEqual([false, true]);
  expect([isUsageKnown(nfs, [], undefined), isUsageKnown(nfs, [], [])]).toEqual([false, true]);
});

describe("linesFor", () => {
  const readiness = {
    checks: [
      check("served", "a", `LUN 0, ${FIRST}`),
      check("served", "b", `LUN 1, ${OTHER}`),
      check("clients", "c", "192.0.2.1", "esxcli storage nfs add -H 192.0.2.9 -s /c -v c; esxcli storage nfs list"),
    ],
    esxcli: ["esxcli storage core adapter rescan --all", `esxcli x -d ${FIRST}`, `esxcli x -d ${OTHER}`],
    target: "iqn.2026-11.zvaai:0123456789ab",
    portals: ["192.0.2.9:3260"],
    hosts: [{ host: "h", esxcli: ["esxcli of h"] }],
  };
  it("has devices that the host sees, and no others", () =>
    expect(linesFor(readiness, [store("a")])).toEqual([readiness.esxcli[0], readiness.esxcli[1]]));
  it("begins with those of the host alone", () =>
    expect(linesFor(readiness, [], "h")).toEqual(["esxcli of h", readiness.esxcli[0]]));
  it("mounts what it sees", () =>
    expect(linesFor(readiness, [store("c")])).toEqual([
      readiness.esxcli[0],
      "esxcli storage nfs add -H 192.0.2.9 -s /c -v c",
      "esxcli storage nfs list",
    ]));
});

it.each([
  ["", []],
  [" a \n\nb,c  d\r\n", ["a", "b", "c", "d"]],
])("entriesOf %j", (typed, lines) => expect(entriesOf(typed)).toEqual(lines));

it.each([
  ["iqn.1998-01.com.vmware:esx1.lab.local:1036308926:65", "esx1.lab.local"],
  ["iqn.1998-01.com.vmware:esx1-4f2a6d10", "esx1-4f2a6d10"],
  ["iqn.1993-08.org.debian:01:5dd4c93c2a1", "5dd4c93c2a1"],
  ["iqn.2001-04.com.example", ""],
])("nameIn %s", (iqn, name) => expect(nameIn(iqn)).toBe(name));

it("isRecent: an NFS client is idle 5 minutes after its last request, unless it has files open", () => {
  const client = { address: "192.0.2.1", seen_at: "2026-11-25T10:00:00Z", opens: 0, datastores: [] };
  const minutes = (count: number) => Date.parse(client.seen_at) + count * 60_000;
  expect([isRecent(client, minutes(4)), isRecent(client, minutes(19))]).toEqual([true, false]);
  expect(isRecent({ ...client, opens: 1 }, minutes(19))).toBe(true);
});
