// SPDX-License-Identifier: Apache-2.0
// Shared by the stories: a browser that watches for violations, the API as a script uses it, and screenshots.
// test_console.py starts the appliance and runs the stories with its address.
import assert from "node:assert/strict";
import { createHash, X509Certificate } from "node:crypto";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { afterEach } from "node:test";
import { connect } from "node:tls";

const require = createRequire(`${process.env.ZVAAI_CONSOLE_MODULES}/`);
const { chromium } = require("playwright-core");
const AXE = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

export const URL_ = process.env.ZVAAI_URL;
export const PASSWORD = "correct horse battery";
export const GIB = 2n ** 30n;
const PICTURES = process.env.ZVAAI_PICTURES;
const RULES = { type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] };
/** Rules about colours: the dark theme differs in nothing else. */
const COLOUR_RULES = { type: "rule", values: ["color-contrast", "link-in-text-block"] };
/** Timeout of a screen for what a story waits for. */
export const PATIENCE_MS = 180_000;

const pages = new Set();

afterEach(async (test) => {
  if (test.passed) return;
  for (const page of pages) {
    if (page.isClosed()) pages.delete(page);
    else console.log(`A test failed. ${page.url()} shows:\n${await page.locator("body").innerText()}`);
  }
});

/** The certificate that the appliance serves. */
export async function servedCertificate() {
  const { hostname, port } = new URL(URL_);
  const socket = connect({ host: hostname, port, rejectUnauthorized: false });
  await new Promise((resolve, reject) => socket.once("secureConnect", resolve).once("error", reject));
  const { raw } = socket.getPeerCertificate();
  socket.destroy();
  return new X509Certificate(raw);
}

export async function openBrowser() {
  const key = (await servedCertificate()).publicKey.export({ type: "spki", format: "der" });
  const args = [
    // The tests run as root, where Chromium has no sandbox. Chromium opens only the appliance's pages.
    "--no-sandbox",
    // The certificate is self-signed. If Chromium ignored errors, it would cache nothing and load each page whole.
    `--ignore-certificate-errors-spki-list=${createHash("sha256").update(key).digest("base64")}`,
  ];
  return chromium.launch({ executablePath: "/usr/bin/chromium-headless-shell", args });
}

/**
 * A watched page: `page.faults` are violations of the Content-Security-Policy, script errors, requests to others than `provider`, and
 * console messages other than for responses that a story provokes.
 */
export async function openPage(browser, { dark = false, provider, ...options } = {}) {
  const context = await browser.newContext({
    baseURL: URL_,
    ignoreHTTPSErrors: true, // the certificate is self-signed
    viewport: { width: 1280, height: 1000 },
    colorScheme: dark ? "dark" : "light",
    locale: "en-US",
    timezoneId: "Europe/Berlin",
    reducedMotion: "reduce",
    ...options,
  });
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await context.newPage();
  pages.add(page);
  page.faults = [];
  page.messages = [];
  await page.addInitScript(() => {
    window.addEventListener("securitypolicyviolation", (event) =>
      console.error(`CSP: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}`),
    );
  });
  page.on("pageerror", (error) => page.faults.push(`error: ${error.message}`));
  page.on("console", (message) => {
    page.messages.push(message.text());
    const provoked = /Failed to load resource: (the server responded|net::)/.test(message.text());
    if (["error", "warning"].includes(message.type()) && !provoked) page.faults.push(`console: ${message.text()}`);
  });
  page.on("request", (request) => {
    const { origin, protocol } = new URL(request.url());
    if (![new URL(URL_).origin, provider].includes(origin) && protocol !== "data:") page.faults.push(`request to ${origin}`);
  });
  return page;
}

/** Closes the page; fails with its faults. */
export async function closePage(page) {
  const { faults } = page;
  await page.context().close();
  assert.deepEqual(faults, []);
}

/** Creates the first administrator, unless the story of the first start did. */
export async function ensureAdmin(page) {
  const { request } = page.context();
  if (!(await (await request.get("/api/v1/setup")).json()).needed) return;
  const data = { code: process.env.ZVAAI_SETUP_CODE, name: "admin", password: PASSWORD };
  assert.equal((await request.post("/api/v1/setup", { data })).status(), 201);
}

/** Logs in by the API and opens `path`; `typeLogin` logs in by hand. */
export async function logIn(page, { name = "admin", password = PASSWORD, path = "/" } = {}) {
  await ensureAdmin(page);
  assert.equal((await page.context().request.post("/api/v1/session", { data: { name, password } })).status(), 201);
  await page.goto(path);
  await page.getByRole("heading", { level: 1 }).first().waitFor();
}

export async function typeLogin(page, name = "admin", password = PASSWORD) {
  await ensureAdmin(page);
  await page.goto("/login");
  await page.getByLabel("User name").fill(name);
  await page.getByRole("textbox", { name: "Password", exact: true }).fill(password);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("heading", { name: "Dashboard", level: 1 }).waitFor();
}

