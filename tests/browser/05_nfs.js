// SPDX-License-Identifier: Apache-2.0
// An NFS datastore: the wizard, its pages, and its quota.
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { apiOf, closePage, GIB, logIn, inspect, openBrowser, openPage, PASSWORD, problem } from "./harness.js";

let browser;
let page;
before(async () => {
  browser = await openBrowser();
  page = await openPage(browser);
  await logIn(page);
});
after(() => browser.close());

const unavailable = {
  status: 503,
  contentType: "application/problem+json",
  body: JSON.stringify(problem(503, "unavailable", "the NFS server does not answer")),
};
const nfsStores = async () => (await apiOf(page).request("GET", "/datastores?kind=nfs")).items;

test("the wizard has the options of NFS, and applies them", async () => {
  await page.goto("/datastores/new");
  await page.getByRole("radio", { name: "NFS", exact: true }).check();
  const next = page.getByRole("button", { name: "Next" });
  await next.click();
  await page.getByRole("textbox", { name: "Name" }).fill("nfs1");
  await next.click();
  await page.getByRole("textbox", { name: "Quota" }).fill("1 TiB");
  await page.getByRole("radio", { name: "Thick" }).check();
  await page.getByRole("button", { name: "More settings" }).click();
  await page.getByLabel("Record size").selectOption({ label: "128 KiB" });
  await inspect(page, "wizard-nfs-size");
  await next.click();
  const clients = page.getByRole("textbox", { name: "More clients" });
  await clients.fill("esx1.example");
  await page.getByText("Enter addresses or networks").waitFor();
  assert.ok(await next.isDisabled());
  await clients.fill("192.0.2.17, 198.51.100.0/24");
  await inspect(page, "wizard-nfs-hosts");
  await next.click();
  for (const text of ["1 TiB (1,099,511,627,776)", "128 KiB", " and slack", "thick: same as refquota", "192.0.2.17, 198.51.100.0/24"]) {
    await page.getByText(text).waitFor();
  }
  await inspect(page, "wizard-nfs-review");
  await page.getByRole("button", { name: "Create datastore" }).click();
  await page.getByRole("heading", { name: "nfs1", level: 1 }).waitFor();
  const [made] = await nfsStores();
  assert.deepEqual(
    [made.name, made.size, made.block_size, made.thick, made.share, made.clients],
    ["nfs1", String(1024n * GIB), 131072, true, "/nfs1", ["192.0.2.17", "198.51.100.0/24"]],
  );
});

test("its tabs show the values of NFS", async () => {
  await page.getByRole("navigation", { name: "Navigation" }).getByRole("link", { name: "Datastores" }).click();
  await page.getByRole("link", { name: "nfs1" }).click();
  await page.getByText("/nfs1", { exact: true }).first().waitFor();
  await inspect(page, "datastore-nfs-overview");
  for (const [tab, shown] of [
    ["VAAI", "No VAAI-NAS requests"],
    ["Capacity", "0 B of 1 TiB"],
  ]) {
    await page.getByRole("tab", { name: tab }).click();
    await page.getByText(shown).first().waitFor();
    await inspect(page, `datastore-nfs-${tab.toLowerCase()}`);
  }
});

test("VAAI-NAS counters are shown, or the reason why there are none", async () => {
  const [{ id }] = await nfsStores();
  const row = {
    export: "/nfs1",
    datastore: id,
    clone: { operations: 12, errors: 3, refused: 2, latency: {} },
    offload: { cloned_bytes: 2 ** 31, copied_bytes: 2 ** 20, fallback_bytes: { misaligned: 2 ** 20 } },
  };
  const totals = { luns: {}, exports: { cloned_bytes: 2 ** 32, copied_bytes: 2 ** 21, fallback_bytes: { misaligned: 2 ** 21 } } };
  const counters = { luns: [], exports: [row], nfs_problem: null, totals };
  await page.route("**/api/v1/offloads", (route) => route.fulfill({ json: counters }));
  await page.getByRole("tab", { name: "VAAI" }).click();
  await page.getByRole("row", { name: "Full File Clone" }).getByRole("gridcell", { name: "12", exact: true }).waitFor();
  await page.getByText("Not aligned to records").waitFor();
  await inspect(page, "datastore-nfs-vaai-counted");
  Object.assign(counters, { exports: [], nfs_problem: "the NFS server does not answer" });
  await page.getByText(counters.nfs_problem).waitFor();
  await inspect(page, "datastore-nfs-vaai-unavailable");

  // The dashboard adds all exports to iSCSI, and drops a deleted export.
  await page.getByRole("navigation", { name: "Navigation" }).getByRole("link", { name: "Dashboard" }).click();
  const nas = page.getByRole("region", { name: "NFS by VAAI-NAS" });
  await nas.getByText(counters.nfs_problem).waitFor();
  Object.assign(counters, { exports: [row, { ...row, export: "/nfs2", datastore: null }], nfs_problem: null });
  for (const shown of ["4 GiB", "2 MiB", "Not aligned to records"]) await nas.getByText(shown).first().waitFor();
  await page.getByText(/^Time saved for hosts: about/).waitFor();
  row.offload.cloned_bytes = 2 ** 32;
  totals.exports.cloned_bytes = 2 ** 33;
  await nas.getByText("8 GiB", { exact: true }).waitFor(); // not the rate, "1.98 GiB/s now"
  await nas.getByText(/iB\/s now$/).waitFor();
  await inspect(page, "dashboard-nfs");
  await page.unroute("**/api/v1/offloads");
  await page.goto(`/datastores/${id}/vaai`);
});

