// SPDX-License-Identifier: Apache-2.0
// The language: as the browser prefers, then as the menu says. It survives a reload, and no other language is loaded.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { apiOf, closePage, ensureAdmin, ensureDatastore, inspect, openBrowser, openPage, PASSWORD } from "./harness.js";

let browser;
before(async () => void (browser = await openBrowser()));
after(() => browser.close());

/** Counts loads of the texts of a language. */
function loadsOf(page, language) {
  const loaded = [];
  page.on("request", (request) => new RegExp(`/assets/${language}-[^/]*\\.js$`).test(request.url()) && loaded.push(request.url()));
  return () => loaded.length;
}

const languageOf = (page) => page.evaluate(() => document.documentElement.lang);

test("a browser that prefers German shows German, and English after a choice", async () => {
  const page = await openPage(browser, { locale: "de-DE" });
  const english = loadsOf(page, "en");
  await ensureAdmin(page);
  await page.goto("/login");
  await page.getByRole("heading", { name: "Bei zvaai anmelden", level: 1 }).waitFor();
  assert.deepEqual([await languageOf(page), english()], ["de", 0]);
  await inspect(page, "login-german");
  await page.getByLabel("Benutzername").fill("admin");
  await page.getByRole("textbox", { name: "Passwort", exact: true }).fill(PASSWORD);
  await page.getByRole("button", { name: "Anmelden" }).click();
  await page.getByText("Durchsatz und Latenz").waitFor();
  await ensureDatastore(page);
  const [store] = (await apiOf(page).request("GET", "/datastores")).items;

  await page.getByRole("navigation", { name: "Navigation" }).getByRole("link", { name: "Datastores" }).click();
  await page.getByRole("link", { name: "Datastore anlegen" }).waitFor();
  await page.getByRole("link", { name: store.name, exact: true }).click();
  await page.getByRole("tab", { name: "Übersicht" }).waitFor();
  await page.getByRole("heading", { name: "Auf einen Blick" }).waitFor();
  await inspect(page, "datastore-german");

  await page.getByRole("button", { name: "Sprache: Deutsch" }).click();
  await page.getByRole("menuitem", { name: "English" }).click();
  await page.getByRole("tab", { name: "Overview" }).waitFor();
  assert.deepEqual([await languageOf(page), english()], ["en", 1]);
  await page.reload();
  await page.getByRole("heading", { name: "At a glance" }).waitFor();
  await closePage(page);
});

test("an English page loads no German until a user chooses it, on the login page too", async () => {
  const page = await openPage(browser);
  await ensureAdmin(page);
  const german = loadsOf(page, "de");
  await page.goto("/login");
  await page.getByRole("heading", { name: "Log in to zvaai", level: 1 }).waitFor();
  assert.equal(await languageOf(page), "en");
  assert.equal(german(), 0);
  await page.getByRole("button", { name: "Language: English" }).click();
  await page.getByRole("menuitem", { name: "Deutsch" }).click();
  await page.getByRole("heading", { name: "Bei zvaai anmelden", level: 1 }).waitFor();
  assert.equal(german(), 1);
  await page.reload();
  await page.getByRole("heading", { name: "Bei zvaai anmelden", level: 1 }).waitFor();
  assert.equal(await languageOf(page), "de");
  await closePage(page);
});
