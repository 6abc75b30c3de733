// SPDX-License-Identifier: Apache-2.0
// The system: versions and certificate, a receiver with its test, backup and restore, a support bundle.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { apiOf, closePage, logIn, inspect, openBrowser, openPage, PASSWORD, servedCertificate, URL_ } from "./harness.js";

let browser;
let page;
let receiver;
const received = [];
before(async () => {
  receiver = createServer((request, response) => {
    received.push(request.headers["webhook-signature"]);
    request.resume().on("end", () => response.writeHead(received.length === 1 ? 500 : 204).end());
  });
  await new Promise((resolve) => receiver.listen(0, "127.0.0.1", resolve));
  browser = await openBrowser();
  page = await openPage(browser);
  await logIn(page);
  await page.getByRole("navigation", { name: "Navigation" }).getByRole("link", { name: "System" }).click();
});
after(async () => {
  await browser.close();
  receiver.close();
});

const dialog = () => page.getByRole("dialog");

async function choose(what, action) {
  await page.getByRole("button", { name: what, exact: true }).click();
  await page.getByRole("menuitem", { name: action, exact: true }).click();
}

test("versions, the served certificate, and the address of the metrics are shown", async () => {
  const { version } = await apiOf(page).request("GET", "/status");
  await page.getByText(version, { exact: true }).first().waitFor();
  await page.getByText((await servedCertificate()).fingerprint256).waitFor();
  assert.equal(await page.getByRole("textbox", { name: "Address" }).inputValue(), `${URL_}/api/v1/metrics`);
});

test("a certificate is replaced, and an invalid one is refused with the reason", async () => {
  await page.getByRole("button", { name: "Replace", exact: true }).click();
  await dialog().getByLabel("Certificate chain (PEM)").fill("no certificate");
  await dialog().getByLabel("Private key (PEM)").fill("no key");
  await dialog().getByRole("button", { name: "Replace certificate" }).click();
  await dialog().getByText("it is not a certificate").waitFor();
  await inspect(page, "certificate-replace");
  await dialog().getByRole("button", { name: "Cancel" }).click();
});

test("in recovery mode the page shows the copies on pools, and asks which configuration is right", async () => {
  const copy = { pool: "tank", installation: "one", generation: 9, hash: "x", written_at: 1795000000, this_installation: true, known: false };
  const state = { active: true, reason: "the database is older than the copy on tank", installation: "one" };
  const answer = { ...state, generation: 7, suggested: "tank", copies: [copy] };
  await page.route("**/api/v1/recovery", (route) => route.fulfill({ json: answer }));
  await page.reload();
  await page.getByText("the database is older than the copy on tank").waitFor();
  await page.getByRole("row", { name: /^tank 9 .* Not known/ }).waitFor();
  await inspect(page, "recovery");
  await page.getByRole("button", { name: "Decide" }).click();
  assert.equal(await dialog().getByLabel("Configuration").inputValue(), "tank");
  await inspect(page, "recovery-decide");
  await dialog().getByRole("button", { name: "Cancel" }).click();
  await page.unroute("**/api/v1/recovery");
  await page.reload();
  await page.getByRole("button", { name: "Add portal" }).waitFor();
});

test("portals have forms, and a refusal is shown; CHAP is required, and the target has a secret", async () => {
  const { request } = apiOf(page);
  const [first] = (await request("GET", "/portals")).items;
  await page.getByRole("button", { name: "Add portal" }).click();
  await dialog().getByRole("textbox", { name: "Address and port" }).fill("127.0.0.1:1");
  await dialog().getByRole("textbox", { name: "Portal group" }).fill("2");
  await inspect(page, "portal-new");
  await dialog().getByRole("button", { name: "Add portal" }).click();
  // The target of these stories has a fixed address: tests/integration shows what portals do.
  await dialog().getByText(/the daemon was started with --listen/).waitFor();
  await dialog().getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("row", { name: new RegExp(`^${first.address} 1 .* Listening`) }).waitFor();
  assert.deepEqual((await request("GET", "/portals")).items, [first]);
  await choose("Actions for CHAP", "Require CHAP");
  await dialog().getByRole("button", { name: "Require CHAP" }).click();
  await page.getByText("CHAP was changed").first().waitFor();
  await request("PUT", "/settings/iscsi", { chap_required: false });
  const answer = { chap_required: false, target_chap_name: "storage" };
  await choose("Actions for CHAP", "Set the target's secret");
  await dialog().getByRole("textbox", { name: "CHAP name" }).fill("storage");
  await dialog().getByLabel("Secret").fill("a secret of it");
  await page.route("**/api/v1/settings/iscsi", (route) => route.fulfill({ json: answer }));
  await dialog().getByRole("button", { name: "Set secret" }).click();
  await choose("Actions for CHAP", "Remove the target's secret");
  await page.unroute("**/api/v1/settings/iscsi");
  await dialog().getByRole("button", { name: "Remove secret" }).click();
  await dialog().waitFor({ state: "detached" });
});

