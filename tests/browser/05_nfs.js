// An NFS datastore: the wizard, what is told of it, and its quota.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { apiOf, closePage, GIB, logIn, look, openBrowser, openPage } from "./harness.js";

let browser;
let page;
before(async () => {
  browser = await openBrowser();
  page = await openPage(browser);
  await logIn(page);
});
after(() => browser.close());

const nfsStores = async () => (await apiOf(page).told("GET", "/datastores?kind=nfs")).items;

test("the wizard asks of NFS what NFS has, and makes it so", async () => {
  await page.goto("/datastores/new");
  await page.getByRole("radio", { name: "NFS", exact: true }).check();
  const next = page.getByRole("button", { name: "Next" });
  await next.click();
  await page.getByRole("textbox", { name: "Name" }).fill("nfs1");
  await next.click();
  await page.getByRole("textbox", { name: "Quota" }).fill("1 TiB");
  assert.equal(await page.getByRole("radio").count(), 0, "thin or thick is not asked of NFS");
  await page.getByRole("button", { name: "More settings" }).click();
  await page.getByLabel("Record size").selectOption({ label: "128 KiB" });
  await look(page, "wizard-nfs-size");
  await next.click();
  const clients = page.getByRole("textbox", { name: "Further clients" });
  await clients.fill("esx1.example");
  await page.getByText("Type addresses and networks").waitFor();
  assert.ok(await next.isDisabled());
  await clients.fill("192.0.2.17, 198.51.100.0/24");
  await look(page, "wizard-nfs-hosts");
  await next.click();
  for (const text of ["1 TiB (1,099,511,627,776)", "128 KiB", "192.0.2.17, 198.51.100.0/24"]) {
    await page.getByText(text).waitFor();
  }
  await look(page, "wizard-nfs-review");
  await page.getByRole("button", { name: "Make the datastore" }).click();
  await page.getByRole("heading", { name: "Create datastore", level: 1 }).waitFor();
  await page.getByText("Done").first().waitFor();
  const [made] = await nfsStores();
  assert.deepEqual(
    [made.name, made.size, made.block_size, made.share, made.clients, made.squash],
    ["nfs1", String(1024n * GIB), 131072, "/nfs1", ["192.0.2.17", "198.51.100.0/24"], "none"],
  );
});

test("its tabs tell what NFS has", async () => {
  await page.getByRole("navigation", { name: "Navigation" }).getByRole("link", { name: "Datastores" }).click();
  await page.getByRole("link", { name: "nfs1" }).click();
  await page.getByText("/nfs1", { exact: true }).waitFor();
  await look(page, "datastore-nfs-overview");
  for (const [tab, shown] of [
    ["VAAI", "Nothing was asked of it by VAAI-NAS"],
    ["Capacity", "Quota"],
  ]) {
    await page.getByRole("tab", { name: tab }).click();
    await page.getByText(shown).first().waitFor();
    await look(page, `datastore-nfs-${tab.toLowerCase()}`);
  }
});

test("counters of VAAI-NAS are told, and why they can't be had", async () => {
  const [{ id }] = await nfsStores();
  const row = {
    export: "/nfs1",
    datastore: id,
    clone: { operations: 12, errors: 3, refused: 2, latency: {} },
    offload: { cloned_bytes: 2 ** 31, copied_bytes: 2 ** 20, fallback_bytes: { misaligned: 2 ** 20 } },
  };
  const told = { luns: [], sessions: [], hosts: [], exports: [row], nfs_hosts: [], nfs_problem: null };
  await page.route("**/api/v1/offloads", (route) => route.fulfill({ json: told }));
  await page.getByRole("tab", { name: "VAAI" }).click();
  await page.getByRole("row", { name: "Full File Clone" }).getByRole("gridcell", { name: "12", exact: true }).waitFor();
  await page.getByText("Not on bounds of records").waitFor();
  await look(page, "datastore-nfs-vaai-counted");
  Object.assign(told, { exports: [], nfs_problem: "the NFS server does not answer" });
  await page.getByText(told.nfs_problem).waitFor();
  await look(page, "datastore-nfs-vaai-unavailable");
  await page.unroute("**/api/v1/offloads");
});

test("clients, versions and squash are changed", async () => {
  await page.getByRole("button", { name: "Actions", exact: true }).click();
  await page.getByRole("menuitem", { name: "Change access" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("textbox", { name: "Further clients" }).fill("192.0.2.99");
  await dialog.getByRole("checkbox", { name: "NFSv3" }).uncheck();
  await dialog.getByRole("radio", { name: "root", exact: true }).check();
  await look(page, "datastore-nfs-access");
  await dialog.getByRole("button", { name: "Change", exact: true }).click();
  await page.getByText("Change datastore: done").waitFor();
  const [{ clients, versions, squash }] = await nfsStores();
  assert.deepEqual([clients, versions, squash], [["192.0.2.99"], ["4"], "root"]);
});

test("its quota is made smaller", async () => {
  await page.getByRole("button", { name: "Actions", exact: true }).click();
  await page.getByRole("menuitem", { name: "Set quota" }).click();
  await page.getByRole("textbox", { name: "New quota" }).fill("512 GiB");
  await page.getByRole("button", { name: "Set it" }).click();
  await page.getByText("Set quota: done").waitFor();
  assert.equal((await nfsStores())[0].size, String(512n * GIB));
  await closePage(page);
});
