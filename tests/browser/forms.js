// SPDX-License-Identifier: Apache-2.0
// Failures of forms. A story fills a form in and calls `survive` before it submits the form. The responses are made here, so that the
// service gets no request, and nothing is reloaded in between. ui/tests/forms does the same for every form without a browser;
// `make test-long` also does it in the browser.
import assert from "node:assert/strict";
import { appendFileSync } from "node:fs";
import { problem } from "./harness.js";

const UNKNOWN = "The request may have been carried out.";
const NOTHING = "Nothing was changed.";
/** Response, and the texts that the form then shows. The session's end comes last, because the story logs in again. */
const FAILURES = [
  { status: 0, shown: ["The appliance does not answer", UNKNOWN] },
  { status: 409, shown: ["Refused in the present state", NOTHING, "what is in the way of it"] },
  { status: 422, shown: ["Some values are invalid", NOTHING, "a reason of the service"] },
  { status: 500, shown: ["Internal error of the appliance", UNKNOWN] },
  { status: 401, shown: ["Your session has ended", NOTHING, "Your input is still here"] },
];
const EVERYTHING = "**/api/v1/**";
const LONG = process.env.ZVAAI_LONG === "1";
const LONGEST_MS = 180_000;

function answerOf(status) {
  const more = { 409: { blocking: ["what is in the way of it"] }, 422: { errors: [{ field: "nowhere", reason: "a reason of the service" }] } };
  const detail = status === 500 ? 'Traceback (most recent call last): File "secret.py"' : "refused";
  return { status, contentType: "application/problem+json", body: JSON.stringify(problem(status, "refused", detail, more[status])) };
}

/**
 * Submits the filled-in form `name` against each failure. The form must report it, keep the input, and send one request per click. After an
 * unknown outcome it repeats the same request. A last submit succeeds, as the story then shows.
 * `name` is the folder below ui/src/screens and the component. `scope` has the fields. `button` submits, or opens a menu with `item`.
 * `session`: the form needs a login. `changes`: the form reports whether something changed.
 */
export async function survive(page, name, button, { scope = page.getByRole("dialog"), item = null, session = true, changes = true } = {}) {
  if (!LONG) return;
  const failures = FAILURES.filter(({ status }) => session || status !== 401).map(({ status, shown }) => ({
    status,
    shown: shown.filter((said) => changes || ![UNKNOWN, NOTHING].includes(said)),
  }));
  const whose = await (await page.context().request.get("/api/v1/session")).text();
  const left = failures.map(({ status }) => status);
  const keys = [];
  let ended = false;
  async function answer(route) {
    const request = route.request();
    const isSession = new URL(request.url()).pathname === "/api/v1/session";
    // After its end the session is not readable either.
    if (request.method() === "GET") return ended && isSession ? route.fulfill(answerOf(401)) : route.fallback();
    if (ended && isSession) {
      ended = false;
      return route.fulfill({ status: 201, contentType: "application/json", body: whose });
    }
    const status = left.shift();
    keys.push(request.headers()["idempotency-key"]);
    if (status === 0 || status === undefined) return route.abort("connectionreset");
    ended = status === 401;
    return route.fulfill(answerOf(status));
  }
  // After a login the page reconnects to the events; until then the end of a job appears some seconds late.
  const listening = session ? page.waitForResponse((response) => new URL(response.url()).pathname === "/api/v1/events", { timeout: 5 * LONGEST_MS }) : null;
  listening?.catch(() => undefined); // in case `survive` fails before
  await page.route(EVERYTHING, answer);
  try {
    const reported = await button.evaluate(walk, { failures, item, scope: await scope.elementHandle(), longest: LONGEST_MS });
    assert.deepEqual(reported, [], name);
    await listening;
  } finally {
    await page.unroute(EVERYTHING, answer);
  }
  assert.equal(keys.length, failures.length, `${name}: sent once each time`);
  if (keys[0] !== undefined) {
    // After a lost connection and a 500; after a refusal the request is a new one.
    const [lost, conflict, invalid, fault, again] = keys;
    assert.deepEqual([lost === conflict, conflict === invalid, invalid === fault, fault === again], [true, false, false, true], `${name}: ${keys}`);
  }
  if (process.env.ZVAAI_FORMS_WALKED) appendFileSync(process.env.ZVAAI_FORMS_WALKED, `${name}\n`);
}

/** Runs in the page, which is faster than a call for each check: returns what is wrong. */
async function walk(button, { failures, item, scope, longest }) {
  const wrong = [];
  const typed = () =>
    JSON.stringify([...scope.querySelectorAll("input,textarea,select")].map((field) => [field.id, field.type === "file" ? "" : field.value, field.checked]));
  const said = () => scope.querySelector(".zv-problem")?.textContent ?? "";
  async function until(what, condition) {
    const last = performance.now() + longest;
    while (!condition()) {
      if (performance.now() > last) throw new Error(`${what}; it says: ${said()}`);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }
  const chosen = () => [...document.querySelectorAll("[role=menuitem]")].find((entry) => entry.textContent === item);
  const setValue = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set;
  await until("it can't be sent", () => !button.disabled);
  const before = typed();
  for (const { status, shown } of failures) {
    button.click();
    if (item !== null) {
      await until("it is not in the menu", () => chosen() !== undefined);
      chosen().click();
    }
    await until(`${status} is not reported`, () => shown.every((text) => said().includes(text)) && !button.disabled);
    if (typed() !== before) wrong.push(`${status}: what was typed is lost: ${before} is ${typed()}`);
    if (document.body.textContent.includes("Traceback")) wrong.push(`${status}: what the service said of its fault is shown`);
    if (status === 401) {
      const again = () => document.querySelector("#login-again-dialog input[type=password]");
      await until("the login does not appear", () => again() !== null);
      await until("nobody can log in again", () => {
        const field = again();
        if (field?.value === "a password") return !field.form.querySelector("button[type=submit]").disabled;
        if (field !== null) setValue.call(field, "a password");
        field?.dispatchEvent(new Event("input", { bubbles: true }));
        return false;
      });
      again().form.requestSubmit();
      await until("the login stays", () => again() === null);
      if (typed() !== before) wrong.push(`what was typed is lost by logging in again: ${before} is ${typed()}`);
    }
  }
  return wrong;
}
