// SPDX-License-Identifier: Apache-2.0
// Users and tokens: create, lock out, change the password. A token's secret is shown once and nowhere afterwards.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { after, before, test } from "node:test";
import { apiOf, closePage, logIn, inspect, openBrowser, openPage, openSession, PASSWORD, URL_ } from "./harness.js";

const OTHER = "another good password";
const HERS = "nobody else knows this";
let browser;
let page;
before(async () => {
  browser = await openBrowser();
  page = await openPage(browser);
  await logIn(page, { path: "/users" });
});
after(() => browser.close());

const dialog = () => page.getByRole("dialog");
const user = async (name) => (await apiOf(page).request("GET", "/users")).items.find((row) => row.name === name);

async function typePassword(password) {
  await dialog().getByRole("textbox", { name: "Password", exact: true }).fill(password);
  await dialog().getByRole("textbox", { name: "Repeat the password" }).fill(password);
}

async function act(name, action) {
  await page.getByRole("button", { name: `Actions for ${name}` }).click();
  await page.getByRole("menuitem", { name: action }).click();
}

test("a user is created with the chosen role", async () => {
  await page.getByRole("button", { name: "New user" }).click();
  await dialog().getByRole("textbox", { name: "User name" }).fill("olga");
  await dialog().getByRole("radio", { name: "Viewer" }).check();
  await typePassword(PASSWORD);
  await inspect(page, "users-new");
  await dialog().getByRole("button", { name: "Create user" }).click();
  await page.getByRole("gridcell", { name: "olga", exact: true }).waitFor();
  assert.equal((await user("olga")).role, "viewer");
});

/** olga changes her password: her other sessions end, this one continues. */
async function changeMyPassword(theirs) {
  const form = theirs.getByRole("dialog");
  const { request: elsewhere } = await browser.newContext({ ignoreHTTPSErrors: true, baseURL: URL_ });
  const logInElsewhere = async (password) =>
    (await elsewhere.post("/api/v1/session", { data: { name: "olga", password } })).status();
  assert.equal(await logInElsewhere(OTHER), 201);
  await theirs.getByRole("button", { name: "User menu of olga" }).click();
  await theirs.getByRole("menuitem", { name: "Change password" }).click();
  const typed = async (current, next) => {
    await form.getByRole("textbox", { name: "Current password" }).fill(current);
    await form.getByRole("textbox", { name: "New password" }).fill(next);
    await form.getByRole("textbox", { name: "Repeat the password" }).fill(next);
    await form.getByRole("button", { name: "Change password" }).click();
  };
  await typed("not her password", HERS);
  await form.locator("#current-password-help").getByText("this is not your password").waitFor();
  await typed(OTHER, "olga olga olga olga");
  await form.locator("#new-password-help").getByText("easy to guess").waitFor();
  await inspect(theirs, "my-password");
  await typed(OTHER, HERS);
  await theirs.getByText("Your password was changed").waitFor();
  await form.waitFor({ state: "detached" });
  assert.equal((await elsewhere.get("/api/v1/session")).status(), 401);
  assert.equal(await logInElsewhere(OTHER), 401);
  assert.equal(await logInElsewhere(HERS), 201);
  // She continues where she was.
  await theirs.getByRole("navigation", { name: "Navigation" }).getByRole("link", { name: "Hosts" }).click();
  await theirs.getByRole("tab", { name: "Host groups" }).click();
  await theirs.getByRole("button", { name: "New group" }).click();
  await form.getByRole("textbox", { name: "Name" }).fill("of-olga");
  await form.getByRole("button", { name: "Create group" }).click();
  await theirs.getByRole("row", { name: "of-olga" }).waitFor();
  assert.equal(await theirs.getByRole("heading", { name: "Your session has ended" }).count(), 0);
}

test("role, password and locking out are changed", async () => {
  await act("olga", "Change role");
  await dialog().getByRole("radio", { name: "Operator" }).check();
  await dialog().getByRole("button", { name: "Change role" }).click();
  await page.getByRole("row", { name: /^olga Operator/ }).waitFor();
  await act("olga", "Reset password");
  await typePassword("olga olga olga olga");
  await dialog().getByRole("button", { name: "Set password" }).click();
  await dialog().locator("#new-password-help").getByText("easy to guess").waitFor();
  await typePassword(OTHER);
  await dialog().getByRole("button", { name: "Set password" }).click();
  await dialog().waitFor({ state: "detached" });
  const theirs = await openPage(browser);
  await logIn(theirs, { name: "olga", password: OTHER });
  await theirs.getByRole("navigation", { name: "Navigation" }).getByRole("link", { name: "Users and tokens" }).click();
  await theirs.getByText("You have no API tokens.").waitFor();
  assert.equal(await theirs.getByRole("heading", { name: "Users", exact: true }).count(), 0, "users are for administrators");
  assert.equal(await theirs.getByRole("link", { name: "Audit" }).count(), 0);
  await changeMyPassword(theirs);
  await act("olga", "Disable");
  await dialog().getByRole("button", { name: "Disable" }).click();
  await page.getByText("Disabled").waitFor();
  await inspect(page, "users");
  await theirs.goto("/datastores");
  await theirs.getByRole("heading", { name: "Log in to zvaai" }).waitFor();
  await closePage(theirs);
  await act("olga", "Delete");
  await dialog().getByRole("textbox", { name: "Type olga to confirm" }).fill("olga");
  await dialog().getByRole("button", { name: "Delete user" }).click();
  await page.getByRole("gridcell", { name: "olga", exact: true }).waitFor({ state: "detached" });
});