test("a receiver is created, and its test reports the receiver's answer", async () => {
  await page.getByRole("button", { name: "New receiver" }).click();
  await dialog().getByRole("textbox", { name: "Name" }).fill("chat");
  await dialog().getByRole("textbox", { name: "Address" }).fill("not an address");
  await dialog().getByRole("button", { name: "Create receiver" }).click();
  await dialog().locator("#receiver-url[aria-invalid=true]").waitFor();
  await inspect(page, "receiver-new");
  await dialog().getByRole("textbox", { name: "Address" }).fill(`http://127.0.0.1:${receiver.address().port}/hook`);
  await dialog().getByRole("button", { name: "Create receiver" }).click();
  await dialog().getByRole("heading", { name: "Secret of chat" }).waitFor();
  await dialog().getByRole("button", { name: "Close" }).click();
  for (const outcome of ["did not accept", "accepted"]) {
    await page.getByRole("button", { name: "Actions for chat" }).click();
    await page.getByRole("menuitem", { name: "Send a test" }).click();
    await page.getByText(`chat ${outcome} the test`).waitFor();
  }
  assert.ok(received.length === 2 && received.every(Boolean), "both were signed");
  await page.getByRole("row", { name: /^chat .*Delivered/ }).waitFor();
  await inspect(page, "system");
  await choose("Actions for chat", "Deliveries");
  await dialog().getByRole("row", { name: /Delivered/ }).waitFor();
  await dialog().getByRole("row", { name: /Not delivered/ }).waitFor();
  await inspect(page, "receiver-deliveries");
  await dialog().getByRole("button", { name: "Close" }).last().click();
  await page.getByRole("button", { name: "Actions for chat" }).click();
  await page.getByRole("menuitem", { name: "Change" }).click();
  await dialog().getByRole("switch", { name: "Enabled" }).click({ force: true });
  await dialog().getByRole("button", { name: "Change" }).click();
  await page.getByRole("row", { name: /^chat .* Off/ }).waitFor();
  await page.getByRole("button", { name: "Actions for chat" }).click();
  await page.getByRole("menuitem", { name: "New secret" }).click();
  const renew = dialog().getByRole("button", { name: "Generate secret" });
  await renew.click();
  await dialog().getByRole("heading", { name: "Secret of chat" }).waitFor();
  await dialog().getByRole("button", { name: "Close" }).click();
});

test("a new recovery key is shown once", async () => {
  await page.getByRole("button", { name: "New recovery key" }).click();
  await dialog().getByRole("button", { name: "Make new key" }).click();
  await dialog().getByRole("heading", { name: "New recovery key" }).waitFor();
  assert.match(await dialog().locator("code").innerText(), /^[A-Z0-9]{4}(-[A-Z0-9]{4})+$/);
  await inspect(page, "recovery-key");
  await dialog().getByRole("button", { name: "Close" }).click();
  await dialog().waitFor({ state: "detached" });
});

test("changes after a backup are listed, then reverted", async () => {
  await page.getByRole("button", { name: "Back up" }).click();
  const make = dialog().getByRole("button", { name: "Download backup" });
  assert.ok(await make.isDisabled());
  await dialog().getByLabel("Your password").fill(PASSWORD);
  const downloading = page.waitForEvent("download");
  await make.click();
  const file = await (await downloading).path();
  const { request } = apiOf(page);
  assert.equal(JSON.parse(readFileSync(file, "utf8")).header.installation, (await request("GET", "/recovery")).installation);
  await page.getByRole("button", { name: "Actions for chat" }).click();
  await page.getByRole("menuitem", { name: "Delete" }).click();
  const remove = dialog().getByRole("button", { name: "Delete receiver" });
  await remove.click();
  await dialog().waitFor({ state: "detached" });
  assert.deepEqual((await request("GET", "/receivers")).items, []);

  await page.getByRole("button", { name: "Restore" }).click();
  await dialog().locator("input[type=file]").setInputFiles(file);
  await dialog().getByLabel("Recovery key").fill("AAAA-AAAA-AAAA-AAAA-AAAA-AAAA-AAAA-AAAA");
  await dialog().getByRole("button", { name: "Preview changes" }).click();
  await dialog().locator("#recovery-key[aria-invalid=true]").waitFor();
  await dialog().getByLabel("Recovery key").fill("");
  await dialog().getByRole("button", { name: "Preview changes" }).click();
  await dialog().getByText(/receiver.*chat|chat/).first().waitFor();
  assert.deepEqual((await request("GET", "/receivers")).items, [], "opening the form changes nothing");
  await inspect(page, "restore");
  await dialog().getByRole("button", { name: "Restore" }).click();
  await page.getByRole("row", { name: /^chat / }).waitFor();
});

test("a support bundle is created and downloaded", async () => {
  const bundles = page.getByRole("grid", { name: "Support bundles" }).getByRole("link", { name: /^Download/ });
  const before = await bundles.count();
  const make = page.getByRole("button", { name: "Create support bundle" });
  await make.click();
  await bundles.nth(before).waitFor();
  const downloading = page.waitForEvent("download");
  await bundles.first().click();
  const [first, second] = readFileSync(await (await downloading).path());
  assert.deepEqual([first, second], [0x1f, 0x8b], "gzip (RFC 1952)");
  for (let all = await bundles.count(), left = all; left > 0; left -= 1) {
    await page.getByRole("button", { name: /^Delete bundle of/ }).first().click();
    const remove = dialog().getByRole("button", { name: "Delete bundle", exact: true });
    await remove.click();
    await bundles.nth(left - 1).waitFor({ state: "detached" });
  }
  await closePage(page);
});
