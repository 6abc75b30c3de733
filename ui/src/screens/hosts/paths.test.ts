import { describe, expect, it } from "vitest";
import type { Check, Datastore } from "../../api/types";
import { linesFor, linesOf } from "./paths";

const [ONE, OTHER] = ["naa.61", "naa.62"];
const check = (id: string, subject: string, evidence: string, remedy = ""): Check => ({
  id,
  subject,
  evidence,
  remedy,
  title: "",
  result: "ok",
});
const store = (id: string) => ({ id }) as Datastore;

describe("linesFor", () => {
  const readiness = {
    checks: [
      check("served", "a", `LUN 0, ${ONE}`),
      check("served", "b", `LUN 1, ${OTHER}`),
      check("clients", "c", "192.0.2.1", "esxcli storage nfs add -H SERVER -s /c -v c; esxcli storage nfs list"),
    ],
    esxcli: ["esxcli storage core adapter rescan --all", `esxcli x -d ${ONE}`, `esxcli x -d ${OTHER}`],
  };
  it("has devices that the host sees, and no others", () =>
    expect(linesFor(readiness, [store("a")])).toEqual([readiness.esxcli[0], readiness.esxcli[1]]));
  it("mounts what it sees", () =>
    expect(linesFor(readiness, [store("c")])).toEqual([
      readiness.esxcli[0],
      "esxcli storage nfs add -H SERVER -s /c -v c",
      "esxcli storage nfs list",
    ]));
});

it.each([
  ["", []],
  [" a \n\nb,c  d\r\n", ["a", "b", "c", "d"]],
])("linesOf %j", (typed, lines) => expect(linesOf(typed)).toEqual(lines));
