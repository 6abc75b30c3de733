// SPDX-License-Identifier: Apache-2.0
// The console on real zvols and datasets, with real clients. Copies that clients request appear in the console's counters, and clients
// find the changes made in the console. ../environment/test_demo.py runs this against the demo: one story in order.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile, rm } from "node:fs/promises";
import { after, before, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { promisify } from "node:util";
import { apiOf, closePage, logIn, openBrowser, openPage } from "./harness.js";

const demo = JSON.parse(process.env.ZVAAI_DEMO); // the demo's line of JSON
const { initiator, image, other, back } = JSON.parse(process.env.ZVAAI_STORY); // initiator name, two files of one size, one to write
const PATIENCE_MS = 600_000; // the guest has one CPU and shares it on a loaded machine
const MIB = 2 ** 20;

let browser;
let page;
before(async () => {
  browser = await openBrowser();
  page = await openPage(browser);
  page.context().setDefaultTimeout(PATIENCE_MS);
});
after(() => browser.close());

const began = Date.now();
const say = (what) => console.log(`${((Date.now() - began) / 1000).toFixed(1)} s: ${what}`);
const run = async (...words) => (await promisify(execFile)(words[0], words.slice(1), { timeout: PATIENCE_MS })).stdout;
const store = async (name) => (await apiOf(page).request("GET", "/datastores")).items.find((datastore) => datastore.name === name);

/** A marker in the page's memory, to detect a reload. */
const mark = () => page.evaluate(() => void (window.mark = true));
const isMarked = () => page.evaluate(() => window.mark === true);

const urlOf = ({ lun }) => `iscsi://${demo.iscsi_portal}/${demo.console.iqn}/${lun}`;
const shareUrl = ({ share }, file) =>
  `nfs://${demo.nfs.address}${share}/${file}?nfsport=${demo.nfs.port}&mountport=${demo.nfs.mount_port}`;
const write = (file, lun) => run("qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", file, urlOf(lun));

async function isSame(file, ...read) {
  await rm(back, { force: true });
  await run(...read, back);
  return (await readFile(back)).equals(await readFile(file));
}
async function holds(lun, file) {
  await rm(back, { force: true });
  await run("qemu-img", "dd", "-f", "raw", "-O", "raw", "bs=1M", "count=32", `if=${urlOf(lun)}`, `of=${back}`);
  return (await readFile(back)).equals(await readFile(file));
}

/** Waits until the service has no session. */
async function loggedOut() {
  const until = Date.now() + PATIENCE_MS;
  while ((await apiOf(page).request("GET", "/sessions")).items.length > 0) {
    assert.ok(Date.now() < until, "a session does not end");
    await pause(500);
  }
}

async function make(kind, name, size, where) {
  await page.goto("/datastores/new");
  const next = page.getByRole("button", { name: "Next" });
  await page.getByRole("radio", { name: kind, exact: true }).check();
  await next.click();
  await page.getByRole("textbox", { name: "Name" }).fill(name);
  await next.click();
  await page.getByRole("textbox", { name: kind === "NFS" ? "Quota" : "Size" }).fill(size);
  await next.click();
  await where();
  await next.click();
  await page.getByRole("button", { name: "Create datastore" }).click();
  await page.getByRole("heading", { name, level: 1 }).waitFor();
  return store(name);
}

async function open(name, tab) {
  await page.getByRole("navigation", { name: "Navigation" }).getByRole("link", { name: "Datastores" }).click();
  await page.getByRole("link", { name, exact: true }).click();
  await page.getByRole("tab", { name: tab }).click();
}

async function act(action, fill, submit = action) {
  await page.getByRole("button", { name: "Actions", exact: true }).click();
  await page.getByRole("menuitem", { name: action, exact: true }).click();
  const dialog = page.getByRole("dialog");
  await fill(dialog);
  await dialog.getByRole("button", { name: submit, exact: true }).click();
  await dialog.waitFor({ state: "detached" });
}

const presented = (place) => place.getByRole("checkbox", { name: "here" }).check();
const figure = (name) => page.locator("dl > div").filter({ hasText: name }).locator("dd");

async function story() {
  await logIn(page); // creates the first administrator with the code that the demo printed
  const { request } = apiOf(page);
  const group = await request("POST", "/host-groups", { name: "here" });
  await request("POST", "/hosts", { name: "here", iqns: [initiator, "iqn.2008-11.org.linux-kvm"], group: group.id });

  say("new datastores");
  const first = await make("VMFS", "first", "1 GiB", () => presented(page));
  await write(image, first);
  const second = await make("NFS", "second", "1 GiB", () =>
    page.getByRole("textbox", { name: "More clients" }).fill(demo.console.nfs_client),
  );
  await run("nfs-cp", image, shareUrl(second, "disk"));

  say("a snapshot, and a clone of it");
  await open("first", "Snapshots");
  await mark();
  await act("Take snapshot", (dialog) => dialog.getByRole("textbox", { name: "Name" }).fill("before"), "Take snapshot");
  await page.getByRole("button", { name: "Actions for snapshot before" }).click();
  await page.getByRole("menuitem", { name: "Clone" }).click();
  await page.getByRole("dialog").getByRole("textbox", { name: "Name of the clone" }).fill("again");
  await presented(page.getByRole("dialog"));
  await page.getByRole("dialog").getByRole("button", { name: "Clone" }).click();
  await page.getByText("Clone datastore: done").waitFor();
  const again = await store("again");
  await write(other, first);
  assert.ok(await holds(again, image), "the clone is of the snapshot");

  say("XCOPY");
  await page.getByRole("tab", { name: "VAAI" }).click();
  const requests = page.getByRole("row", { name: /^XCOPY/ }).getByRole("gridcell").nth(2);
  await figure("Cloned").getByText("0 B", { exact: true }).waitFor();
  assert.equal(await requests.innerText(), "0");
  await run("qemu-img", "convert", "-C", "-n", "-f", "raw", "-O", "raw", urlOf(again), urlOf(first));
  await figure("Cloned").getByText("32 MiB", { exact: true }).waitFor();
  assert.ok(Number(await requests.innerText()) > 0);
  assert.ok(await holds(first, image), "the clone's blocks are in the first one");

  say("a file cloned by VAAI-NAS");
  await open("second", "VAAI");
  const ports = ["--nfs-port", demo.nfs.port, "--mount-port", demo.nfs.mount_port];
  await run(process.env.ZVAAI_VAAI_NAS, ...ports.map(String), "fast-clone", `${demo.nfs.address}:${second.share}`, "disk", "clone");
  await page.getByRole("row", { name: "Fast File Clone" }).getByRole("gridcell", { name: "1", exact: true }).waitFor();
  await figure("Cloned").getByText("32 MiB", { exact: true }).waitFor();
  assert.ok(await isSame(image, "nfs-cp", shareUrl(second, "clone")));

  say("it grows");
  await open("first", "Overview");
  await act("Grow", (dialog) => dialog.getByRole("textbox", { name: "New size" }).fill("2 GiB"));
  await page.getByText("Grow datastore: done").waitFor();
  const capacity = await run("iscsi-readcapacity16", "-i", initiator, "-s", urlOf(first));
  assert.equal(Number(capacity), 2048 * MIB);

  say("deleted, and restored");
  const inquire = () => run("iscsi-inq", "-i", initiator, urlOf(first));
  await inquire();
  await loggedOut();
  await act("Delete", (dialog) => dialog.getByRole("textbox").fill("first"));
  await page.getByText("Delete datastore: done").waitFor();
  await assert.rejects(inquire(), "a host finds no LUN");
  await act("Restore", presented);
  await page.getByText("Restore datastore: done").waitFor();
  assert.ok(await isMarked(), "all this was seen on one page, which was never loaded anew");
  const restored = await store("first");
  assert.deepEqual([restored.uuid, restored.state], [first.uuid, "active"]);
  assert.ok(await holds(restored, image), "with what was in it");
  say("done");
}

test("the life of datastores, by mouse, with concurrent clients", async () => {
  try {
    await story();
  } catch (error) {
    console.log(await page.locator("body").innerText());
    throw error;
  }
  await closePage(page);
});
