// SPDX-License-Identifier: Apache-2.0
// Failures: an ended session, a lost connection, refusals and internal errors, on forms and on screens.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { apiOf, closePage, ensureDatastore, logIn, inspect, openBrowser, openPage, PASSWORD, problem, refuse } from "./harness.js";

let browser;
let page;
before(async () => {
  browser = await openBrowser();
  page = await openPage(browser);
  await logIn(page);
  await ensureDatastore(page);
});
after(() => browser.close());

const STORES = "**/api/v1/datastores?*";

async function openGrow(size = "3 TiB") {
  await page.getByRole("button", { name: "Actions", exact: true }).click();
  await page.getByRole("menuitem", { name: "Grow" }).click();
  await page.getByRole("textbox", { name: "New size" }).fill(size);
  // The form has read the datastore by now.
  await page.getByRole("dialog").getByRole("button", { name: "Grow", disabled: false }).waitFor();
}

test("for any answer a form reports the result and what was not changed, and can be sent again", async () => {
  await page.goto("/datastores");
  await page.getByRole("link", { name: "vmfs1" }).click();
  await openGrow();
  const dialog = page.getByRole("dialog");
  for (const [status, code, detail, shown] of [
    [409, "conflict", "another job (datastore.grow) is changing it", "Another job (datastore.grow) is changing it."],
    [412, "precondition_failed", "it has changed since it was read", "Someone else changed this in the meantime"],
    [403, "forbidden", "this needs the role operator", "Your role does not allow this"],
    [429, "too_many_requests", "slowly", "Too many attempts"],
    [500, "internal", "Traceback: secret of the service", "Internal error of the appliance"],
    [503, "unavailable", "the worker does not answer", "A part of the appliance does not answer"],
  ]) {
    await refuse(page, "**/grow", status, problem(status, code, detail));
    await dialog.getByRole("button", { name: "Grow", disabled: false }).click();
    await dialog.getByText(shown).waitFor();
    // No visible value has changed, so the form shows no change.
    if (status === 412) assert.equal(await dialog.getByText("Check the new values").count(), 0);
    await dialog.getByText(status < 500 ? "Nothing was changed." : "The request may have been carried out.").waitFor();
    assert.ok(!(await page.content()).includes("Traceback"), "what the service said of its fault is shown");
    assert.equal(await page.getByRole("textbox", { name: "New size" }).inputValue(), "3 TiB");
    if (status === 409 || status === 500) await inspect(page, `form-${status}`);
  }
});

test("a refused field is marked, and announced to screen readers", async () => {
  const errors = [{ field: "size", reason: "it is too large for the pool", allowed: "up to 2 TiB" }];
  await refuse(page, "**/grow", 422, problem(422, "invalid", "size: too large", { errors }));
  await page.getByRole("dialog").getByRole("button", { name: "Grow" }).click();
  await page.getByText("it is too large for the pool; allowed: up to 2 TiB").waitFor();
  const field = page.getByRole("textbox", { name: "New size" });
  assert.equal(await field.getAttribute("aria-invalid"), "true");
  await inspect(page, "form-422");
});

test("a request that got no answer is done once, however often it is sent", async () => {
  const keys = [];
  let answered = 0;
  await page.route("**/grow", async (route) => {
    keys.push(route.request().headers()["idempotency-key"]);
    // The service carries out the first request, and its response is lost.
    const answer = await route.fetch();
    answered += 1;
    if (answered === 1) await route.abort("connectionreset");
    else await route.fulfill({ response: answer });
  });
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: "Grow" }).click();
  await dialog.getByText("The appliance does not answer").waitFor();
  await dialog.getByRole("button", { name: "Grow" }).click();
  await dialog.waitFor({ state: "detached" });
  await page.unroute("**/grow");
  assert.equal(keys.length, 2);
  assert.equal(keys[0], keys[1]);
  await page.getByText("Grow datastore: done").waitFor();
});

test("a running job can be cancelled, and a viewer learns why not", async () => {
  const [job] = (await apiOf(page).request("GET", "/jobs")).items;
  await page.route(`**/api/v1/jobs/${job.id}`, (route) => route.fulfill({ json: { ...job, state: "running", ended_at: null } }));
  await page.goto(`/jobs/${job.id}`);
  const cancel = page.getByRole("button", { name: "Cancel" });
  // The job ended long ago: the service reports that.
  await cancel.click();
  await page.getByText("Refused in the present state").waitFor();
  await page.getByRole("button", { name: "Abandon" }).click();
  await inspect(page, "job-abandon");
  const abandon = page.getByRole("dialog").getByRole("button", { name: "Abandon" });
  await abandon.click();
  await page.getByRole("dialog").getByText("Only a running job can be abandoned").waitFor();
  await page.unroute(`**/api/v1/jobs/${job.id}`);
});

test("a screen without data says so, and retries", async () => {
  await refuse(page, STORES, 500, problem(500, "internal", "no"), 1);
  await page.goto("/datastores");
  await page.getByText("Internal error of the appliance").waitFor();
  await inspect(page, "screen-500");
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByRole("link", { name: "vmfs1" }).waitFor();
});

test("a lost connection is reported, known data stays, and everything returns without a click", async () => {
  await page.context().setOffline(true);
  await page.getByText("No connection to the appliance.").waitFor();
  assert.ok(await page.getByRole("link", { name: "vmfs1" }).isVisible());
  await inspect(page, "lost-connection");
  await page.context().setOffline(false);
  await page.getByText("No connection to the appliance.").waitFor({ state: "detached" });
});

test("an ended session shows the login over the page, and typed input stays", async () => {
  // The size is 3 TiB since the change above.
  await page.getByRole("link", { name: "vmfs1" }).click();
  await openGrow("4 TiB");
  await page.context().clearCookies();
  await page.getByRole("dialog").getByRole("button", { name: "Grow" }).click();
  await page.getByRole("heading", { name: "Your session has ended" }).waitFor();
  await inspect(page, "session-ended");
  await page.getByRole("textbox", { name: "Password" }).fill(PASSWORD);
  await page.getByRole("button", { name: "Log in again" }).click();
  await page.getByRole("heading", { name: "Your session has ended" }).waitFor({ state: "detached" });
  assert.equal(await page.getByRole("textbox", { name: "New size" }).inputValue(), "4 TiB");
  await closePage(page);
});
