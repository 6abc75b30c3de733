// SPDX-License-Identifier: Apache-2.0
// Datastores from nothing: the empty list, the wizard by keyboard and mouse, resumed progress, each tab, a snapshot, deletion.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { apiOf, closePage, ensureAdmin, GIB, logIn, inspect, openBrowser, openPage, PASSWORD, typeLogin } from "./harness.js";

let browser;
let page;
before(async () => {
  browser = await openBrowser();
  page = await openPage(browser);
});
after(() => browser.close());

/** Waits for the focus: a closed dialog returns it to the element that had it before. */
async function hasFocus(place) {
  await place.and(page.locator(":focus")).waitFor();
}

test("a wrong password gives only the message for it", async () => {
  await ensureAdmin(page);
  await page.goto("/login");
  await inspect(page, "login");
  await page.getByRole("textbox", { name: "User name" }).fill("admin");
  await page.getByRole("textbox", { name: "Password" }).fill("not the password");
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByText("The user name or the password is wrong.").waitFor();
  const password = page.getByRole("textbox", { name: "Password" });
  assert.equal(await password.inputValue(), "");
  await typeLogin(page);
});

test("without datastores the list says how to begin", async () => {
  await page.goto("/datastores");
  await page.getByText("No datastores yet").waitFor();
  await inspect(page, "datastores-empty");
});

test("the wizard checks each step, and shows exactly what will be set", async () => {
  const group = await apiOf(page).request("POST", "/host-groups", { name: "cluster" });
  await apiOf(page).request("POST", "/hosts", { name: "esx1", group: group.id, iqns: ["iqn.1998-01.com.vmware:esx1"] });
  // Data that the page read seconds ago counts as current: it lacks a group that another user just created.
  await page.reload();
  await page.getByRole("link", { name: "New datastore" }).click();
  await page.getByText("What kind of datastore?").waitFor();
  await inspect(page, "wizard-type");
  const next = page.getByRole("button", { name: "Next" });
  await next.click();
  await page.getByRole("textbox", { name: "Name" }).fill("-no name");
  await page.getByText("Use 1 to 42 letters").waitFor();
  assert.ok(await next.isDisabled());
  await page.getByRole("textbox", { name: "Name" }).fill("vmfs1");
  await inspect(page, "wizard-place");
  // With the keyboard only.
  await next.press("Enter");
  await page.getByRole("textbox", { name: "Size" }).fill("much");
  await page.keyboard.press("Tab");
  await page.getByText("Enter a number and a unit").waitFor();
  assert.ok(await next.isDisabled());
  await page.getByRole("textbox", { name: "Size" }).fill("2 TiB");
  await page.getByRole("button", { name: "More settings" }).click();
  await page.getByRole("textbox", { name: "Warn hosts at" }).fill("85");
  await inspect(page, "wizard-size");
  await next.click();
  await page.getByRole("checkbox", { name: "cluster" }).check();
  await inspect(page, "wizard-hosts");
  await next.click();
  await page.getByText("The appliance will create the datastore with these settings.").waitFor();
  for (const text of ["2 TiB (2,199,023,255,552)", "64 KiB", "85 %", "cluster"]) await page.getByText(text).first().waitFor();
  await inspect(page, "wizard-review");
  const make = page.getByRole("button", { name: "Create datastore" });
  await make.click();
  await page.getByRole("heading", { name: "vmfs1", level: 1 }).waitFor();
  const [made] = (await apiOf(page).request("GET", "/datastores")).items;
  assert.deepEqual(
    [made.name, made.size, made.thick, made.soft_threshold, made.host_groups],
    ["vmfs1", String(2n * 1024n * GIB), false, 85, [group.id]],
  );
});

test("the job is found again in the list of jobs", async () => {
  await page.getByRole("navigation", { name: "Navigation" }).getByRole("link", { name: "Jobs" }).click();
  await page.getByRole("link", { name: "Create datastore" }).waitFor();
  await inspect(page, "jobs");
  await page.getByLabel("State").selectOption({ label: "Failed" });
  await page.getByText("No job in this state").waitFor();
  await page.getByLabel("State").selectOption({ label: "All states" });
  await page.getByRole("link", { name: "Create datastore" }).click();
  await page.getByText("Done").first().waitFor();
  await inspect(page, "job");
});

