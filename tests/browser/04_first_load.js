// SPDX-License-Identifier: Apache-2.0
// The first load: size, depth of requests; the measurements themselves; a thousand datastores.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import {
  apiOf,
  closePage,
  ensureAdmin,
  ensureDatastore,
  logIn,
  inspect,
  openBrowser,
  openPage,
  PASSWORD,
  typeLogin,
  URL_,
} from "./harness.js";

const LARGEST_BYTES = 500_000;
const DEEPEST = 2;
/** transferSize of a response without a body (Resource Timing 4.4): the browser has the file. */
const HEADERS_BYTES = 300;
/** In the page at a time, of a list of any length. */
const MOST_ROWS = 60;

/** Starts to weigh what a page loads. The function that it returns ends that, and returns the bytes as sent. */
function weighing(page) {
  const sizes = [];
  const weigh = (request) => sizes.push(request.sizes().then(({ responseBodySize }) => responseBodySize));
  page.on("requestfinished", weigh);
  return async () => {
    page.off("requestfinished", weigh); // a request that ends while the page closes has no size
    return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
  };
}

let browser;
before(async () => void (browser = await openBrowser()));
after(() => browser.close());

test("a first load transfers less than 500 kB, and no request of the API waits for more than one other", async () => {
  const page = await openPage(browser);
  await ensureAdmin(page);
  const weigh = weighing(page);
  await typeLogin(page);
  await page.getByText("Throughput and latency").waitFor();
  const bytes = await weigh();
  assert.ok(bytes < LARGEST_BYTES, `${bytes} bytes`);
  // A request that has not ended has no protocol yet.
  const protocols = await page.evaluate(() =>
    performance
      .getEntriesByType("resource")
      .map((entry) => entry.nextHopProtocol)
      .filter(Boolean),
  );
  assert.deepEqual([...new Set(protocols)], ["h2"]);

  // A request belongs to the next wave if it starts after the end of another one and reads something else. The stream of events, which
  // no part of the page waits for, starts when the tab gets the browser lock.
  const waves = new Map();
  page.on("request", (request) => {
    const url = new URL(request.url()).pathname;
    if (!url.startsWith("/api/v1/") || url === "/api/v1/events" || [...waves.values()].some((wave) => wave.url === url)) return;
    const ended = [...waves.values()].filter((wave) => wave.ended).map((wave) => wave.depth);
    waves.set(request, { url, depth: 1 + Math.max(0, ...ended), ended: false });
  });
  page.on("requestfinished", (request) => waves.has(request) && (waves.get(request).ended = true));
  await page.reload();
  await page.getByText("Offloads").first().waitFor();
  await page.getByText("Provisioned").first().waitFor();
  const report = JSON.stringify([...waves.values()]);
  const deepest = Math.max(...[...waves.values()].map((wave) => wave.depth));
  assert.ok(waves.size > 4, "the dashboard sends several requests");
  assert.ok(deepest <= DEEPEST, report);
  await closePage(page);
});

test("a first load in German is below 500 kB, too", async () => {
  const page = await openPage(browser, { locale: "de-DE" });
  await ensureAdmin(page);
  const weigh = weighing(page);
  await page.goto("/login");
  await page.getByLabel("Benutzername").fill("admin");
  await page.getByRole("textbox", { name: "Passwort", exact: true }).fill(PASSWORD);
  await page.getByRole("button", { name: "Anmelden" }).click();
  await page.getByText("Durchsatz und Latenz").waitFor();
  const bytes = await weigh();
  assert.ok(bytes < LARGEST_BYTES, `${bytes} bytes`);
  await closePage(page);
});

test("files of the console are transferred once", async () => {
  const page = await openPage(browser);
  await logIn(page, { path: "/datastores" });
  await page.getByRole("link", { name: "New datastore" }).waitFor();
  await page.goto("/datastores");
  await page.getByRole("link", { name: "New datastore" }).waitFor();
  const files = await page.evaluate(() =>
    performance
      .getEntriesByType("resource")
      .map(({ name, transferSize }) => [name, transferSize])
      .filter(([name]) => !name.includes("/api/")),
  );
  assert.ok(files.length > 0);
  assert.deepEqual(
    files.filter(([, bytes]) => bytes > HEADERS_BYTES),
    [],
  );
  await closePage(page);
});

test("the types of the console are those of the service", async () => {
  const page = await openPage(browser);
  const served = await (await page.context().request.get("/api/v1/openapi.json")).json();
  const { readFileSync } = await import("node:fs");
  const built = JSON.parse(readFileSync(`${process.env.ZVAAI_CONSOLE_MODULES}/openapi.json`, "utf8"));
  assert.deepEqual(served, built);
  await closePage(page);
});

test("a violation of the Content-Security-Policy and a request to elsewhere would be seen", async () => {
  const page = await openPage(browser);
  await page.goto("/login");
  await page.evaluate(() => {
    const script = document.createElement("style");
    script.textContent = "body { color: red }";
    document.head.append(script);
    void fetch("https://example.invalid/").catch(() => undefined);
  });
  const seen = () => ["style-src", "connect-src"].every((directive) => page.faults.some((fault) => fault.includes(directive)));
  const until = Date.now() + 30_000;
  while (!seen() && Date.now() < until) await new Promise((resolve) => setTimeout(resolve, 20));
  assert.ok(seen(), JSON.stringify(page.faults));
  await page.context().close();
});

test("a thousand datastores are searched and scrolled", async () => {
  const page = await openPage(browser);
  await logIn(page);
  await ensureDatastore(page);
  const [template] = (await apiOf(page).request("GET", "/datastores")).items;
  const many = Array.from({ length: 1000 }, (_, index) => {
    const identity = { id: `store-${index}`, name: `store ${index}`, dataset: `tank/zvaai/store-${index}`, lun: index };
    return { ...template, ...identity };
  });
  await page.route(`${URL_}/api/v1/datastores?*`, (route) => {
    const second = new URL(route.request().url()).searchParams.has("cursor");
    return route.fulfill({ json: { items: second ? many.slice(500) : many.slice(0, 500), next_cursor: second ? null : "x" } });
  });
  await page.goto("/datastores");
  await page.getByText("1000 datastores").waitFor();
  // Rows in sight are made, and no others: neither of the list's other parts, nor again of those in sight.
  assert.ok((await page.getByRole("row").count()) < MOST_ROWS);
  const made = await page.evaluate(async () => {
    const added = [];
    const list = document.querySelector(".zv-scrolled");
    const isRow = (node) => node instanceof HTMLTableRowElement;
    new MutationObserver((changes) => {
      added.push(changes.flatMap(({ addedNodes }) => [...addedNodes].filter(isRow)).length);
    }).observe(list, { childList: true, subtree: true });
    for (let step = 0; step < 30; step += 1) {
      list.scrollTop += 500;
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    }
    return added;
  });
  assert.ok(made.length >= 10 && Math.max(...made) < MOST_ROWS, `rows that each step made: ${made}`);
  assert.ok((await page.getByRole("row").count()) < MOST_ROWS);
  // Scroll back: if the head covers a row, axe sees half a link.
  await page.locator(".zv-scrolled").evaluate((list) => list.scrollTo(0, 0));
  await inspect(page, "datastores-thousand");
  await page.getByRole("textbox", { name: "Search by name" }).fill("store 77");
  await page.getByText("19 of 1000 datastores").waitFor();
  await page.reload();
  await page.getByText("19 of 1000 datastores").waitFor();
  await closePage(page);
});
