// SPDX-License-Identifier: Apache-2.0
// @vitest-environment jsdom
/** The list of datastores, of which only rows near the visible part are rendered. */

import { show } from "./show";
import { act, cleanup } from "@testing-library/react";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { text } from "../../src/text";
import { service } from "../forms/border";
import { dialog, fill, newUser, press, until } from "../forms/page";
import { ID, page, world } from "../forms/world";

const COUNT = 60;
const words = text.datastores;
const vmfs = world[`/datastores/${ID.vmfs}`] as object;

// A browser has sizes: 10 rows are visible.
beforeEach(() => void vi.spyOn(HTMLElement.prototype, "offsetHeight", "get").mockReturnValue(450));
afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

it("keeps a dialog open whose row leaves the visible part", async () => {
  const stores = Array.from({ length: COUNT }, (_, index) => ({ ...vmfs, id: `id-${index}`, name: `store-${index}` }));
  const load = (bytes: (index: number) => number) => ({
    "/datastores": page(...stores),
    "/load": page(...stores.map(({ id }, index) => ({ datastore: id, operations: 1, bytes: bytes(index) }))),
    "/datastores/id-0": stores[0],
  });
  const client = await show(
    "/datastores",
    load((index) => index),
  );
  const user = newUser();
  await press(user, [words.columns.load]);
  await press(user, [words.actions("store-0"), words.detail.actions.rename.action]);
  const scope = await until("it does not open", dialog);
  await fill(user, scope, words.detail.actions.rename.name, "gold");
  service.responses = load((index) => COUNT - index);
  await act(() => client.invalidateQueries({ queryKey: ["load"] }));
  const names = () => [...document.querySelectorAll(".zv-datastores td a")].map((link) => link.textContent);
  await until("its row stays", () => !names().includes("store-0") && names().includes("store-59"));
  expect(scope.isConnected).toBe(true);
  expect(scope.querySelector("input")?.value).toBe("gold");
});

it("has no invented values of a missing datastore", async () => {
  await show("/datastores");
  const link = await until("no row", () => [...document.querySelectorAll("td a")].find((a) => a.textContent === "missing1"));
  const cell = (name: string) => link.closest("tr")?.querySelector(`td[data-label="${name}"]`)?.textContent;
  const { type, size, onDisk, free } = words.columns;
  expect([type, size, onDisk, free].map(cell)).toEqual(["VMFS", "–", "–", "–"]);
  const options = [...document.querySelectorAll("option")].filter((option) => option.value === "");
  expect(options.map((option) => option.textContent)).toEqual([words.anyState, words.anyPool]);
});
