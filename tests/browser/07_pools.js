// SPDX-License-Identifier: Apache-2.0
// Pools and disks: a dry run before disks are added, a scrub, replacing a failed disk, refusals, the key, SMART.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { apiOf, closePage, GIB, logIn, inspect, openBrowser, openPage, openSession, PASSWORD } from "./harness.js";

let browser;
let page;
let pool;
let spare;
before(async () => {
  browser = await openBrowser();
  page = await openPage(browser);
  await logIn(page);
  pool = (await apiOf(page).request("GET", "/pools")).items[0].name;
});
after(() => browser.close());

const shown = async () => apiOf(page).request("GET", `/pools/${pool}`);
const dialog = () => page.getByRole("dialog");

async function choose(what, action) {
  await page.getByRole("button", { name: what, exact: true }).click();
  await page.getByRole("menuitem", { name: action, exact: true }).click();
}

test("disks are added after a dry run that shows the layout and what is lost", async () => {
  await page.getByRole("navigation", { name: "Navigation" }).getByRole("link", { name: "Pools and disks" }).click();
  await page.getByRole("link", { name: pool }).waitFor();
  await inspect(page, "pools");
  await page.getByRole("link", { name: pool }).click();
  await choose("Actions", "Add disks");
  await page.getByLabel("Use", { exact: true }).selectOption({ label: "Spare" });
  const disk = page.getByRole("checkbox", { name: /^Choose / }).first();
  spare = (await disk.getAttribute("aria-label")).replace("Choose ", "");
  await disk.check();
  await page.getByRole("button", { name: "Review" }).click();
  await page.getByText("Dry run: nothing was changed.").waitFor();
  assert.ok(!(await shown()).vdevs.some((vdev) => vdev.role === "spare"), "a dry run changes nothing");
  await inspect(page, "pool-extend");
  await page.getByRole("button", { name: "Add disks" }).click();
  await page.getByRole("heading", { name: "Extend pool", level: 1 }).waitFor();
  await page.getByText("Done").first().waitFor();
  assert.deepEqual((await shown()).vdevs.filter((vdev) => vdev.role === "spare").map((vdev) => vdev.path), [spare]);
});

test("a scrub is started; while it runs it shows its progress, and can be paused and stopped", async () => {
  await page.goto(`/pools/${pool}`);
  await choose("Actions", "Start scrub");
  await dialog().getByText("Reads all data and repairs damage").waitFor();
  await dialog().getByRole("button", { name: "Start scrub" }).click();
  await page.getByText("Scrub pool: done").waitFor();
  await page.getByText("Scrub found no errors").waitFor();
  const results = { progress: 0.42, repaired: "0", errors: 0 };
  const scan = { function: "scrub", state: "scanning", started: "2026-11-22T09:30:00Z", ended: null, ...results };
  const running = { ...(await shown()), scan };
  await page.route(`**/api/v1/pools/${pool}`, (route) => route.fulfill({ json: running }));
  await page.reload();
  await page.getByText("Scrub: 42 %").waitFor();
  await page.getByRole("button", { name: "Actions", exact: true }).click();
  await page.getByRole("menuitem", { name: "Pause scrub" }).waitFor();
  await page.getByRole("menuitem", { name: "Stop scrub" }).click();
  await dialog().getByText("The progress is lost").waitFor();
  await inspect(page, "pool-scrub");
  await page.unroute(`**/api/v1/pools/${pool}`);
  await dialog().getByRole("button", { name: "Stop scrub" }).click();
  // The scrub has ended: the service reports that.
  await page.getByText("Scrub pool: failed").waitFor();
  await page.reload();
});

