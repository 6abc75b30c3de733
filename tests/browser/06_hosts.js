// SPDX-License-Identifier: Apache-2.0
// Hosts and host groups: a refused field, CHAP, paths, commands for a host, deletion.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { apiOf, closePage, logIn, inspect, openBrowser, openPage, openSession } from "./harness.js";

const IQN = "iqn.1998-01.com.vmware:esx9";
let browser;
let page;
before(async () => {
  browser = await openBrowser();
  page = await openPage(browser);
  await logIn(page);
});
after(() => browser.close());

const host = async () => (await apiOf(page).request("GET", "/hosts")).items.find((row) => row.iqns.includes(IQN));

async function choose(what, action) {
  await page.getByRole("button", { name: `Actions for ${what}` }).click();
  await page.getByRole("menuitem", { name: action, exact: true }).click();
}

test("a group without XCOPY is created; ATS cannot be disabled", async () => {
  await page.getByRole("navigation", { name: "Navigation" }).getByRole("link", { name: "Hosts" }).click();
  await page.getByRole("tab", { name: "Host groups" }).click();
  await page.getByRole("button", { name: "New group" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("textbox", { name: "Name" }).fill("lab");
  await dialog.getByRole("checkbox", { name: "XCOPY" }).uncheck();
  assert.equal(await dialog.getByRole("checkbox", { name: "ATS" }).count(), 0);
  await inspect(page, "host-group-new");
  await dialog.getByRole("button", { name: "Create group" }).click();
  await page.getByRole("row", { name: "lab" }).getByText("Without XCOPY").waitFor();
  await inspect(page, "host-groups");
});

test("a wrong iSCSI name is reported at its field; with a valid one the host is added", async () => {
  await page.getByRole("tab", { name: "Hosts" }).click();
  await page.getByRole("button", { name: "New host" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("textbox", { name: "Name", exact: true }).fill("esx9");
  await dialog.getByLabel("Host group").selectOption({ label: "lab" });
  const names = dialog.getByRole("textbox", { name: "iSCSI names" });
  await names.fill("esx9");
  await dialog.getByRole("textbox", { name: "Addresses" }).fill("192.0.2.9");
  await dialog.getByRole("button", { name: "Add host" }).click();
  await dialog.getByText("is not an iSCSI name").waitFor();
  assert.equal(await names.getAttribute("aria-invalid"), "true");
  await inspect(page, "host-new-wrong");
  await names.fill(IQN);
  await dialog.getByRole("button", { name: "Add host" }).click();
  await page.getByRole("row", { name: "esx9" }).getByText("Not logged in").waitFor();
  await page.getByRole("row", { name: "esx9" }).getByText("Never", { exact: true }).waitFor();
});

test("its CHAP secret is set by keyboard, is not stored in the page, and the focus returns", async () => {
  const menu = page.getByRole("button", { name: "Actions for esx9" });
  await menu.press("Enter");
  await page.getByRole("menuitem", { name: "Set CHAP secret" }).press("Enter");
  const dialog = page.getByRole("dialog");
  await dialog.getByText("CHAP is not required: hosts can log in without it.").waitFor();
  await dialog.getByRole("button", { name: "Generate" }).press("Enter");
  const secret = await dialog.getByRole("textbox", { name: "Secret" }).inputValue();
  assert.match(secret, /^[A-Za-z0-9]{24}$/);
  await inspect(page, "host-chap");
  const set = dialog.getByRole("button", { name: "Set secret" });
  await set.press("Enter");
  await dialog.waitFor({ state: "detached" });
  await page.waitForFunction((name) => document.activeElement?.getAttribute("aria-label") === name, "Actions for esx9");
  assert.equal((await host()).chap_name, IQN);
  assert.ok(!(await page.content()).includes(secret), "the secret is in the page");
});

test("its CHAP secret is removed", async () => {
  await choose("esx9", "Remove CHAP secret");
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: "Remove secret" }).click();
  await dialog.waitFor({ state: "detached" });
  assert.equal((await host()).chap_name, null);
});

test("the page of a new host leads to its login, and turns green by itself", async () => {
  await page.getByRole("link", { name: "esx9" }).click();
  const connect = page.getByRole("region", { name: "Connect this host" });
  await connect.getByText("Group lab sees").waitFor();
  await connect.getByText("Waiting for the host").waitFor();
  await connect.getByText("esxcli storage core adapter rescan --all").waitFor();
  await inspect(page, "host-connect");
  const path = { initiator: IQN, target: "iqn.2026-11.example.zvaai:datastores", peer: "192.0.2.9:51000", portal: "192.0.2.1:3260" };
  const items = [{ ...path, logged_in_at: new Date().toISOString(), account: null }];
  await page.route("**/api/v1/sessions?*", (route) => route.fulfill({ json: { items, next_cursor: null } }));
  await connect.getByText("Connected", { exact: true }).waitFor();
  await page.unrouteAll({ behavior: "wait" });
  await page.getByRole("navigation", { name: "Navigation" }).getByRole("link", { name: "Hosts" }).click();
});

test("a host shows its paths, its LUNs, and the commands for it", async () => {
  const loggedInAt = new Date().toISOString();
  const path = { initiator: IQN, target: "iqn.2026-11.example.zvaai:datastores", logged_in_at: loggedInAt, account: null };
  const items = ["1", "2"].map((net) => ({ ...path, peer: `192.0.${net}.9:51000`, portal: `192.0.${net}.1:3260` }));
  await page.route("**/api/v1/sessions?*", (route) => route.fulfill({ json: { items, next_cursor: null } }));
  await page.reload();
  await page.getByText("2 paths").waitFor();
  await page.getByRole("row", { name: "esx9" }).getByText("Now", { exact: true }).waitFor();
  await inspect(page, "hosts");
  await page.getByRole("link", { name: "esx9" }).click();
  await page.getByRole("heading", { name: "esx9", level: 1 }).waitFor();
  await page.getByRole("row", { name: "192.0.2.9:51000" }).getByText("192.0.2.1:3260").waitFor();
  await page.getByRole("region", { name: "Identity" }).getByText("Now", { exact: true }).waitFor();
  await page.getByText("esxcli storage core adapter rescan --all").waitFor();
  await page.getByText("is not offered extended_copy").waitFor();
  await inspect(page, "host");
});

test("of two users who change a host, the later one sees the new values, keeps the input, and decides", async () => {
  const other = await openSession(browser);
  const { id } = await host();
  const dialog = page.getByRole("dialog");
  const name = dialog.getByRole("textbox", { name: "Name", exact: true });
  const addresses = dialog.getByRole("textbox", { name: "Addresses" });
  await page.getByRole("button", { name: "Actions", exact: true }).click();
  await page.getByRole("menuitem", { name: "Change" }).click();
  await name.fill("esx9-mine");
  // The form has read the host: later changes of other users are unknown to it.
  await dialog.getByRole("button", { name: "Change", disabled: false }).waitFor();
  await other.request("PATCH", `/hosts/${id}`, { name: "esx9-theirs", addresses: ["192.0.2.99"] });
  await dialog.getByRole("button", { name: "Change" }).click();
  await dialog.getByText("Someone else changed this in the meantime").waitFor();
  await dialog.getByText("Your change was not saved.").waitFor();
  await dialog.getByText("Check the new values").waitFor();
  await dialog.getByText("Name: esx9-theirs (before: esx9)").waitFor();
  await dialog.getByText("Addresses: 192.0.2.99 (before: 192.0.2.9)").waitFor();
  assert.equal(await name.inputValue(), "esx9-mine");
  assert.equal(await addresses.inputValue(), "192.0.2.99", "what was not touched is not as it is now");
  assert.equal((await host()).name, "esx9-theirs");
  await dialog.getByRole("button", { name: "Change" }).click();
  await dialog.waitFor({ state: "detached" });
  assert.deepEqual([(await host()).name, (await host()).addresses], ["esx9-mine", ["192.0.2.99"]]);
});

test("deletion lists what is lost, and requires the name; a dialog opens with current values", async () => {
  const { id } = await host();
  await apiOf(page).request("PATCH", `/hosts/${id}`, { addresses: ["192.0.2.98"] });
  await page.getByRole("button", { name: "Actions", exact: true }).click();
  await page.getByRole("menuitem", { name: "Delete" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("its running VMs lose their disks").waitFor();
  const button = dialog.getByRole("button", { name: "Delete host" });
  assert.ok(await button.isDisabled());
  await dialog.getByRole("textbox").fill("esx9-mine");
  await inspect(page, "host-delete");
  await button.click();
  await page.getByText("esx9-mine was deleted").waitFor();
  assert.equal(await host(), undefined);
});

test("a group in use cannot be deleted, and its users are listed", async () => {
  const { request } = apiOf(page);
  const group = (await request("GET", "/host-groups")).items.find((row) => row.name === "lab");
  await request("POST", "/hosts", { name: "esx8", group: group.id });
  await page.goto("/hosts?show=groups");
  const dialog = page.getByRole("dialog");
  await choose("lab", "Change");
  await dialog.getByRole("textbox", { name: "Name" }).fill("laboratory");
  await dialog.getByRole("button", { name: "Change" }).click();
  await dialog.waitFor({ state: "detached" });
  await choose("laboratory", "Delete");
  await dialog.getByRole("button", { name: "Delete group" }).click();
  await dialog.getByText("hosts are in this group", { exact: false }).waitFor();
  await dialog.getByText("esx8").last().waitFor();
  await closePage(page);
});
