// Tabs of one browser share one stream of events; when the tab that has it closes, another takes it.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { apiOf, logIn, openBrowser, openPage } from "./harness.js";

let browser;
before(async () => void (browser = await openBrowser()));
after(() => browser.close());

test("what happens is told to all tabs by one stream, whichever is closed", async () => {
  const first = await openPage(browser);
  const context = first.context();
  const streams = [];
  context.on("request", (request) => {
    if (new URL(request.url()).pathname === "/api/v1/events") streams.push(request.frame().page());
  });
  await logIn(first);
  await first.getByRole("navigation", { name: "Navigation" }).getByRole("link", { name: "Jobs" }).click();
  const others = [await context.newPage(), await context.newPage()];
  for (const page of others) await page.goto("/jobs");
  const waiting = (count) => others[0].waitForFunction(
    async (wanted) => (await navigator.locks.query()).pending.length === wanted,
    count,
  );
  await waiting(2);
  assert.deepEqual(streams, [first]);

  // The list of jobs is not asked for again by itself.
  const shown = async (page) => {
    await page.getByRole("heading", { name: "Jobs", level: 1 }).waitFor();
    return page.getByRole("row", { name: /^Make support bundle Done/ }).count();
  };
  const known = await shown(first);
  const isTold = (page, count) =>
    page.getByRole("row", { name: /^Make support bundle Done/ }).nth(known + count - 1).waitFor();
  await apiOf(first).job("POST", "/support-bundles");
  await Promise.all([first, ...others].map((page) => isTold(page, 1)));

  await first.close();
  assert.deepEqual(first.faults, []);
  await waiting(1);
  await apiOf(others[0]).job("POST", "/support-bundles");
  await Promise.all(others.map((page) => isTold(page, 2)));
  assert.equal(streams.length, 2);
  assert.ok(others.includes(streams[1]), "one of the others has taken it");
  await context.close();
});