test("a disk is taken offline, its partner is refused, and it is replaced by the spare", async () => {
  const [device, other] = (await shown()).vdevs.find((vdev) => vdev.kind === "mirror").vdevs.map((vdev) => vdev.path);
  await choose(`Actions for ${device}`, "Take offline");
  await dialog().getByText("another failed disk can lose the pool").waitFor();
  await dialog().getByRole("button", { name: "Take offline" }).click();
  await page.getByRole("row", { name: device }).getByText("OFFLINE").waitFor();
  await choose(`Actions for ${other}`, "Take offline");
  await dialog().getByRole("button", { name: "Take offline" }).click();
  await dialog().getByText("has no other copy of the data on", { exact: false }).waitFor();
  await dialog().getByRole("button", { name: "Cancel" }).click();
  await inspect(page, "pool-degraded");
  await page.getByRole("navigation", { name: "Navigation" }).getByRole("link", { name: "Alerts" }).click();
  const row = page.getByRole("row").filter({ hasText: "is OFFLINE" });
  const acknowledge = row.getByRole("button", { name: "Acknowledge" });
  await acknowledge.click();
  await row.getByText("Acknowledged by admin").waitFor();
  await page.getByLabel("Shown alerts").selectOption({ label: "All alerts" });
  await row.getByText("Acknowledged by admin").waitFor();
  await inspect(page, "alerts-all");
  await page.goto(`/pools/${pool}`);
  await choose(`Actions for ${device}`, "Replace");
  await dialog().getByRole("radio", { name: spare }).check();
  await inspect(page, "pool-replace");
  await dialog().getByRole("button", { name: "Replace" }).click();
  await page.getByText("Replace device: done").waitFor();
  await page.getByRole("row", { name: device }).waitFor({ state: "detached" });
  assert.equal((await shown()).health, "ONLINE");
});

test("a disk is attached and detached, the pool is trimmed, upgraded, and warned of earlier", async () => {
  const [device] = (await shown()).vdevs.find((vdev) => vdev.kind === "mirror").vdevs.map((vdev) => vdev.path);
  await choose(`Actions for ${device}`, "Attach a disk");
  await dialog().getByRole("radio").first().check();
  await inspect(page, "pool-attach");
  await dialog().getByRole("button", { name: "Attach" }).click();
  await page.getByText("Attach device: done").waitFor();
  const mirror = (await shown()).vdevs.find((vdev) => vdev.kind === "mirror");
  assert.equal(mirror.vdevs.length, 3);
  const last = mirror.vdevs.at(-1).path;
  await choose(`Actions for ${last}`, "Detach");
  await dialog().getByRole("button", { name: "Detach" }).click();
  await page.getByRole("row", { name: last }).waitFor({ state: "detached" });
  await choose("Actions", "Start trim");
  await dialog().getByRole("button", { name: "Start trim" }).click();
  await page.getByText("Trim pool: done").waitFor();
  await choose("Actions", "Change alert thresholds");
  await dialog().getByRole("textbox", { name: "Warning at" }).fill("70");
  await dialog().getByRole("button", { name: "Change" }).click();
  await page.getByText("Change pool: done").waitFor();
  assert.equal((await shown()).warning_percent, 70);
});

test("the page asks to store the key of encrypted datastores until a user confirms it", async () => {
  await apiOf(page).job("POST", "/datastores", { name: "secret1", pool, size: String(GIB), encrypted: true });
  await page.reload();
  await page.getByRole("button", { name: "Export key" }).click();
  await dialog().getByText("Store the key in a safe place").waitFor();
  await dialog().getByLabel("Your password").fill(PASSWORD);
  await dialog().getByRole("button", { name: "Show key" }).click();
  const secret = await dialog().getByText(/^[0-9a-f]{64}$/).textContent();
  await inspect(page, "pool-key");
  await dialog().getByRole("button", { name: "I have stored the key" }).click();
  await dialog().waitFor({ state: "detached" });
  assert.ok(!(await page.content()).includes(secret), "the key is still in the page");
  await page.getByRole("button", { name: "Confirm key" }).click();
  await dialog().getByRole("textbox", { name: "Key" }).fill(secret.replace(/^./, (first) => (first === "0" ? "1" : "0")));
  await dialog().getByRole("button", { name: "Confirm" }).click();
  await dialog().getByRole("alert").waitFor();
  await dialog().getByRole("textbox", { name: "Key" }).fill(secret);
  // Another user was faster: the form reports that and keeps the input.
  await (await openSession(browser)).request("POST", `/encryption-keys/${pool}/confirm`, { secret });
  await dialog().getByRole("button", { name: "Confirm" }).click();
  await dialog().getByText("Someone else changed this in the meantime").waitFor();
  await dialog().getByText(/^Confirmed: .* \(before: Not yet\)$/).waitFor();
  await dialog().getByRole("button", { name: "Confirm" }).click();
  await page.getByRole("button", { name: "Export key" }).waitFor({ state: "detached" });
  await inspect(page, "pool");
});