test("its VMDK files are listed, and one is cloned", async () => {
  const [{ id, dataset }] = await nfsStores();
  const { guid } = (await apiOf(page).request("GET", "/filesystems")).items.find((filesystem) => filesystem.dataset === dataset);
  await page.getByRole("tab", { name: "Files" }).click();
  await page.getByText("No VMDK files").waitFor();
  const folder = join(process.env.ZVAAI_VOLUMES, `${guid}.files`, "vm");
  mkdirSync(folder);
  writeFileSync(join(folder, "disk-flat.vmdk"), Buffer.alloc(4 << 20, 7));
  await page.getByRole("button", { name: "Refresh" }).click();
  const disk = page.getByRole("row", { name: /^vm\/disk-flat.vmdk 4 MiB/ });
  await disk.getByText("at most 4 MiB").waitFor();
  await disk.getByRole("button", { name: "Clone vm/disk-flat.vmdk" }).click();
  const dialog = page.getByRole("dialog");
  const path = dialog.getByRole("textbox", { name: "Path of the clone" });
  const submit = dialog.getByRole("button", { name: "Clone", exact: true });
  assert.equal(await path.inputValue(), "vm/");
  assert.ok(await submit.isDisabled());
  await path.fill("vm/new-flat.vmdk");
  await inspect(page, "datastore-nfs-clone-file");
  await submit.click();
  await page.getByText("Clone file: done").waitFor();
  await page.getByRole("row", { name: /^vm\/new-flat.vmdk 4 MiB 4 MiB at most 4 MiB 0 B 0 B / }).waitFor();
  await page.getByRole("row", { name: /^vm\/new-flat.vmdk Done 4 MiB copied.*thick/ }).waitFor();

  // A clone that another client started, half done; files of which some have no figures, on two pages; reading the second page fails once.
  const half = { id: "1", kind: "file.clone", subject: `${id}/vm/half-flat.vmdk`, state: "running", step: "cloning", percent: 50 };
  const jobs = { items: [{ ...half, actor: "b", created_at: new Date().toISOString() }], next_cursor: null };
  await page.route("**/api/v1/jobs?*", (route) => route.fulfill({ json: jobs }));
  const pages = { null: { next_cursor: "x" }, x: { next_cursor: null, complete: false } };
  const slow = { total: "1", allocated: "1", unique: null, unique_exact: false, snapshot: null, deduplicated: null, as_of: null };
  let refusals = 1; // of the second page
  await page.route("**/files?*", (route) => {
    const cursor = new URL(route.request().url()).searchParams.get("cursor");
    if (cursor === "x" && refusals-- > 0) return route.fulfill(unavailable);
    return route.fulfill({ json: { items: [{ ...slow, path: `of-${cursor}.vmdk` }], complete: true, ...pages[cursor] } });
  });
  await page.goto(`/datastores/${id}/files`);
  await page.getByRole("progressbar", { name: "cloning" }).waitFor();
  await page.getByRole("row", { name: "of-null.vmdk 1 B 1 B not measured not measured" }).waitFor();
  await page.getByRole("button", { name: "Next" }).click();
  await page.getByText("A part of the appliance does not answer").waitFor();
  await page.getByRole("button", { name: "Previous" }).click();
  await page.getByText("of-null.vmdk").waitFor();
  await page.getByRole("button", { name: "Next" }).click();
  await page.getByText("Some files are not listed").waitFor();
  await page.getByText("of-x.vmdk").waitFor();
  await inspect(page, "datastore-nfs-files-half");
  await page.unrouteAll({ behavior: "wait" });

  // The NFS server does not answer: the page shows the failure and the remedy.
  await page.route("**/files?*", (route) => route.fulfill(unavailable));
  await page.reload();
  await page.getByText("A part of the appliance does not answer").waitFor();
  await page.unrouteAll({ behavior: "wait" });
  await page.getByRole("button", { name: "Try again" }).click();
  await disk.waitFor();
  await inspect(page, "datastore-nfs-files");
});

