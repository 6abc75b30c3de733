// SPDX-License-Identifier: Apache-2.0
// The server's journal: filters and pages.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { closePage, inspect, logIn, openBrowser, openPage } from "./harness.js";

let browser;
let page;
before(async () => {
  browser = await openBrowser();
  page = await openPage(browser);
  await logIn(page);
  await page.getByRole("navigation", { name: "Navigation" }).getByRole("link", { name: "Logs" }).click();
});
after(() => browser.close());

const cell = (name) => page.getByRole("gridcell", { name, exact: true });

test("the newest entries come first, and older ones on the next page", async () => {
  await cell("login 119 of esx1").waitFor();
  const [, first] = await page.getByRole("grid").getByRole("row").allTextContents();
  assert.match(first, /kernel.*Warning.*Pool 'tank' is suspended/);
  await inspect(page, "logs");
  await page.getByRole("button", { name: "Older" }).click();
  await cell("login 0 of esx1").waitFor();
  assert.equal(await cell("login 119 of esx1").count(), 0);
});

test("filters begin at the newest entry", async () => {
  await page.getByLabel("Priority").selectOption({ label: "Warning and above" });
  await cell("WARNING: Pool 'tank' is suspended").waitFor();
  assert.equal(await page.getByRole("grid").getByRole("row").count(), 2);
  await page.getByLabel("Priority").selectOption({ label: "All priorities" });
  await page.getByLabel("Unit").selectOption({ label: "zvaai-target" });
  await cell("login 119 of esx1").waitFor();
  await page.getByRole("textbox", { name: "Text" }).fill("LOGIN 7 ");
  await cell("login 7 of esx1").waitFor();
  assert.equal(await page.getByRole("grid").getByRole("row").count(), 12, "the text ends after the number: 7, 70 to 79");
  // 1795000030 is 12:07:10 in Berlin.
  await page.getByRole("textbox", { name: "Text" }).fill("");
  await page.getByLabel("To", { exact: true }).fill("2026-11-18T12:07");
  await cell("login 20 of esx1").waitFor();
  assert.equal(await cell("login 21 of esx1").count(), 0);
  await page.getByLabel("From", { exact: true }).fill("2026-11-18T12:08");
  await page.getByText("No entry matches").waitFor();
  await inspect(page, "logs-none");
  await closePage(page);
});
