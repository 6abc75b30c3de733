// SPDX-License-Identifier: Apache-2.0
// @vitest-environment jsdom
import { cleanup, render } from "@testing-library/react";
import { afterEach, expect, it } from "vitest";
import type { Host, IscsiSession, NfsClient } from "../../api/types";
import { LastSeen } from "./list";

afterEach(cleanup);

const ago = (minutes: number) => new Date(Date.now() - minutes * 60_000).toISOString();
const host = (lastSeenAt: string | null) =>
  ({ iqns: ["iqn.1998-01.com.vmware:esx1"], addresses: ["192.0.2.9"], last_seen_at: lastSeenAt }) as Host;
const session = (name: string) => ({ initiator: `iqn.1998-01.com.vmware:${name}` }) as IscsiSession;
const client = (minutes: number): NfsClient => ({ address: "192.0.2.9", seen_at: ago(minutes), opens: 0, datastores: [] });

it.each([
  ["Never", null, [session("esx2")], [] as NfsClient[]],
  ["3 hours ago", ago(185), [session("esx2")], [client(185)]],
  ["3 hours ago", ago(185), undefined, undefined],
  ["Now", ago(185), [session("esx1")], []],
  ["Now", null, [], [client(1)]],
])("a host was last seen: %s", (seen, at, sessions, clients) => {
  const { container } = render(<LastSeen host={host(at)} sessions={sessions} clients={clients} />);
  expect(container.textContent).toBe(seen);
});
