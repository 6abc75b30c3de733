// SPDX-License-Identifier: Apache-2.0
// Schedules: created after an error at a field, run now, paused, changed, deleted.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { apiOf, closePage, ensureDatastore, logIn, inspect, openBrowser, openPage, PATIENCE_MS } from "./harness.js";

let browser;
let page;
before(async () => {
  browser = await openBrowser();
  page = await openPage(browser);
  await logIn(page);
  await ensureDatastore(page);
});
after(() => browser.close());

const shown = async () => (await apiOf(page).request("GET", "/schedules")).items;
const dialog = () => page.getByRole("dialog");
const row = () => page.getByRole("row", { name: "hourly" });

async function choose(action) {
  await page.getByRole("button", { name: "Actions for hourly" }).click();
  await page.getByRole("menuitem", { name: action }).click();
}

test("a schedule is created, and its retention is shown", async () => {
  await page.getByRole("navigation", { name: "Navigation" }).getByRole("link", { name: "Schedules" }).click();
  await page.getByRole("button", { name: "New schedule" }).click();
  const submit = dialog().getByRole("button", { name: "Create schedule" });
  await dialog().getByRole("textbox", { name: "Name" }).fill("hourly");
  await dialog().getByRole("checkbox").first().check();
  await dialog().getByRole("textbox", { name: "Retain for each datastore" }).fill("0");
  await dialog().getByText("a whole number from 1 to 1000").waitFor();
  assert.ok(await submit.isDisabled());
  await dialog().getByRole("textbox", { name: "Retain for each datastore" }).fill("48");
  await dialog().getByText("So you can always go back 47 hours.").waitFor();
  await inspect(page, "schedule-new");
  await submit.click();
  await row().getByText("the newest 48").waitFor();
  const [made] = await shown();
  assert.deepEqual([made.name, made.every_minutes, made.keep, made.enabled], ["hourly", 60, 48, true]);
});

test("a name in use is refused", async () => {
  await page.getByRole("button", { name: "New schedule" }).click();
  await dialog().getByRole("textbox", { name: "Name" }).fill("hourly");
  await dialog().getByRole("checkbox").first().check();
  await dialog().getByRole("button", { name: "Create schedule" }).click();
  await dialog().getByText("The name is taken").first().waitFor();
  await dialog().getByRole("button", { name: "Cancel" }).click();
});

/** The clock runs a new schedule at once. A run within the same second would want the same name for its snapshot. */
async function untilClockRan() {
  const limit = Date.now() + PATIENCE_MS;
  let last = null;
  while (last === null || Date.now() - Date.parse(last) < 1000) {
    assert.ok(Date.now() < limit, "the clock does not run it");
    [{ last_at: last }] = await shown();
  }
}

test("it is paused, run while paused, and changed", async () => {
  await untilClockRan();
  await choose("Pause");
  await dialog().getByText("The schedule does nothing until you resume it").waitFor();
  await dialog().getByRole("button", { name: "Pause" }).click();
  await row().getByText("Paused").waitFor();
  await choose("Run now");
  await dialog().getByRole("button", { name: "Run now" }).click();
  await page.getByText("Take snapshot: done").waitFor();
  await choose("Change");
  // Another user was faster: the form reports it and takes over what was not edited here, or the next run would destroy snapshots.
  const [{ id }] = await shown();
  await dialog().getByRole("button", { name: "Change", disabled: false }).waitFor(); // the form has read the schedule
  await dialog().getByLabel("Unit").selectOption({ label: "Days" });
  await apiOf(page).request("PATCH", `/schedules/${id}`, { keep: 96 });
  await dialog().getByRole("button", { name: "Change" }).click();
  await dialog().getByText("Retain for each datastore: 96 (before: 48)").waitFor();
  assert.equal((await shown())[0].every_minutes, 60);
  await dialog().getByRole("button", { name: "Change" }).click();
  await row().getByText("95 days").waitFor();
  await inspect(page, "schedules");
  const [changed] = await shown();
  assert.deepEqual([changed.every_minutes, changed.keep, changed.enabled], [1440, 96, false]);
});

test("a pool is scrubbed by a schedule", async () => {
  await page.getByRole("button", { name: "New scrub schedule" }).click();
  await dialog().getByRole("textbox", { name: "Name" }).fill("monthly");
  await dialog().getByRole("textbox", { name: "Start of the day" }).fill("03:00");
  await inspect(page, "schedule-scrub");
  await dialog().getByRole("button", { name: "Create schedule" }).click();
  const scrub = page.getByRole("row", { name: /^monthly Scrub of tank/ });
  await scrub.getByText("28 days").waitFor();
  await page.getByRole("button", { name: "Actions for monthly" }).click();
  await page.getByRole("menuitem", { name: "Change" }).click();
  await dialog().getByRole("textbox", { name: "Every so many days" }).fill("14");
  await dialog().getByRole("button", { name: "Change" }).click();
  await scrub.getByText("14 days").waitFor();
  const made = (await shown()).find((schedule) => schedule.name === "monthly");
  assert.deepEqual([made.kind, made.pool, made.every_minutes, made.at], ["scrub", "tank", 20_160, "03:00"]);
  await apiOf(page).request("DELETE", `/schedules/${made.id}`);
  await page.reload();
});

test("deleting explains the effect on its snapshots", async () => {
  await choose("Delete");
  await dialog().getByText("Existing snapshots stay").waitFor();
  await dialog().getByRole("textbox").fill("hourly");
  await dialog().getByRole("button", { name: "Delete schedule" }).click();
  await page.getByText("No schedules yet").waitFor();
  assert.deepEqual(await shown(), []);
  await closePage(page);
});
