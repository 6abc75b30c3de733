// SPDX-License-Identifier: Apache-2.0
// Tabs of a browser share a stream of events and a session. If the tab with the stream closes, another tab takes over. A login in one tab
// counts in all.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { apiOf, closePage, logIn, openBrowser, openPage, PASSWORD } from "./harness.js";

let browser;
before(async () => void (browser = await openBrowser()));
after(() => browser.close());

test("one stream reports events to all tabs, whichever tab is closed", async () => {
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
    async (expected) => (await navigator.locks.query()).pending.length === expected,
    count,
  );
  await waiting(2);
  assert.deepEqual(streams, [first]);

  // The page does not read the list of jobs again without an event.
  const { items } = await apiOf(first).request("GET", "/jobs");
  const known = items.filter(({ kind, state }) => kind === "support.bundle" && state === "succeeded").length;
  const isReported = (page, count) =>
    page.getByRole("row", { name: /^Create support bundle .*Done/ }).nth(known + count - 1).waitFor();
  await apiOf(first).job("POST", "/support-bundles");
  await Promise.all([first, ...others].map((page) => isReported(page, 1)));

  await first.close();
  assert.deepEqual(first.faults, []);
  await waiting(1);
  await apiOf(others[0]).job("POST", "/support-bundles");
  await Promise.all(others.map((page) => isReported(page, 2)));
  assert.equal(streams.length, 2);
  assert.ok(others.includes(streams[1]), "one of the others has taken it");
  await context.close();
});

/** Makes the page read the session, and delays the response until the returned function is called: by then it is outdated. */
async function holdSession(page) {
  let letGo;
  const held = new Promise((resolve) => (letGo = resolve));
  const of = (request) => new URL(request.url()).pathname === "/api/v1/session";
  const request = new Promise((resolve) => {
    void page.route("**/api/v1/session", async (route) => {
      const response = await route.fetch();
      resolve(response.status());
      await held;
      await route.fulfill({ response });
    }, { times: 1 });
  });
  const over = Promise.race(["requestfinished", "requestfailed"].map((event) => page.waitForEvent(event, of)));
  // As after an interruption of the stream of events: the page reads everything again.
  await page.evaluate(() => new BroadcastChannel("zvaai-events").postMessage({ kind: "missed" }));
  assert.equal(await request, 200);
  return async () => {
    letGo();
    await over;
  };
}

test("a login in one tab applies to all tabs, and so does a logout", async () => {
  const first = await openPage(browser);
  await logIn(first);
  const other = await first.context().newPage();
  await other.goto("/system");
  await other.getByRole("button", { name: "Create support bundle" }).waitFor();
  const ended = (page) => page.getByRole("heading", { name: "Your session has ended" });

  const late = await holdSession(first);
  await first.context().clearCookies(); // as after half an hour of inactivity
  // By an event, which arrives even if the page has made a request and reported the end already.
  for (const page of [first, other]) await page.locator("a[href='/audit']").first().dispatchEvent("click");
  await Promise.all([ended(first).waitFor(), ended(other).waitFor()]);
  await late();
  await first.getByRole("textbox", { name: "Password" }).fill(PASSWORD);
  await first.getByRole("button", { name: "Log in again" }).click();
  await Promise.all([ended(first), ended(other)].map((heading) => heading.waitFor({ state: "detached" })));
  // Requests succeed: they have the CSRF token of the new session.
  await other.getByRole("navigation", { name: "Navigation" }).getByRole("link", { name: "System" }).click();
  const answering = other.waitForResponse((answer) => answer.request().method() === "POST");
  await other.getByRole("button", { name: "Create support bundle" }).click();
  assert.equal((await answering).status(), 202);

  await first.getByRole("button", { name: "User menu of admin" }).click();
  await first.getByRole("menuitem", { name: "Log out" }).click();
  await ended(other).waitFor();
  await closePage(first);
});