test("export lists the datastores that go out of service and requires the name; import finds the pool", async () => {
  await choose("Actions", "Export pool");
  await dialog().getByText("secret1").waitFor();
  assert.ok(await dialog().getByRole("button", { name: "Export" }).isDisabled());
  await dialog().getByRole("textbox").fill(pool);
  await inspect(page, "pool-export");
  await dialog().getByRole("button", { name: "Export" }).click();
  await page.getByText("Export pool: done").waitFor();
  await page.goto("/pools");
  await page.getByText("No pool yet").first().waitFor();
  // As if another server had the pool imported.
  await page.route("**/api/v1/importable-pools?*", async (route) => {
    const answer = await (await route.fetch()).json();
    await route.fulfill({ json: { ...answer, items: answer.items.map((pool) => ({ ...pool, last_host: "another system" })) } });
  });
  await choose("Actions", "Import pool");
  await dialog().getByRole("radio").first().check();
  const submit = dialog().getByRole("button", { name: "Import" });
  assert.ok(await submit.isDisabled());
  await dialog().getByRole("checkbox", { name: /^No other server uses the pool/ }).check();
  await inspect(page, "pool-import");
  const asking = page.waitForRequest("**/api/v1/pools/import");
  await submit.click();
  assert.equal((await asking).postDataJSON().force, true);
  // It waits for an answer under way, which could not be given any more.
  await page.unrouteAll({ behavior: "wait" });
  await page.getByText("Import pool: done").waitFor();
  await page.getByRole("link", { name: pool }).waitFor();
});

test("a pool of mirrors is created; an invalid name is reported at its field", async () => {
  await choose("Actions", "New pool");
  const name = page.getByRole("textbox", { name: "Name" });
  await name.fill("9lives");
  const disks = page.getByRole("checkbox", { name: /^Choose / });
  await disks.nth(0).check();
  await page.getByText("This layout needs 2 disks or more.").waitFor();
  await disks.nth(1).check();
  await page.getByRole("button", { name: "Review" }).click();
  await page.getByText("Some values are invalid").waitFor();
  assert.equal(await name.getAttribute("aria-invalid"), "true");
  // The answer to an outdated dry run does not count: the form requests another one.
  await name.fill("other");
  let letGo;
  const held = new Promise((resolve) => (letGo = resolve));
  await page.route("**/api/v1/pools/plan", async (route) => held.then(() => route.continue()), { times: 1 });
  await page.getByRole("button", { name: "Review" }).click();
  await name.fill("vault");
  const late = page.waitForResponse("**/api/v1/pools/plan");
  letGo();
  await late;
  await page.getByRole("button", { name: "Review" }).click();
  await page.getByText("Dry run: nothing was changed.").waitFor();
  await page.getByRole("button", { name: "More settings" }).click();
  await page.getByLabel("Sector size (ashift)").selectOption("13");
  await inspect(page, "pool-create");
  await page.getByRole("button", { name: "Create pool" }).click();
  await page.getByRole("heading", { name: "Create pool", level: 1 }).waitFor();
  await page.getByText("Done").first().waitFor();
  const made = await apiOf(page).request("GET", "/pools/vault");
  assert.deepEqual(made.vdevs.map((vdev) => [vdev.kind, vdev.vdevs.length]), [["mirror", 2]]);
  assert.equal(made.ashift, 13);
  await page.goto("/pools/vault");
  await choose("Actions", "Destroy pool");
  await dialog().getByRole("textbox").fill("vault");
  await dialog().getByRole("button", { name: "Destroy" }).click();
  await page.getByText("Destroy pool: done").waitFor();
});

test("disks show their SMART data", async () => {
  const disks = (await apiOf(page).request("GET", "/disks")).items;
  const smart = {
    ...{ available: true, reason: "", asleep: false, passed: true, temperature: 38, temperature_limit: 60 },
    ...{ power_on_hours: 26000, reallocated: 8, pending: 0, uncorrectable: 0, wear: null, spare: null, spare_limit: null },
    ...{ critical_warning: 0, severity: "warning", read_at: "2026-11-22T09:30:00Z" },
  };
  const items = disks.map((disk, index) => (index === 0 ? { ...disk, smart } : disk));
  await page.route("**/api/v1/disks?*", (route) => route.fulfill({ json: { items, next_cursor: null } }));
  await page.goto("/pools?show=disks");
  const row = page.getByRole("row", { name: disks[0].path });
  await row.getByText("Warning").waitFor();
  await row.getByRole("button", { name: "Details" }).press("Enter");
  await page.getByText("38 °C; at most 60 °C").waitFor();
  await page.getByText("Reallocated sectors").waitFor();
  await inspect(page, "disks");
  await closePage(page);
});
