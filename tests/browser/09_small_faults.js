// SPDX-License-Identifier: Apache-2.0
// What only a layout shows: in a low window, on a phone, with few rows. And the login of a user who has failed too often.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { apiOf, closePage, ensureDatastore, inspect, logIn, openBrowser, openPage, PASSWORD, problem, refuse } from "./harness.js";

let browser;
let page;
before(async () => {
  browser = await openBrowser();
  page = await openPage(browser, { viewport: { width: 1440, height: 900 } });
  await logIn(page);
  await ensureDatastore(page);
});
after(() => browser.close());

const dialog = () => page.getByRole("dialog");

test("three notices of several lines are shown whole in a low window", async () => {
  const names = ["first", "second", "third"];
  const receiver = { etag: '"r"', url: "https://chat.example/hook", severity: "warning", certificate: null, enabled: true, kind: "webhook" };
  const items = names.map((name) => ({
    ...receiver, id: `00000000-0000-4000-8000-${name.padEnd(12, "0")}`, name, created_at: "2026-11-22T09:30:00Z",
    last_delivery: null, waiting: 0, sender: "", recipients: [], user: null,
  }));
  const failed = { state: "failed", status: null, problem: "chat.example:443 does not answer: the connection was refused" };
  await page.route("**/api/v1/receivers?*", (route) => route.fulfill({ json: { items, next_cursor: null } }));
  await page.route("**/test", (route) => route.fulfill({ json: failed }));
  await page.goto("/system");
  for (const name of names) {
    await page.getByRole("button", { name: `Actions for ${name}` }).click();
    await page.getByRole("menuitem", { name: "Send a test" }).click();
    await page.getByText(`${name} did not accept the test`).waitFor();
  }
  const hidden = () => page.evaluate(() => {
    const group = document.querySelector(".pf-v6-c-alert-group.pf-m-toast");
    const { top, bottom } = group.getBoundingClientRect();
    return { scrolled: group.scrollHeight - group.clientHeight, above: Math.min(0, top), below: Math.max(0, bottom - innerHeight) };
  });
  assert.deepEqual(await hidden(), { scrolled: 0, above: 0, below: 0 });
  await page.unrouteAll({ behavior: "wait" });
});

test("below few rows of the list of datastores there is no empty area", async () => {
  await page.goto("/datastores");
  await page.getByRole("link", { name: "vmfs1" }).waitFor();
  const empty = await page.getByRole("region", { name: "Datastores" }).evaluate(
    (region) => region.getBoundingClientRect().bottom - region.querySelector("table").getBoundingClientRect().bottom,
  );
  assert.ok(empty < 20, `${empty} px`);
  await page.getByRole("button", { name: "Actions for vmfs1" }).click();
  const item = page.getByRole("menuitem", { name: "Delete" });
  await item.waitFor();
  assert.ok(await item.evaluate((node) => {
    const { x, y, width, height } = node.getBoundingClientRect();
    return node.contains(document.elementFromPoint(x + width / 2, y + height / 2));
  }), "the menu is cut off");
  await page.keyboard.press("Escape");
});

test("the size of a snapshot follows what hosts write, without a reload", async () => {
  const other = await openPage(browser);
  await other.clock.install();
  await logIn(other);
  const [store] = (await apiOf(other).request("GET", "/datastores")).items;
  await apiOf(other).job("POST", "/snapshots", { name: "growing", datastores: [store.id] });
  const [snapshot] = (await apiOf(other).request("GET", `/datastores/${store.id}/snapshots`)).items;
  let used = "0";
  await other.route("**/snapshots?*", (route) => route.fulfill({ json: { items: [{ ...snapshot, used }], next_cursor: null } }));
  await other.goto(`/datastores/${store.id}/snapshots`);
  const row = other.getByRole("row").filter({ hasText: snapshot.name });
  await row.getByText("0 B", { exact: true }).waitFor();
  used = String(20 * 2 ** 20);
  await other.clock.runFor(31_000);
  await row.getByText("20 MiB", { exact: true }).waitFor();
  await closePage(other);
});

test("on a phone a label is as wide as its words", async () => {
  const phone = await openPage(browser, { viewport: { width: 390, height: 844 } });
  await logIn(phone, { path: "/jobs" });
  const label = phone.locator("td > .pf-v6-c-label").first();
  await label.waitFor();
  const [width, words] = await label.evaluate((node) => [
    node.getBoundingClientRect().width,
    node.querySelector(".pf-v6-c-label__content").getBoundingClientRect().width,
  ]);
  assert.ok(width < words + 30, `${width} px for ${words} px`);
  await inspect(phone, "phone-jobs");
  await closePage(phone);
});

test("a token is shown from its start to its end", async () => {
  await page.goto("/users");
  await page.getByRole("button", { name: "New token" }).click();
  await dialog().getByRole("textbox", { name: "Name" }).fill("whole");
  await dialog().getByRole("textbox", { name: "Your password" }).fill(PASSWORD);
  await dialog().getByRole("button", { name: "Create token" }).click();
  const shown = dialog().locator("code").filter({ hasText: /^zvaai_/ });
  const cut = await shown.evaluate((node) => {
    for (let part = node; part.getAttribute("role") !== "dialog"; part = part.parentElement)
      if (part.scrollWidth > part.clientWidth + 1 && getComputedStyle(part).display !== "inline") return part.className;
    return null;
  });
  assert.equal(cut, null);
  await dialog().getByRole("button", { name: "Close" }).click();
  const { request } = apiOf(page);
  for (const token of (await request("GET", "/tokens")).items) if (token.name === "whole") await request("DELETE", `/tokens/${token.id}`);
  await closePage(page);
});

test("after too many failed logins the button counts down, and works at the end", async () => {
  const out = await openPage(browser);
  await out.clock.install();
  await out.goto("/login");
  await out.getByRole("textbox", { name: "User name" }).fill("admin");
  await out.getByRole("textbox", { name: "Password" }).fill("wrong");
  const body = problem(429, "too_many", "too many failed attempts; try again in 300 s", { retry_after: 300 });
  await refuse(out, "**/api/v1/session", 429, body);
  await out.getByRole("button", { name: "Log in" }).click();
  const wait = out.getByRole("button", { name: /^Try again in \d+ s$/ });
  await out.getByText("Too many failed attempts").waitFor();
  assert.ok(await wait.isDisabled());
  await inspect(out, "login-locked");
  const before = Number(/\d+/.exec(await wait.textContent()));
  await out.clock.runFor(10_000);
  assert.ok(Number(/\d+/.exec(await wait.textContent())) <= before - 9);
  await out.clock.runFor(300_000);
  await out.getByRole("button", { name: "Log in", disabled: false }).waitFor();
  assert.equal(await out.getByText("Too many failed attempts").count(), 0);
  await closePage(out);
});
