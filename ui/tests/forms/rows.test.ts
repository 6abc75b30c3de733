// SPDX-License-Identifier: Apache-2.0
// @vitest-environment jsdom
/** A dialog and its input stay if the row of its menu goes. */

import { service } from "./border";
import { act, cleanup } from "@testing-library/react";
import { afterEach, expect, it } from "vitest";
import { open } from "./opened";
import { dialog, until } from "./page";
import { DISKS, ID, page, pool } from "./world";

const [FIRST = ""] = DISKS;

afterEach(cleanup);

it.each([
  ["/schedules", "hourly", "Delete", { "/schedules": page() }],
  [`/datastores/${ID.nfs}/snapshots`, "snapshot before", "Restore a VM", { [`/datastores/${ID.nfs}/snapshots`]: page() }],
  ["/hosts", "esx1", "Delete", { "/hosts": page() }],
  ["/hosts?show=groups", "lab", "Change", { "/host-groups": page() }],
  ["/pools/tank", FIRST, "Replace", { "/pools/tank": { ...pool, vdevs: [] } }],
])("%s: %s, %s", async (at, name, action, responses) => {
  const { client, scope, user } = await open(at, [`Actions for ${name}`, action]);
  const input = await until("no field", () => scope.querySelector("input"));
  if (input.type === "text") await user.type(input, "mine");
  const value = input.value;
  service.responses = responses;
  await act(() => client.invalidateQueries());
  await until("its row stays", () => document.querySelector(`[aria-label="Actions for ${name}"]`) === null);
  expect(dialog()).toBe(scope);
  expect(scope.querySelector("input")?.value).toBe(value);
});