test("each tab of a datastore", async () => {
  await page.getByRole("navigation", { name: "Navigation" }).getByRole("link", { name: "Datastores" }).click();
  await page.getByRole("link", { name: "vmfs1" }).waitFor();
  await inspect(page, "datastores");
  await page.getByRole("link", { name: "vmfs1" }).click();
  await page.getByText("naa.6").waitFor();
  await inspect(page, "datastore-overview");
  for (const [tab, shown] of [
    ["VAAI", "Locks files without reserving the whole LUN"],
    ["Capacity", "Pool usage"],
    ["Snapshots", "No snapshots"],
    ["Hosts", "Not logged in"],
    ["Events", "Create datastore"],
  ]) {
    await page.getByRole("tab", { name: tab }).click();
    await page.getByText(shown).first().waitFor();
    assert.ok(await page.getByRole("tab", { name: tab }).evaluate((node) => node === document.activeElement), "the focus is kept");
    await inspect(page, `datastore-${tab.toLowerCase()}`);
  }
});

test("snapshots are taken", async () => {
  await page.getByRole("tab", { name: "Snapshots" }).click();
  for (const name of ["before", "after"]) {
    await page.getByRole("button", { name: "Actions", exact: true }).click();
    await page.getByRole("menuitem", { name: "Take snapshot" }).click();
    await page.getByRole("textbox", { name: "Name" }).fill(name);
    const take = page.getByRole("button", { name: "Take snapshot" });
    await take.click();
    await page.getByRole("button", { name: `Actions for snapshot ${name}` }).waitFor();
    await hasFocus(page.getByRole("button", { name: "Actions", exact: true }));
  }
  await inspect(page, "datastore-snapshots");
});

test("a snapshot that is held shows its tag, is not deleted, and is released", async () => {
  const choose = async (action) => {
    await page.getByRole("button", { name: "Actions for snapshot after" }).click();
    await page.getByRole("menuitem", { name: action }).click();
  };
  const dialog = page.getByRole("dialog");
  await choose("Hold");
  await dialog.getByRole("textbox", { name: "Tag" }).fill("zvaai-mine");
  await dialog.getByRole("button", { name: "Hold" }).click();
  await dialog.getByText("are for the appliance's schedules").waitFor();
  await dialog.getByRole("textbox", { name: "Tag" }).fill("audit-2026");
  await inspect(page, "snapshot-hold");
  await dialog.getByRole("button", { name: "Hold" }).click();
  await page.getByRole("row", { name: "held: audit-2026" }).waitFor();
  await choose("Delete");
  await dialog.getByRole("button", { name: "Delete" }).click();
  await dialog.getByText("wait for the jobs: after (held: audit-2026)").waitFor();
  await dialog.getByText("Nothing was changed.").waitFor();
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await hasFocus(page.getByRole("button", { name: "Actions for snapshot after" }));

  // A pool's disk that the appliance needs cannot be selected.
  const holds = [["audit-2026", "user"], ["zvaai:replica", "appliance"]];
  const items = holds.map(([tag, of]) => ({ tag, of, created_at: new Date().toISOString() }));
  await page.route("**/holds?*", (route) => route.fulfill({ json: { items, next_cursor: null } }));
  await page.reload();
  await page.getByText("held: zvaai:replica").waitFor();
  await inspect(page, "datastore-snapshots-held");
  await choose("Release");
  assert.ok(await dialog.getByRole("radio", { name: "zvaai:replica" }).isDisabled());
  await dialog.getByRole("radio", { name: "audit-2026" }).check();
  await inspect(page, "snapshot-release");
  await dialog.getByRole("button", { name: "Release" }).click();
  await page.getByText("Release hold: done").waitFor();
  await page.unrouteAll({ behavior: "wait" });
  await page.getByText("held:").first().waitFor({ state: "detached" });

  // Reading the hold tags of many snapshots takes as many requests: the list shows the number of holds.
  const [{ id }] = (await apiOf(page).request("GET", "/datastores")).items;
  const [first] = (await apiOf(page).request("GET", `/datastores/${id}/snapshots`)).items;
  const many = Array.from({ length: 21 }, (_, index) => ({ ...first, name: `held-${index}`, guid: String(index), holds: 2 }));
  await page.route("**/snapshots?*", (route) => route.fulfill({ json: { items: many, next_cursor: null } }));
  const requested = [];
  await page.route("**/holds?*", (route) => {
    requested.push(route.request().url());
    return route.abort();
  });
  await page.reload();
  await page.getByText("2 holds").nth(20).waitFor();
  assert.deepEqual(requested, []);
  await page.unrouteAll({ behavior: "wait" });
  await page.reload();
});

