// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import type { Host, NfsClient } from "../../api/types";
import { mountersOf } from "./mounters";

const host = (name: string, group: string | null, ...addresses: string[]) => ({ name, group, addresses }) as unknown as Host;
const client = (address: string, ...datastores: string[]) => ({ address, datastores }) as unknown as NfsClient;
const HOSTS = [host("esx1", "cluster", "192.0.2.1", "192.0.2.2"), host("esx2", "lab", "192.0.2.3")];

function rows(clients: readonly NfsClient[], groups: readonly string[], further: readonly string[]): string[] {
  const store = { id: "a", host_groups: [...groups], clients: [...further] };
  return mountersOf(store, HOSTS, clients).map(
    (mounter) => `${mounter.address} ${mounter.host?.name ?? "-"} ${mounter.client ? "seen" : "-"}`,
  );
}

describe("mountersOf", () => {
  it("has the addresses of its hosts, and who of them was seen", () =>
    expect(rows([client("192.0.2.2", "a")], ["cluster"], [])).toEqual(["192.0.2.1 esx1 -", "192.0.2.2 esx1 seen"]));
  it("has further clients, once, by the host whose address it is", () =>
    expect(rows([], ["cluster"], ["192.0.2.1", "192.0.2.3", "198.51.100.0/24"])).toEqual([
      "192.0.2.1 esx1 -",
      "192.0.2.2 esx1 -",
      "192.0.2.3 esx2 -",
      "198.51.100.0/24 - -",
    ]));
  it("has who may be using it without being named, and nobody who uses another", () =>
    expect(rows([client("198.51.100.7", "a"), client("203.0.113.1", "b")], [], [])).toEqual(["198.51.100.7 - seen"]));
});
