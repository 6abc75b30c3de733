// SPDX-License-Identifier: Apache-2.0
// History: the first values of a new datastore come by themselves; charts of a range share a cursor, by pointer and by keyboard.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { apiOf, closePage, ensureDatastore, inspect, logIn, openBrowser, openPage } from "./harness.js";

let browser;
let page;
let store;
before(async () => {
  browser = await openBrowser();
  page = await openPage(browser);
  await logIn(page);
  await ensureDatastore(page);
  [store] = (await apiOf(page).request("GET", "/datastores")).items.filter((datastore) => datastore.kind === "vmfs" && datastore.state === "active");
});
after(() => browser.close());

const cursor = (chart) => page.getByRole("slider", { name: `${chart}: time of the values` });

test("the values of a datastore come within a minute, without a reload", async () => {
  await page.goto(`/datastores/${store.id}/history`);
  await page.getByRole("button", { name: "Hour", exact: true }).click();
  await page.getByRole("heading", { name: "Operations per second" }).waitFor();
  assert.match(await cursor("Operations per second").getAttribute("aria-valuetext"), /Read .*, Write /);
  await inspect(page, "datastore-history");
});

test("one cursor shows the values of a time in all charts, and the pool's page the day it is full", async () => {
  const points = 168;
  const series = (value) => Array.from({ length: points }, (_, place) => value(place));
  const part = { start: "2026-11-15T09:00:00.000Z", step_seconds: 3600 };
  const wave = (base) => series((place) => base * (2 + Math.sin(place / 8)));
  const load = {
    read_operations: wave(900), write_operations: wave(400), read_bytes: wave(3e7), write_bytes: wave(1e7),
    cloned_bytes: wave(2e8), copied_bytes: wave(1e6), zeroed_bytes: wave(5e7), unmapped_bytes: wave(1e7),
    p50_ms: wave(0.4), p99_ms: series((place) => (place === 84 ? 77 : 3)),
  };
  const capacity = { used_bytes: series((place) => 1e12 + 1e9 * place), snapshot_bytes: series(() => null), size_bytes: series(() => 4e12) };
  const answer = { load: { ...part, series: load }, capacity: { ...part, series: capacity }, full_at: "2027-03-12T12:00:00.000Z" };
  await page.route(`**/api/v1/pools/${store.pool}/history?*`, (route) => route.fulfill({ json: answer }));
  await page.goto(`/pools/${store.pool}`);
  await page.getByRole("button", { name: "Week", exact: true }).click();
  await page.getByText("the pool is full on Mar 12, 2027").waitFor();
  const { width, height } = await cursor("Throughput").boundingBox();
  await cursor("Throughput").hover({ position: { x: (width * 84) / (points - 1), y: height / 2 } });
  await page.getByText("77 ms", { exact: true }).waitFor();
  await inspect(page, "pool-history");
  await page.mouse.move(0, 0);
  await cursor("Latency").focus();
  await page.keyboard.press("PageDown");
  await page.keyboard.press("ArrowLeft");
  assert.match(await cursor("Capacity").getAttribute("aria-valuetext"), /^Nov 21, 2026, .* Used 1.05 TiB/);
  await closePage(page);
});
