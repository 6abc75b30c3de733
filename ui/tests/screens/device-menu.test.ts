// SPDX-License-Identifier: Apache-2.0
// @vitest-environment jsdom
/** A pool's device: its name, and a menu with actions that can mend its state. */

import { cleanup } from "@testing-library/react";
import { afterEach, expect, it } from "vitest";
import { text } from "../../src/text";
import { newUser, press } from "../forms/page";
import { DISKS, pool } from "../forms/world";
import { show } from "./show";

const words = text.pools;
const [DEVICE = ""] = DISKS;

afterEach(cleanup);

it.each([
  ["ONLINE", words.offline.action],
  ["DEGRADED", words.offline.action],
  ["FAULTED", words.offline.action],
  ["OFFLINE", words.online.action],
  ["UNAVAIL", words.online.action],
  ["REMOVED", words.online.action],
])("of a device that is %s has %s and the clearing of its errors", async (health, action) => {
  const vdevs = pool.vdevs.map((vdev) => ({
    ...vdev,
    vdevs: (vdev.vdevs ?? []).map((device) => ({ ...device, health: device.path === DEVICE ? health : device.health })),
  }));
  await show("/pools/tank", { "/pools/tank": { ...pool, health: "DEGRADED", vdevs } });
  await press(newUser(), [words.detail.actions(DEVICE)]);
  const items = [...document.querySelectorAll("[role=menuitem]")].map((item) => item.textContent);
  expect(items).toEqual([words.replace.action, words.attach.action, action, words.clear.action, words.detach.action]);
});

it("of a missing device, which OpenZFS names by its GUID, the former path is shown", async () => {
  const missing = { name: "7241", guid: "7241", path: null, was: DEVICE, health: "UNAVAIL" };
  const vdevs = pool.vdevs.map((vdev) => ({
    ...vdev,
    vdevs: (vdev.vdevs ?? []).map((device) => (device.path === DEVICE ? { ...device, ...missing } : device)),
  }));
  await show("/pools/tank", { "/pools/tank": { ...pool, health: "DEGRADED", vdevs } });
  expect(document.querySelector("main")?.textContent).toContain(words.detail.was("7241", DEVICE));
});
