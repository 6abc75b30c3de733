// SPDX-License-Identifier: Apache-2.0
// The first start of a real server by its console, from the one-time code to the commands for ESXi. test_first_start.py runs it.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { apiOf, closePage, openBrowser, openPage, PASSWORD } from "../browser/harness.js";

const { disks, initiator, host, server } = JSON.parse(process.env.ZVAAI_STORY);

let browser;
before(async () => void (browser = await openBrowser()));
after(() => browser.close());

async function createDatastore(page, kind, name) {
  await page.goto("/datastores/new");
  const next = page.getByRole("button", { name: "Next" });
  await page.getByRole("radio", { name: kind, exact: true }).check();
  await next.click();
  await page.getByRole("textbox", { name: "Name" }).fill(name);
  await next.click();
  await page.getByRole("textbox", { name: kind === "NFS" ? "Quota" : "Size" }).fill("1 GiB");
  await next.click();
  await page.getByRole("checkbox", { name: "cluster" }).check();
  await next.click();
  await page.getByRole("button", { name: "Create datastore" }).click();
  await page.getByRole("heading", { name, level: 1 }).waitFor();
}

test("the first start leads from the code to datastores that are ready for ESXi", async () => {
  const page = await openPage(browser);
  await page.goto("/");
  await page.getByLabel("One-time code").fill(process.env.ZVAAI_SETUP_CODE);
  await page.getByRole("textbox", { name: "Password", exact: true }).fill(PASSWORD);
  await page.getByRole("textbox", { name: "Repeat the password" }).fill(PASSWORD);
  await page.getByRole("button", { name: "Create administrator" }).click();
  await page.getByRole("dialog", { name: "Recovery key" }).getByRole("button", { name: "Close", exact: true }).click();

  await page.getByRole("heading", { name: "Create a pool" }).waitFor();
  for (const disk of disks) await page.getByRole("checkbox", { name: `Choose ${disk}` }).check();
  await page.getByRole("button", { name: "Review" }).click();
  await page.getByText("Planned pool").waitFor();
  await page.getByRole("button", { name: "Create pool" }).click();

  await page.getByRole("heading", { name: "Check the portals" }).waitFor();
  await page.getByRole("row", { name: /:3260 .*Listening/ }).waitFor();
  await page.getByRole("button", { name: "Continue" }).click();

  await page.getByRole("heading", { name: "The appliance is ready" }).waitFor();
  const { request } = apiOf(page);
  const group = await request("POST", "/host-groups", { name: "cluster" });
  await request("POST", "/hosts", { name: "esx1", iqns: [initiator], addresses: [host], group: group.id });
  await createDatastore(page, "VMFS", "vmfs1");
  await createDatastore(page, "NFS", "nfs1");

  await page.goto("/first-start");
  await page.getByRole("button", { name: "Connect ESXi hosts" }).click();
  await page.getByRole("heading", { name: "Readiness" }).waitFor();
  await page.getByText(/esxcli storage nfs add/).first().waitFor();
  const commands = await page.getByRole("main").innerText();
  assert.match(commands, new RegExp(`esxcli iscsi .*${server}`));
  assert.match(commands, new RegExp(`esxcli storage nfs add .*${server}.*/nfs1`));
  await closePage(page);
});
