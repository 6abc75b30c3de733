// SPDX-License-Identifier: Apache-2.0
// Logins at other servers: an administrator sets up a directory and an OIDC provider, and users of both log in.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { apiOf, closePage, inspect, logIn, openBrowser, openPage } from "./harness.js";

const DIRECTORY = JSON.parse(process.env.ZVAAI_DIRECTORY);
const OIDC = JSON.parse(process.env.ZVAAI_OIDC);
const PASSWORD = "directory battery staple";
let browser;
let page;
before(async () => {
  browser = await openBrowser();
  page = await openPage(browser);
  await logIn(page, { path: "/users" });
});
after(() => browser.close());

const dialog = () => page.getByRole("dialog");
const button = (name) => dialog().getByRole("button", { name, exact: true });

const fill = (name, value) => dialog().getByRole("textbox", { name, exact: true }).fill(value);

async function act(action, what = "the directory") {
  await page.getByRole("button", { name: `Actions for ${what}` }).click();
  await page.getByRole("menuitem", { name: action }).click();
}

test("a directory is set up and tested", async () => {
  await page.getByText("Only users of the appliance log in.").waitFor();
  await act("Set up");
  await fill("Servers", "ldaps://192.0.2.1");
  await fill("Base DN", "no DN");
  await fill("Groups of administrators", DIRECTORY.admin.join("\n"));
  await button("Save").click();
  await dialog().locator("#directory-base[aria-invalid=true]").waitFor();
  await inspect(page, "directory-set");
  await fill("Servers", DIRECTORY.servers.join("\n"));
  await fill("Base DN", DIRECTORY.base);
  await fill("Bind DN", DIRECTORY.bind_dn);
  await dialog().getByLabel("Password of the bind DN").fill(DIRECTORY.password);
  await fill("CA certificate of the servers (PEM)", DIRECTORY.certificate);
  await button("Save").click();
  await page.getByText("The directory was set").waitFor();
  await act("Test");
  await dialog().getByRole("textbox", { name: "Login name" }).fill("anna");
  await button("Test").click();
  await page.getByText("anna logs in as Administrator").waitFor();
  await act("Test");
  await dialog().getByRole("textbox", { name: "Login name" }).fill("*");
  await button("Test").click();
  await page.getByText("no entry, or more than one, has this login name").waitFor();
});

test("a user of the directory logs in, and has no access without it", async () => {
  const theirs = await openPage(browser);
  await logIn(theirs, { name: "anna", password: PASSWORD, path: "/users" });
  await theirs.getByRole("row", { name: /^anna You Directory Administrator Active/ }).waitFor();
  await theirs.getByRole("button", { name: "Actions for anna" }).click();
  assert.equal(await theirs.getByRole("menuitem", { name: "Change role" }).count(), 0, "the directory has the role");
  await theirs.keyboard.press("Escape");
  await inspect(theirs, "users-directory");
  await page.reload();
  await act("Remove");
  await button("Remove directory").click();
  await page.getByText("Only users of the appliance log in.").waitFor();
  assert.ok((await apiOf(page).request("GET", "/users")).items.every((user) => user.source === "local"));
  await theirs.goto("/users");
  await theirs.getByRole("heading", { name: "Log in to zvaai" }).waitFor();
  await closePage(theirs);
});

test("an OIDC provider is set up and tested", async () => {
  await page.getByText("No provider is set up.").waitFor();
  await act("Set up", "OpenID Connect");
  await dialog().getByText("/login/oidc").waitFor();
  await fill("Name", "Example");
  await fill("Issuer", "http://localhost");
  await fill("Client ID", OIDC.client_id);
  await fill("Values for administrators", OIDC.admin.join("\n"));
  await fill("CA certificate of the provider (PEM)", OIDC.certificate);
  await button("Save").click();
  await dialog().locator("#oidc-issuer[aria-invalid=true]").waitFor();
  await inspect(page, "oidc-set");
  await fill("Issuer", OIDC.issuer);
  await dialog().getByLabel("Client secret").fill(OIDC.secret);
  await button("Save").click();
  await page.getByText("OpenID Connect was set").waitFor();
  await act("Test", "OpenID Connect");
  await button("Test").click();
  await page.getByText("The provider answers").waitFor();
});

test("who logs in at the provider comes back to the same page", async () => {
  const theirs = await openPage(browser, { provider: OIDC.issuer });
  await theirs.goto("/users");
  await theirs.getByRole("button", { name: "Log in with Example" }).waitFor();
  await inspect(theirs, "login-oidc");
  await theirs.getByRole("button", { name: "Log in with Example" }).click();
  await theirs.getByRole("link", { name: "stranger" }).click();
  await theirs.getByText("no group of this user has a role here").waitFor();
  await inspect(theirs, "login-oidc-refused");
  await theirs.getByRole("link", { name: "Back to the login" }).click();
  await theirs.getByRole("heading", { name: "Log in to zvaai" }).waitFor();
  await theirs.goto("/users");
  await theirs.getByRole("button", { name: "Log in with Example" }).click();
  await theirs.getByRole("link", { name: "anna" }).click();
  await theirs.getByRole("row", { name: /^anna You OIDC Administrator Active/ }).waitFor();
  assert.equal(await theirs.evaluate(() => window.location.search + JSON.stringify({ ...sessionStorage })), "{}");
  await theirs.getByRole("button", { name: "New token" }).click();
  const dialog = theirs.getByRole("dialog");
  await dialog.getByText("within 10 minutes after a login").waitFor();
  await dialog.getByText("12 hours. The appliance does not learn").waitFor();
  await dialog.getByRole("textbox", { name: "Name" }).fill("command");
  await inspect(theirs, "token-oidc");
  await dialog.getByRole("button", { name: "Create token" }).click();
  await dialog.getByText(/^zvaai_/).waitFor();
  await dialog.getByRole("button", { name: "Close" }).last().click();
  const [token] = (await apiOf(theirs).request("GET", "/tokens")).items;
  assert.equal(Date.parse(token.expires_at) - Date.parse(token.created_at), 12 * 3_600_000);
  await theirs.getByRole("button", { name: "User menu of anna" }).click();
  assert.equal(await theirs.getByRole("menuitem", { name: "Change password" }).count(), 0);
  await theirs.keyboard.press("Escape");
  await theirs.goto("/login/oidc?state=another&code=stolen");
  await theirs.getByText("This browser tab has begun no such login.").waitFor();
  await page.reload();
  await act("Remove", "OpenID Connect");
  await button("Remove provider").click();
  await page.getByText("No provider is set up.").waitFor();
  await closePage(theirs);
});
