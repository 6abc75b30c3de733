// SPDX-License-Identifier: Apache-2.0
// @vitest-environment jsdom
/** Disks for a new pool: none free, and those of a pool that is imported. */

import { cleanup, render } from "@testing-library/react";
import { createElement } from "react";
import { afterEach, expect, it } from "vitest";
import { beginService } from "./border";
import { App, newCache } from "../../src/app";
import { text } from "../../src/text";
import { fill, newUser, until } from "./page";
import { DISKS, world } from "./world";

afterEach(cleanup);

it("says that no disk is free, and lets nobody take a disk of a pool", async () => {
  const { items } = world["/disks"] as { readonly items: readonly { readonly used_by: string | null }[] };
  const used = items.filter((disk) => disk.used_by !== null);
  beginService({ responses: { "/disks": { items: used, next_cursor: null } } });
  window.history.replaceState(null, "", "/pools/-new");
  render(createElement(App, { client: newCache() }));
  const main = await until("no page", () => document.querySelector("main"));
  await until("no sentence", () => main.textContent.includes(text.session.setup.pool.noDisks.title));
  await fill(newUser(), main, text.pools.build.carrying, true);
  const name = text.session.setup.pool.chooseDisk(DISKS[0] ?? "");
  const box = await until("no disk", () => main.querySelector<HTMLInputElement>(`input[aria-label="${name}"]`));
  expect(box.disabled).toBe(true);
});