test("one VM is restored from a snapshot", async () => {
  const dialog = page.getByRole("dialog");
  const [{ id }] = await nfsStores();
  await apiOf(page).job("POST", "/snapshots", { name: "before", datastores: [id] });
  const folder = { name: "web", kind: "folder", size: "0", modified_at: "2026-11-22T09:30:00Z" };
  await page.route("**/snapshots/before/folder?*", (route) => route.fulfill({ json: { items: [folder], next_cursor: null } }));
  await page.goto(`/datastores/${id}/snapshots`);
  await page.getByRole("button", { name: "Actions for snapshot before" }).click();
  await page.getByRole("menuitem", { name: "Restore a VM" }).click();
  await dialog.getByLabel("Folder of the VM").selectOption("web");
  assert.equal(await dialog.getByRole("textbox", { name: "Name of the restored VM" }).inputValue(), "web-restored");
  await inspect(page, "restore-vm");
  const asking = page.waitForRequest("**/snapshots/before/restore-vm");
  await dialog.getByRole("button", { name: "Restore VM" }).click();
  assert.deepEqual((await asking).postDataJSON(), { folder: "web", name: "web-restored" });
  await page.unroute("**/snapshots/before/folder?*");
  await apiOf(page).job("POST", `/datastores/${id}/snapshots/delete`, { names: ["before"] });
  await page.goto(`/datastores/${id}`);
});

test("a viewer sees the files, and no button that clones one", async () => {
  const [{ id }] = await nfsStores();
  const watching = { name: "files-watcher", password: `${PASSWORD} too` };
  await apiOf(page).request("POST", "/users", { ...watching, role: "viewer" });
  const other = await openPage(browser);
  assert.equal((await other.context().request.post("/api/v1/session", { data: watching })).status(), 201);
  await other.goto(`/datastores/${id}/files`);
  await other.getByRole("row", { name: /^vm\/disk-flat.vmdk/ }).waitFor();
  assert.equal(await other.getByRole("button", { name: /Clone/ }).count(), 0);
  await closePage(other);
});

test("clients are changed", async () => {
  await page.getByRole("button", { name: "Actions", exact: true }).click();
  await page.getByRole("menuitem", { name: "Change access" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("textbox", { name: "More clients" }).fill("192.0.2.99");
  await inspect(page, "datastore-nfs-access");
  await dialog.getByRole("button", { name: "Change", exact: true }).click();
  await page.getByText("Change datastore: done").waitFor();
  const [{ clients }] = await nfsStores();
  assert.deepEqual(clients, ["192.0.2.99"]);
});

test("its space is no longer reserved", async () => {
  await page.getByRole("button", { name: "Actions", exact: true }).click();
  await page.getByRole("menuitem", { name: "Change provisioning" }).click();
  const dialog = page.getByRole("dialog");
  const submit = dialog.getByRole("button", { name: "Change", exact: true });
  assert.ok(await dialog.getByRole("radio", { name: "Thick" }).isChecked());
  await dialog.getByRole("radio", { name: "Thin" }).check();
  await inspect(page, "datastore-nfs-provisioning");
  await submit.click();
  await page.getByRole("tab", { name: "Overview" }).click();
  await page.getByRole("tabpanel").getByText("Thin", { exact: true }).waitFor(); // after the job
  assert.equal((await nfsStores())[0].thick, false);
});

test("its quota is reduced", async () => {
  await page.getByRole("button", { name: "Actions", exact: true }).click();
  await page.getByRole("menuitem", { name: "Set quota" }).click();
  await page.getByRole("textbox", { name: "New quota" }).fill("512 GiB");
  await page.getByRole("button", { name: "Set quota" }).click();
  await page.getByText("Set quota: done").waitFor();
  assert.equal((await nfsStores())[0].size, String(512n * GIB));
  await closePage(page);
});
