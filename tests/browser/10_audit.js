// SPDX-License-Identifier: Apache-2.0
// The audit: values before a change, requested values, filters, pages.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { apiOf, closePage, ensureAdmin, logIn, inspect, openBrowser, openPage } from "./harness.js";

let browser;
let page;
before(async () => {
  browser = await openBrowser();
  page = await openPage(browser);
  await ensureAdmin(page);
  await logIn(page);
});
after(() => browser.close());

const rows = () => page.getByRole("grid", { name: "Audit, newest first" }).getByRole("row");

test("an entry shows the values before and the requested values", async () => {
  const { request } = apiOf(page);
  const { id } = await request("POST", "/host-groups", { name: "audited" });
  await request("PATCH", `/host-groups/${id}`, { name: "audited too" });
  await page.getByRole("navigation", { name: "Navigation" }).getByRole("link", { name: "Audit" }).click();
  await page.getByRole("button", { name: "Show what changed by host_group.change" }).first().click();
  const changes = page.getByRole("grid", { name: "What changed by host_group.change" });
  const cells = await changes.getByRole("row", { name: /^name / }).getByRole("gridcell").allTextContents();
  assert.deepEqual(cells, ["name", "audited", "audited too"]);
  await inspect(page, "audit");
});

test("filters narrow it", async () => {
  const refused = await apiOf(page).send("POST", "/host-groups", { name: "audited too" });
  assert.equal(refused.status, 409);
  await page.getByLabel("Action").selectOption({ label: "Host groups" });
  await page.getByLabel("Outcome").selectOption({ label: "Refused or failed" });
  // Other stories had refused host groups too.
  await page.getByText("Refused (409)").first().waitFor();
  await page.getByRole("gridcell", { name: "Done", exact: true }).first().waitFor({ state: "detached" });
  const [, ...entries] = await rows().allTextContents();
  assert.match(entries[0], /host_group\.create.*Refused \(409\)/, "the newest is the one of this story");
  assert.ok(entries.every((entry) => entry.includes("host_group.") && entry.includes("Refused")), `${entries}`);
  await page.getByRole("textbox", { name: "User" }).fill("somebody");
  await page.getByText("No entry matches").waitFor();
  await inspect(page, "audit-no-match");
  await page.getByRole("textbox", { name: "User" }).fill("");
  await page.getByText("Refused (409)").first().waitFor();
  await page.getByLabel("To", { exact: true }).fill("2026-01-01T00:00");
  await page.getByText("No entry matches").waitFor();
  await page.getByLabel("To", { exact: true }).fill("");
  await page.getByLabel("From", { exact: true }).fill("2026-01-01T00:00");
  await page.getByText("Refused (409)").first().waitFor();
});

test("the filtered entries are exported, not only those of this page", async () => {
  await page.reload();
  await page.getByLabel("Action").selectOption({ label: "Host groups" });
  await page.getByText("host_group.change").first().waitFor();
  const downloading = page.waitForEvent("download");
  await page.getByRole("button", { name: "Export CSV" }).click();
  const download = await downloading;
  assert.match(download.suggestedFilename(), /^zvaai-audit-\d{4}-\d\d-\d\d\.csv$/);
  const [head, ...lines] = readFileSync(await download.path(), "utf8").trimEnd().split("\r\n");
  assert.equal(head, "When,Who,From,What,Object,Outcome,Before,After");
  assert.ok(lines.length >= 2 && lines.every((line) => line.includes(",host_group.")), `${lines}`);
  assert.ok(lines.some((line) => /^\d{4}-.*Z,admin,.*,host_group\.change,audited,200,/.test(line)), `${lines}`);
});

test("older entries are on further pages", async () => {
  const entry = (id) => ({
    id, at: "2026-11-22T10:00:00.000Z", actor: "admin", token: null, address: "192.0.2.1", action: "reconcile",
    subject: `entry ${id}`, before: null, after: null, status: 200,
  });
  await page.route("**/api/v1/audit?*", (route) => {
    const last = Number(new URL(route.request().url()).searchParams.get("cursor") ?? "150");
    const items = Array.from({ length: 50 }, (_, index) => entry(last - index));
    return route.fulfill({ json: { items, next_cursor: last > 50 ? String(last - 50) : null } });
  });
  await page.reload();
  await page.getByText("entry 150", { exact: true }).waitFor();
  for (const first of [100, 50]) {
    await page.getByRole("button", { name: "Older" }).click();
    await page.getByText(`entry ${first}`, { exact: true }).waitFor();
  }
  assert.ok(await page.getByRole("button", { name: "Older" }).isDisabled());
  await page.getByRole("button", { name: "Newer" }).click();
  await page.getByText("entry 100", { exact: true }).waitFor();
  await closePage(page);
});
