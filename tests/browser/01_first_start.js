// SPDX-License-Identifier: Apache-2.0
// The first start: one-time code, administrator, secrets that must not appear afterwards, the pool step left and resumed.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { apiOf, closePage, inspect, openBrowser, openPage, PASSWORD } from "./harness.js";

const CODE = process.env.ZVAAI_SETUP_CODE;
let browser;
before(async () => void (browser = await openBrowser()));
after(() => browser.close());

test("any address leads to the first start, and a wrong code is reported at its field", async () => {
  const page = await openPage(browser);
  await page.goto("/datastores");
  await page.getByRole("heading", { name: "Create the first administrator" }).waitFor();
  await inspect(page, "first-start-account");
  await page.getByRole("button", { name: "Create administrator" }).click();
  await page.getByText("Required.").first().waitFor();
  await page.getByLabel("One-time code").fill("0000-0000-0000-0000-0000");
  await page.getByRole("textbox", { name: "Password", exact: true }).fill(PASSWORD);
  await page.getByRole("textbox", { name: "Repeat the password" }).fill(PASSWORD);
  await page.getByRole("button", { name: "Create administrator" }).click();
  await page.getByText("This is not the one-time code").waitFor();
  assert.equal(await page.getByLabel("One-time code").getAttribute("aria-invalid"), "true");
  await inspect(page, "first-start-wrong-code");
  await closePage(page);
});

test("a guessable password is refused at its field; a good one creates the administrator and logs in", async () => {
  const page = await openPage(browser);
  await page.goto("/first-start");
  await page.getByLabel("One-time code").fill(CODE);
  for (const password of ["aaaaaaaaaaaaaa", PASSWORD]) {
    await page.getByRole("textbox", { name: "Password", exact: true }).fill(password);
    await page.getByRole("textbox", { name: "Repeat the password" }).fill(password);
    const make = page.getByRole("button", { name: "Create administrator" });
    await make.click();
    if (password !== PASSWORD) await page.getByText("easy to guess").waitFor();
  }
  const shownOnce = page.getByRole("dialog", { name: "Recovery key" });
  const recoveryKey = (await shownOnce.locator("code").textContent()).trim();
  assert.match(recoveryKey, /^([A-Z2-7]{4}-){7}[A-Z2-7]{4}$/);
  await inspect(page, "first-start-recovery-key");
  await shownOnce.getByRole("button", { name: "Close" }).click();
  // The simulator has a pool from the start, as the demo has: no other step is left.
  await page.getByRole("heading", { name: "The appliance is ready" }).waitFor();
  await inspect(page, "first-start-done");

  const [cookie, ...others] = await page.context().cookies();
  assert.deepEqual(others, []);
  const { name, httpOnly, secure, sameSite, path } = cookie;
  assert.deepEqual({ name, httpOnly, secure, sameSite, path }, { name: "__Host-zvaai", httpOnly: true, secure: true, sameSite: "Strict", path: "/" });
  const csrf = (await (await page.context().request.get("/api/v1/session")).json()).csrf_token;
  const stored = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, location.href, document.cookie]));
  const shown = `${await page.content()}${stored}${page.messages.join()}`;
  for (const secret of [PASSWORD, CODE, recoveryKey, csrf, cookie.value]) assert.ok(!shown.includes(secret), "a secret is where it can be read");
  assert.deepEqual(await page.evaluate(() => indexedDB.databases()), []);
  await closePage(page);
});

test("without a pool the first start continues with it, can be skipped, and can be opened again", async () => {
  const page = await openPage(browser);
  await page.goto("/login");
  await page.getByLabel("User name").fill("admin");
  await page.getByRole("textbox", { name: "Password", exact: true }).fill(PASSWORD);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("heading", { name: "Dashboard", level: 1 }).waitFor();
  await apiOf(page).job("POST", "/pools/tank/export");
  await page.reload();
  await page.getByText("No pool yet").waitFor();
  await inspect(page, "dashboard-no-pool");
  await page.getByRole("button", { name: "Create a pool" }).click();
  await page.getByRole("heading", { name: "Create a pool" }).waitFor();
  await page.goto("/");
  await page.goto("/first-start");
  await page.getByRole("button", { name: "Review" }).waitFor();
  const layout = page.getByLabel("Layout").locator("option:checked");
  assert.equal(await layout.textContent(), "Mirrors of two disks: one of each pair may fail");
  const disks = page.getByRole("checkbox", { name: /^Choose / });
  await disks.nth(0).check();
  await page.getByText("This layout needs 2 disks or more.").waitFor();
  await disks.nth(1).check();
  await page.getByRole("button", { name: "Review" }).click();
  await page.getByRole("heading", { name: "Planned pool" }).waitFor();
  await page.getByText("mirror-0").waitFor();
  await inspect(page, "first-start-pool");
  // If a session ends here, the login appears over the page and keeps the choices.
  await page.context().clearCookies();
  await page.getByRole("button", { name: "Create pool" }).click();
  await page.getByRole("heading", { name: "Your session has ended" }).waitFor();
  await page.getByRole("textbox", { name: "Password" }).fill(PASSWORD);
  await page.getByRole("button", { name: "Log in again" }).click();
  await page.getByRole("heading", { name: "Your session has ended" }).waitFor({ state: "detached" });
  assert.ok((await disks.nth(0).isChecked()) && (await disks.nth(1).isChecked()));
  await page.getByRole("button", { name: "Create pool" }).click();
  await page.getByRole("heading", { name: "Check the portals" }).waitFor();
  await page.getByRole("row", { name: /Listening/ }).waitFor();
  await page.getByRole("button", { name: "Add portal" }).waitFor();
  await inspect(page, "first-start-portals");
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByRole("heading", { name: "The appliance is ready" }).waitFor();
  await page.getByRole("button", { name: "Connect ESXi hosts" }).click();
  await page.getByRole("heading", { name: "Readiness", level: 1 }).waitFor();
  await closePage(page);
});
