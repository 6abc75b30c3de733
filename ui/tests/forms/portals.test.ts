// SPDX-License-Identifier: Apache-2.0
// @vitest-environment jsdom
/** A new portal replaces the one at every address: the target refuses both at once. */

import { service } from "./border";
import { cleanup } from "@testing-library/react";
import { afterEach, expect, it } from "vitest";
import { open } from "./opened";
import { field, fill, press, until } from "./page";
import { page, portal } from "./world";

const listening = (...addresses: string[]) => ({ "/portals": page(...addresses.map((address) => ({ ...portal, address }))) });
const EVERY = listening("0.0.0.0:3260", "[::]:3261");

afterEach(cleanup);

it.each([
  ["192.0.2.1:3260", "0.0.0.0:3260"],
  ["192.0.2.1:3261", ""],
  ["[2001:db8::1]:3261", "[::]:3261"],
  ["[2001:db8::1]:3260", ""],
  ["0.0.0.0:3260", ""],
  ["192.0.2.1", ""],
])("%s replaces %s", async (address, replaced) => {
  const { user, scope } = await open("/system", ["Add portal"], EVERY);
  await fill(user, scope, "Address and port", address);
  expect(field("Takes the place of", scope)).toHaveProperty("value", replaced);
});

it("sends the preset, and a choice stays", async () => {
  for (const [choice, sent] of [
    [null, "0.0.0.0:3260"],
    ["No portal", null],
  ] as const) {
    const { user, scope } = await open("/system", ["Add portal"], EVERY);
    await fill(user, scope, "Address and port", "192.0.2.1:3260");
    if (choice !== null) await fill(user, scope, "Takes the place of", choice);
    await press(user, ["Add portal"], scope);
    await until("the dialog stays", () => !scope.isConnected);
    expect(service.sent.map(({ body }) => body)).toEqual([
      { address: "192.0.2.1:3260", group_tag: 1, advertised: null, replaces: sent, force: false },
    ]);
    cleanup();
  }
});