/** Fails with axe-core's findings on the page. */
export async function checkAccessible(page, where, rules = RULES) {
  // Through the debugger protocol, because the Content-Security-Policy forbids it in the page.
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(AXE);
  // axe preloads files for rules on media and orientation, which are off.
  const options = { runOnly: rules, resultTypes: ["violations"], preload: false };
  const { violations } = await page.evaluate((chosen) => {
    // An element that fades in has no final colour yet; endless animations continue.
    for (const animation of document.getAnimations())
      if (animation.effect.getComputedTiming().endTime !== Infinity) animation.finish();
    // PatternFly puts a tooltip at the end of the body, outside of the landmarks, while the mouse is on its element and shortly after.
    return window.axe.run({ exclude: [".pf-v6-c-tooltip"] }, chosen);
  }, options);
  const faults = violations.map(
    ({ id, help, nodes }) => `${id}: ${help}: ${nodes.map((node) => node.html.slice(0, 200)).join(" | ")}`,
  );
  assert.deepEqual(faults, [], where);
}

/** Fails with column headers that are cut off or run into the next one. */
async function checkHeaders(page, where) {
  const cut = await page.evaluate(() =>
    [...document.querySelectorAll("thead th, thead th *")]
      .filter(({ clientWidth, scrollWidth }) => clientWidth > 1 && scrollWidth > clientWidth + 1)
      .map(({ textContent }) => textContent),
  );
  assert.deepEqual(cut, [], `${where}: headers`);
}

/** Screens whose colours were checked in the dark theme. */
const darkened = new Set();

/** Key of a screen: path without identifiers, open dialog, and problems shown. */
async function screenOf(page) {
  return page.evaluate(() => {
    const path = location.pathname.replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}|[0-9]+/g, "*");
    const dialog = document.querySelector(".pf-v6-c-modal-box__title")?.textContent ?? null;
    const parts = [".zv-problem", ".pf-v6-c-alert", ".pf-v6-c-empty-state", ".pf-v6-c-form__helper-text .pf-m-error"];
    return [
      path,
      new URLSearchParams(location.search).get("show"),
      dialog,
      ...parts.map((part) => document.querySelector(part) !== null),
    ].join();
  });
}

/** Checks a screen with axe: light, and colours in dark for a new screen. Saves screenshots of both if ZVAAI_PICTURES is set. */
export async function inspect(page, name) {
  const screen = await screenOf(page);
  const schemes = PICTURES || !darkened.has(screen) ? ["light", "dark"] : ["light"];
  darkened.add(screen);
  for (const scheme of schemes) {
    await page.emulateMedia({ colorScheme: scheme });
    await page.waitForFunction(
      (dark) => document.documentElement.classList.contains("pf-v6-theme-dark") === dark,
      scheme === "dark",
    );
    if (PICTURES) {
      mkdirSync(PICTURES, { recursive: true });
      await page.screenshot({ path: join(PICTURES, `${name}-${scheme}.png`), animations: "disabled" });
    }
    await checkHeaders(page, `${name}, ${scheme}`);
    await checkAccessible(page, `${name}, ${scheme}`, scheme === "light" ? RULES : COLOUR_RULES);
  }
  if (schemes.length > 1) await page.emulateMedia({ colorScheme: "light" });
}

/** The API with the session of a page, for setup that is not the subject of a story. */
export function apiOf(page) {
  const { request: http } = page.context();
  let csrf;
  async function send(method, path, body) {
    csrf ??= (await (await http.get("/api/v1/session")).json()).csrf_token;
    const answer = await http.fetch(`/api/v1${path}`, {
      method,
      headers: { "X-CSRF-Token": csrf, ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
      data: body === undefined ? undefined : JSON.stringify(body),
    });
    return { status: answer.status(), body: await answer.json() };
  }
  async function request(method, path, body) {
    const answer = await send(method, path, body);
    assert.ok(answer.status < 300, `${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body;
  }
  async function job(method, path, body) {
    let now = await request(method, path, body);
    const until = Date.now() + PATIENCE_MS;
    while (["queued", "running"].includes(now.state)) {
      assert.ok(Date.now() < until, `the job does not end: ${JSON.stringify(now)}`);
      now = await request("GET", `/jobs/${now.id}`);
    }
    assert.equal(now.state, "succeeded", JSON.stringify(now));
    return now;
  }
  return { send, request, job };
}

/** The API with a separate session, as for another user's browser. */
export async function openSession(browser, name = "admin", password = PASSWORD) {
  const context = await browser.newContext({ baseURL: URL_, ignoreHTTPSErrors: true });
  assert.equal((await context.request.post("/api/v1/session", { data: { name, password } })).status(), 201);
  return apiOf({ context: () => context });
}

/** Creates the datastore `vmfs1`, unless an earlier story did. */
export async function ensureDatastore(page) {
  const { request, job } = apiOf(page);
  if ((await request("GET", "/datastores")).items.length > 0) return;
  await job("POST", "/datastores", { name: "vmfs1", pool: "tank", size: String(2048n * GIB) });
}

/** Answers matching requests with a refusal, `times` times. */
export async function refuse(page, pattern, status, body, times = 1) {
  await page.route(
    pattern,
    (route) => route.fulfill({ status, contentType: "application/problem+json", body: JSON.stringify(body) }),
    { times },
  );
}

export function problem(status, code, detail, more = {}) {
  const base = { type: `urn:zvaai:problem:${code}`, title: "", status, detail, code, errors: [], blocking: [] };
  return { ...base, can_force: false, retry_after: null, ...more };
}