test("the rollback lists what will be lost and requires the name", async () => {
  await page.getByRole("button", { name: "Actions for snapshot before" }).click();
  await page.getByRole("menuitem", { name: "Roll back" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("1 newer snapshot is destroyed:").waitFor();
  const button = dialog.getByRole("button", { name: "Roll back" });
  assert.ok(await button.isDisabled());
  await dialog.getByRole("textbox").fill("vmfs1");
  await inspect(page, "rollback");
  await button.click();
  // The dialog has listed them, so it does not ask again.
  await page.getByText("Roll back: done").waitFor();
  await page.getByRole("button", { name: "Actions for snapshot after" }).waitFor({ state: "detached" });
});

test("a datastore is hidden and cloned; the clone is deleted, restored and purged", async () => {
  const dialog = page.getByRole("dialog");
  const { request } = apiOf(page);
  const store = async (name) => (await request("GET", "/datastores")).items.find((datastore) => datastore.name === name);
  async function act(menu, action, fill, done) {
    await page.getByRole("button", { name: menu, exact: true }).click();
    await page.getByRole("menuitem", { name: action, exact: true }).click();
    await fill?.();
    const submit = dialog.getByRole("button", { name: action.startsWith("Change ") ? "Change" : action, exact: true });
    await submit.click();
    await page.getByText(done).first().waitFor();
  }
  await act("Actions for snapshot before", "Delete", undefined, "Delete snapshot: done");
  const cluster = dialog.getByRole("checkbox", { name: "cluster" });
  await act("Actions", "Change hosts", () => cluster.uncheck(), "Change datastore: done");
  assert.deepEqual((await store("vmfs1")).host_groups, []);
  await page.reload(); // without earlier notices
  await act("Actions", "Change hosts", () => cluster.check(), "Change datastore: done");
  await page.reload();
  const threshold = () => dialog.getByRole("textbox", { name: "Warn hosts at" }).fill("75");
  await act("Actions", "Change settings", threshold, "Change datastore: done");
  assert.equal((await store("vmfs1")).soft_threshold, 75);
  async function named() {
    await dialog.getByRole("textbox", { name: "Name of the clone" }).fill("copy");
    await cluster.check();
  }
  await act("Actions", "Clone", named, "Clone datastore: done");
  await page.getByRole("navigation", { name: "Navigation" }).getByRole("link", { name: "Datastores" }).click();
  // From its row in the list.
  const renamed = () => dialog.getByRole("textbox", { name: "New name" }).fill("copy2");
  await act("Actions for copy", "Rename", renamed, "Change datastore: done");
  await page.getByRole("link", { name: "copy2", exact: true }).click();
  const confirmed = () => dialog.getByRole("textbox").fill("copy2");
  await act("Actions", "Delete", confirmed, "Delete datastore: done");
  // Nobody has to remember who saw it.
  const seenBefore = () => dialog.getByRole("checkbox", { name: "cluster", checked: true }).waitFor();
  await act("Actions", "Restore", seenBefore, "Restore datastore: done");
  const [group] = (await store("vmfs1")).host_groups;
  assert.deepEqual([(await store("copy2")).state, (await store("copy2")).host_groups], ["active", [group]]);
  await page.reload();
  await act("Actions", "Delete", confirmed, "Delete datastore: done");
  await act("Actions", "Purge", confirmed, "Purge datastore: done");
  // Its page would only show that it no longer exists.
  await page.getByRole("heading", { name: "Datastores", level: 1 }).waitFor();
  assert.equal(await store("copy2"), undefined);
});

test("one request takes snapshots of the selected datastores", async () => {
  const dialog = page.getByRole("dialog");
  await page.goto("/datastores");
  const take = page.getByRole("button", { name: "Take snapshot of 1 datastore" });
  await page.getByRole("checkbox", { name: "Select vmfs1", exact: true }).waitFor();
  assert.equal(await take.count(), 0);
  await page.getByRole("checkbox", { name: "Select vmfs1", exact: true }).check();
  await take.waitFor();
  await inspect(page, "datastores-selected");
  await take.click();
  await dialog.getByText("Take a snapshot of vmfs1").waitFor();
  await dialog.getByRole("textbox", { name: "Name" }).fill("together");
  await dialog.getByRole("button", { name: "Take snapshot" }).click();
  await page.getByText("Take snapshot: done").first().waitFor();
  await take.waitFor({ state: "detached" });
  const { request } = apiOf(page);
  const store = (await request("GET", "/datastores")).items.find((datastore) => datastore.name === "vmfs1");
  const snapshots = (await request("GET", `/datastores/${store.id}/snapshots`)).items;
  assert.ok(snapshots.some(({ name }) => name === "together"));
});

test("selected snapshots are deleted by one request", async () => {
  const dialog = page.getByRole("dialog");
  const { request, job } = apiOf(page);
  const store = (await request("GET", "/datastores")).items.find((datastore) => datastore.name === "vmfs1");
  const names = async () => (await request("GET", `/datastores/${store.id}/snapshots`)).items.map(({ name }) => name);
  const before = await names();
  for (const name of ["extra-1", "extra-2", "extra-held"]) await job("POST", "/snapshots", { name, datastores: [store.id] });
  await job("POST", `/datastores/${store.id}/snapshots/extra-held/holds`, { tag: "audit-2026" });
  await page.goto(`/datastores/${store.id}/snapshots`);
  assert.ok(await page.getByRole("checkbox", { name: "Select snapshot extra-held" }).isDisabled());
  for (const name of ["extra-1", "extra-2"]) await page.getByRole("checkbox", { name: `Select snapshot ${name}` }).check();
  await inspect(page, "snapshots-selected");
  await page.getByRole("button", { name: "Delete 2 snapshots" }).click();
  await dialog.getByText("extra-2").waitFor();
  await inspect(page, "snapshots-delete");
  await dialog.getByRole("textbox", { name: "Type vmfs1 to confirm" }).fill("vmfs1");
  // In the meantime one of them is held: none is deleted.
  const hold = `/datastores/${store.id}/snapshots/extra-2/holds`;
  await job("POST", hold, { tag: "late" });
  await dialog.getByRole("button", { name: "Delete" }).click();
  await dialog.getByText("wait for the jobs: extra-2 (held: late)").waitFor();
  assert.deepEqual(await names(), [...before, "extra-1", "extra-2", "extra-held"]);
  await job("DELETE", `${hold}/late`);
  await dialog.getByRole("button", { name: "Delete" }).click();
  await page.getByText("Delete snapshot: done").first().waitFor();
  assert.deepEqual(await names(), [...before, "extra-held"]);
  await hasFocus(page.getByRole("button", { name: "Delete selected snapshots" }));
});

test("the timeline shows each snapshot, and goes to its row", async () => {
  const { request } = apiOf(page);
  const store = (await request("GET", "/datastores")).items.find((datastore) => datastore.name === "vmfs1");
  const [template] = (await request("GET", `/datastores/${store.id}/snapshots`)).items;
  const now = Date.now();
  const daily = Array.from({ length: 40 }, (_, index) => ({
    ...template,
    ...{ name: `daily-${index}`, guid: String(index), used: String(index * 7e6), created_at: new Date(now - (40 - index) * 86_400_000) },
    ...{ holds: index === 5 ? 1 : 0, schedule: index % 4 === 0 ? null : "deleted" },
  }));
  await page.route("**/snapshots?*", (route) => route.fulfill({ json: { items: daily, next_cursor: null } }));
  await page.route("**/holds?*", (route) => route.fulfill({ json: { items: [], next_cursor: null } }));
  await page.goto(`/datastores/${store.id}/snapshots`);
  const timeline = page.getByRole("slider", { name: "Timeline of the snapshots" });
  const { width, height } = await timeline.boundingBox();
  await timeline.hover({ position: { x: (width * 10) / 40, y: height / 2 } });
  await page.getByText(/^daily-10, .*, By schedule: 66.8 MiB$/).waitFor();
  await page.getByRole("row", { name: "daily-39" }).getByText("Deleted schedule").waitFor();
  await inspect(page, "snapshots-timeline");
  await page.mouse.move(0, 0);
  await timeline.focus();
  await page.getByText(/^daily-39, /).waitFor();
  await page.keyboard.press("PageDown");
  await page.keyboard.press("ArrowLeft");
  await page.getByText(/^daily-28, .*, Without schedule: 187 MiB$/).waitFor();
  await page.keyboard.press("Enter");
  const row = page.getByRole("row", { name: "daily-28" });
  await hasFocus(row);
  const { y } = await row.boundingBox();
  const screen = page.viewportSize();
  assert.ok(y > 0 && y < screen.height, `the row is at ${y}`);
  await page.setViewportSize({ width: 360, height: 800 });
  await timeline.focus();
  const tip = await page.getByText(/^daily-39, /).boundingBox();
  await inspect(page, "snapshots-timeline-narrow");
  for (const { x, width: wide } of [tip, await timeline.boundingBox()]) assert.ok(x > 0 && wide > 100 && x + wide <= 360, `${x}, ${wide}`);
  for (const button of await page.getByRole("banner").getByRole("button").all()) {
    const { x, width: wide } = await button.boundingBox();
    assert.ok(x >= 0 && x + wide <= 360, `the header's ${await button.getAttribute("aria-label")} ends at ${x + wide}`);
  }
  await page.setViewportSize(screen);
  await page.unrouteAll({ behavior: "wait" });
});

test("a volume without a datastore can be adopted", async () => {
  const dialog = page.getByRole("dialog");
  const volume = { dataset: "tank/replica", size: "1099511627776", block_size: 16384, guid: "41", datastore: null };
  await page.route("**/api/v1/volumes?*", (route) => route.fulfill({ json: { items: [volume], next_cursor: null } }));
  await page.goto("/datastores");
  await page.getByRole("button", { name: "Adopt" }).click();
  await dialog.getByRole("combobox", { name: "Volume or file system" }).selectOption("tank/replica");
  await dialog.getByRole("textbox", { name: "Name of the datastore" }).fill("replica");
  await inspect(page, "adopt");
  await dialog.getByRole("button", { name: "Adopt" }).click();
  // Only the list of volumes was not the service's.
  await dialog.getByText(/there is no dataset 'tank\/replica'/).waitFor();
  await dialog.locator("#adopt-dataset[aria-invalid=true]").waitFor();
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await page.unroute("**/api/v1/volumes?*");
});

test("the key / searches everything, and Enter opens the first result", async () => {
  await page.goto("/readiness");
  await page.getByRole("heading", { name: "Readiness", level: 1 }).waitFor();
  await page.keyboard.press("/");
  const dialog = page.getByRole("dialog");
  await hasFocus(dialog.getByRole("textbox"));
  await page.keyboard.type("vmfs1");
  await dialog.getByRole("link", { name: "vmfs1", exact: true }).waitFor();
  await inspect(page, "search");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "vmfs1", level: 1 }).waitFor();
});