/** The code of an authenticator app (RFC 6238). */
function codeOf(secret, steps = 0) {
  const bits = [...secret].map((letter) => "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".indexOf(letter).toString(2).padStart(5, "0")).join("");
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30_000) + steps));
  const mac = createHmac("sha1", Buffer.from(bits.match(/.{8}/g).map((byte) => parseInt(byte, 2)))).update(counter).digest();
  return String((mac.readUInt32BE(mac[19] & 15) & 0x7fffffff) % 1_000_000).padStart(6, "0");
}

test("two-factor login is turned on with an app, demanded at the next login, and reset by an administrator", async () => {
  await apiOf(page).request("POST", "/users", { name: "vera", role: "viewer", password: OTHER });
  const theirs = await openPage(browser);
  await logIn(theirs, { name: "vera", password: OTHER });
  const form = theirs.getByRole("dialog");
  await theirs.getByRole("button", { name: "User menu of vera" }).click();
  await theirs.getByRole("menuitem", { name: "Two-factor login" }).click();
  await form.getByRole("img", { name: "QR code" }).waitFor();
  const secret = await form.locator("code").filter({ hasText: /^[A-Z2-7]{32}$/ }).textContent();
  await form.getByLabel("Your password").fill(OTHER);
  await form.getByLabel("Code of the app").fill("000000");
  await form.getByRole("button", { name: "Turn on" }).click();
  await form.getByText("it is not the code of this moment").waitFor();
  await inspect(theirs, "totp-on");
  await form.getByLabel("Code of the app").fill(codeOf(secret));
  await form.getByRole("button", { name: "Turn on" }).click();
  await form.getByRole("heading", { name: "Recovery codes" }).waitFor();
  const [recovery] = (await form.locator("code").textContent()).split("\n");
  await inspect(theirs, "totp-codes");
  await form.getByRole("button", { name: "I have stored them" }).click();
  await theirs.getByRole("button", { name: "User menu of vera" }).click();
  await theirs.getByRole("menuitem", { name: "Log out" }).click();

  await theirs.getByRole("textbox", { name: "User name" }).fill("vera");
  await theirs.getByRole("textbox", { name: "Password" }).fill(OTHER);
  await theirs.getByRole("button", { name: "Log in" }).click();
  const code = theirs.getByRole("textbox", { name: "Code" });
  await code.and(theirs.locator(":focus")).waitFor();
  await inspect(theirs, "login-code");
  await code.fill(codeOf(secret, 99));
  await theirs.getByRole("button", { name: "Log in" }).click();
  await theirs.getByText("The code is wrong, or was used before.").waitFor();
  await code.fill(recovery);
  await theirs.getByRole("button", { name: "Log in" }).click();
  await theirs.getByRole("heading", { level: 1, name: "Dashboard" }).waitFor();
  await theirs.getByRole("button", { name: "User menu of vera" }).click();
  await theirs.getByRole("menuitem", { name: "Two-factor login" }).click();
  await form.getByText("Recovery codes left: 9").waitFor();
  await form.getByRole("button", { name: "Cancel" }).click();
  await closePage(theirs);

  await page.reload();
  await act("vera", "Reset two-factor login");
  await inspect(page, "totp-reset");
  await dialog().getByRole("button", { name: "Reset" }).click();
  await page.getByRole("row", { name: /^vera Viewer Active No/ }).waitFor();
  await openSession(browser, "vera", OTHER);
  await apiOf(page).request("DELETE", `/users/${(await user("vera")).id}`);
  await page.reload();
});

test("a token does what its scope allows; its secret is shown once", async () => {
  await page.getByRole("button", { name: "New token" }).click();
  await dialog().getByRole("textbox", { name: "Name" }).fill("prometheus");
  await dialog().getByLabel("Valid for").selectOption({ label: "30 days" });
  await dialog().getByRole("textbox", { name: "Your password" }).fill("not my password");
  await dialog().getByRole("button", { name: "Create token" }).click();
  await page.getByText("this is not your password").waitFor();
  await dialog().getByRole("textbox", { name: "Your password" }).fill(PASSWORD);
  await dialog().getByRole("button", { name: "Create token" }).click();
  const shown = dialog().locator("code").filter({ hasText: /^zvaai_/ });
  await shown.waitFor();
  await inspect(page, "token-secret");
  const secret = await shown.textContent();
  await dialog().getByRole("button", { name: "Close" }).click();
  await page.getByRole("row", { name: /^prometheus Viewer/ }).waitFor();
  assert.ok(!(await page.content()).includes(secret), "the secret is still there");

  const { request } = await browser.newContext({ ignoreHTTPSErrors: true });
  const headers = { Authorization: `Bearer ${secret}` };
  assert.equal((await request.get(`${URL_}/api/v1/metrics`, { headers })).status(), 200);
  assert.equal((await request.post(`${URL_}/api/v1/reconcile`, { headers })).status(), 403);
  const [token] = (await apiOf(page).request("GET", "/tokens")).items;
  const days = (Date.parse(token.expires_at) - Date.parse(token.created_at)) / 86_400_000;
  assert.equal(Math.round(days), 30);

  await page.getByRole("button", { name: "Delete token prometheus" }).click();
  await dialog().getByRole("button", { name: "Delete token" }).click();
  await page.getByText("You have no API tokens.").waitFor();
  assert.equal((await request.get(`${URL_}/api/v1/metrics`, { headers })).status(), 401);
  await closePage(page);
});
