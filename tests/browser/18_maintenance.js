// SPDX-License-Identifier: Apache-2.0
// Updates of the server, and a reboot: who uses it, the password, and the page that comes back.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { apiOf, closePage, inspect, logIn, openBrowser, openPage, PASSWORD } from "./harness.js";

let browser;
let page;
before(async () => {
  browser = await openBrowser();
  page = await openPage(browser);
  await logIn(page);
});
after(() => browser.close());

const dialog = () => page.getByRole("dialog");
const UPDATES = {
  packages: [
    { name: "zvaai", installed: "1.0", version: "1.1", effect: "Console and jobs stop for the upgrade." },
    { name: "zfsutils-linux", installed: "2.3.9-0+deb13u1", version: "2.3.10-1", effect: "Reboot after the upgrade." },
  ],
  others: 12,
  refreshed_at: "2026-11-27T09:30:00Z",
  obstacles: ["A pool is not healthy; mend it first: tank is DEGRADED"],
  reboot: ["Linux 6.12.9+deb13-amd64 runs and 6.12.57+deb13-amd64 is installed."],
  notes: "## 1.1\n\n- The console lists updates.",
};

test("updates of this server are read, and others shown with notes and commands", async () => {
  const { packages, others, refreshed_at: refreshed } = await apiOf(page).request("GET", "/updates");
  await page.goto("/system");
  const none = refreshed === null ? /no package lists yet/ : /^No updates are pending\./;
  await page.getByText(packages.length + others === 0 ? none : /^Pending: /).waitFor();
  await page.route("**/api/v1/updates", (route) => route.fulfill({ json: UPDATES }));
  await page.getByRole("button", { name: "Check again" }).click();
  await page.getByText("Pending: 2 of zvaai or storage, 12 other packages.").waitFor();
  await page.getByText("The server needs a reboot").waitFor();
  await page.getByText("tank is DEGRADED").waitFor();
  await page.getByRole("button", { name: "Release notes" }).click();
  await page.getByText("The console lists updates.").waitFor();
  await page.getByText("zvaai upgrade --check").waitFor();
  await inspect(page, "updates");
});

test("a reboot names who uses the server, and asks for the password", async () => {
  await page.getByRole("button", { name: "Reboot" }).click();
  await dialog().getByText("Console users").waitFor();
  const users = dialog().locator("dt", { hasText: "Console users" }).locator("xpath=following-sibling::dd");
  assert.ok((await users.innerText()).split(", ").includes("admin"));
  const send = dialog().getByRole("button", { name: "Reboot" });
  await dialog().getByLabel("Your password").fill("wrong");
  await send.click();
  await dialog().getByText("this is not your password").waitFor();
  await dialog().getByLabel("Your password").fill(PASSWORD);
  await inspect(page, "reboot");
  await send.click();
});

test("the page waits for the server, and opens the console when it is back", async () => {
  await page.getByRole("dialog", { name: "The server restarts" }).waitFor();
  await inspect(page, "restarting");
  let requests = 0;
  // It still answers, then it does not, then only nginx does.
  const answers = [{ json: { status: "ok" } }, null, { status: 502, body: "" }];
  await page.route("**/api/v1/health/ready", async (route) => {
    const answer = answers[requests++];
    if (answer === null) await route.abort();
    else if (answer === undefined) await route.fallback();
    else await route.fulfill(answer);
  });
  await page.getByRole("heading", { name: "Dashboard", level: 1 }).waitFor();
  assert.ok(requests > answers.length, `${requests} requests`);
  await closePage(page);
});