test("the search opens the datastore of a snapshot, too", async () => {
  const { request, job } = apiOf(page);
  const store = (await request("GET", "/datastores")).items.find((datastore) => datastore.name === "vmfs1");
  await job("POST", "/snapshots", { name: "nightly-42", datastores: [store.id] });
  await page.keyboard.press("/");
  await page.getByRole("dialog").getByRole("textbox").fill("nightly");
  await page.getByRole("dialog").getByRole("link", { name: "vmfs1@nightly-42", exact: true }).click();
  await page.getByRole("button", { name: "Actions for snapshot nightly-42" }).waitFor();
});

test("a viewer sees no button that he may not press", async () => {
  await apiOf(page).request("POST", "/users", { name: "watcher", role: "viewer", password: `${PASSWORD} too` });
  const other = await openPage(browser);
  await logIn(other, { name: "watcher", password: `${PASSWORD} too` });
  // No host has logged in, which is a warning of the readiness page.
  await other.locator(".zv-verdict").getByText(/needs? attention/i).waitFor();
  await inspect(other, "dashboard");
  await other.goto("/datastores");
  await other.getByRole("link", { name: "vmfs1" }).click();
  await other.getByText("naa.6").waitFor();
  assert.equal(await other.getByRole("button", { name: "Actions" }).count(), 0);
  await other.goto("/datastores");
  await other.getByRole("link", { name: "vmfs1" }).waitFor();
  assert.equal(await other.getByRole("link", { name: "New datastore" }).count(), 0);
  await other.goto("/datastores/new");
  await other.getByText("Your role does not allow this").waitFor();
  // After logout even the back button shows no data.
  await other.getByRole("button", { name: "User menu of watcher" }).click();
  await other.getByRole("menuitem", { name: "Log out" }).click();
  await other.getByRole("button", { name: "Log in" }).waitFor();
  await other.goBack();
  await other.getByRole("button", { name: "Log in" }).waitFor();
  await closePage(other);
});

test("readiness names the subject of each check; alerts are listed", async () => {
  await page.goto("/readiness");
  for (const [check, name] of [["The datastore is served", "vmfs1"], ["The host is logged in", "esx1"]]) {
    await page.getByRole("row").filter({ hasText: check }).getByRole("link", { name, exact: true }).waitFor();
  }
  for (const [address, shown, name] of [
    ["/readiness", "On each ESXi host, once", "readiness"],
    ["/alerts", "Alerts", "alerts"],
    ["/nowhere", "Page not found", "not-found"],
  ]) {
    await page.goto(address);
    await page.getByText(shown).first().waitFor();
    await inspect(page, name);
  }
  await closePage(page);
});
