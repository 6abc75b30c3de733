// SPDX-License-Identifier: Apache-2.0
// Long tasks of the console on large lists, and its first load on slow lines. tests/bench/console.py starts it with an appliance.
import assert from "node:assert/strict";
import { closePage, logIn, openBrowser, openPage, PASSWORD } from "./harness.js";

/** Of one page, whatever the length of its lists. */
const MOST_ELEMENTS = 6_000;
const MOST_REQUESTS = 24;
const LINES = [
  ["loopback", null],
  ["10 Mbit/s, 40 ms", { latency: 40, downloadThroughput: 1.25e6, uploadThroughput: 1.25e6 }],
  ["4 Mbit/s, 80 ms", { latency: 80, downloadThroughput: 5e5, uploadThroughput: 5e5 }],
  ["1.6 Mbit/s, 150 ms", { latency: 150, downloadThroughput: 2e5, uploadThroughput: 1e5 }],
];
const TIMES = 5;
const ONLY = process.argv[2];

const median = (values) => values.toSorted((first, second) => first - second)[Math.floor(values.length / 2)];
const rounded = (values) => `${Math.round(median(values))} (${Math.round(Math.min(...values))} to ${Math.round(Math.max(...values))})`;

/** A page that records its long tasks. */
async function observedPage(browser) {
  const page = await openPage(browser);
  page.setDefaultTimeout(60_000);
  await page.addInitScript(() => {
    window.longTasks = [];
    new PerformanceObserver((list) => {
      for (const { duration } of list.getEntries()) window.longTasks.push(duration);
    }).observe({ type: "longtask", buffered: true });
  });
  page.requests = 0;
  page.on("request", (request) => void (page.requests += request.url().includes("/api/v1/") ? 1 : 0));
  return page;
}

/** Does `step` and reports the long tasks until the page has been quiet for two frames. */
async function measured(page, name, step) {
  await page.evaluate(() => (window.longTasks = [])).catch(() => undefined);
  page.requests = 0;
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  const processor = async () => {
    const { metrics } = await session.send("Performance.getMetrics");
    return 1000 * metrics.find((metric) => metric.name === "TaskDuration").value;
  };
  const before = await processor();
  await step();
  const tasks = await page.evaluate(async () => {
    await new Promise((done) => requestAnimationFrame(() => requestIdleCallback(done, { timeout: 2_000 })));
    return window.longTasks;
  });
  // The counter restarts with each document.
  const after = await processor();
  const worked = after >= before ? after - before : after;
  await session.detach();
  const elements = await page.evaluate(() => document.querySelectorAll("*").length);
  return { name, worked, tasks, elements, requests: page.requests };
}

async function scroll(page, element, steps) {
  await page.evaluate(
    async ({ selector, count }) => {
      const scrolled = document.querySelector(selector);
      for (let step = 0; step < count; step += 1) {
        scrolled.scrollTop += 100; // a notch of a wheel in each frame
        await new Promise((done) => requestAnimationFrame(done));
      }
    },
    { selector: element, count: steps },
  );
}

async function type(page, name, typed, shown) {
  await page.getByRole("textbox", { name }).pressSequentially(typed);
  await page.getByText(shown).waitFor();
}

/** Two paths of each host, as the target would report them. */
async function addSessions(page) {
  const { items: hosts } = await (await page.context().request.get("/api/v1/hosts?limit=500")).json();
  const at = new Date().toISOString();
  const path = { target: "iqn.2026-11.zvaai:0123456789ab", logged_in_at: at, portal_group: 1, account: null };
  const items = hosts.flatMap(({ iqns }, index) =>
    ["192.0.2", "198.51.100"].map((network) => {
      return { ...path, initiator: iqns[0], peer: `${network}.${index}:5000`, portal: `${network}.250:3260` };
    }),
  );
  await page.route("**/api/v1/sessions?*", (route) => route.fulfill({ json: { items, next_cursor: null } }));
  return hosts.length;
}

/** Each screen and action once. */
async function walk(page, hosts) {
  const heading = (name) => page.getByRole("heading", { name, level: 1 }).waitFor();
  const main = page.getByRole("main");
  const steps = [
    ["datastores: open", async () => {
      await page.goto("/datastores");
      await main.getByText("1000 datastores").waitFor();
    }],
    ["datastores: scroll 100 notches", () => scroll(page, ".zv-scrolled", 100)],
    ["datastores: filter by 4 keys", () => type(page, "Search by name", "0077", "11 of 1000 datastores")],
    ["datastores: clear the filter", async () => {
      await page.getByRole("textbox", { name: "Search by name" }).fill("");
      await main.getByText("1000 datastores", { exact: true }).waitFor();
    }],
    ["datastores: sort by size", () => page.getByRole("button", { name: "Size" }).click()],
    ["datastores: 20 s of refreshes", () => page.waitForTimeout(20_000)],
    ["hosts: open", async () => {
      await page.goto("/hosts");
      await main.getByText(`${hosts} hosts`).waitFor();
    }],
    ["hosts: scroll 100 notches", () => scroll(page, ".pf-v6-c-page__main", 100)],
    ["hosts: filter by 5 keys", () => type(page, "Search by name", "esx07", `10 of ${hosts} hosts`)],
    ["network: open, with all hosts", async () => {
      await page.goto("/network");
      await main.getByText("esx000").waitFor();
    }],
    ["schedules: open", async () => {
      await page.goto("/schedules");
      await heading("Schedules");
    }],
    ["schedules: form with all datastores", async () => {
      await page.getByRole("button", { name: "New schedule" }).click();
      await page.getByRole("dialog").waitFor();
    }],
    ["dashboard: open", async () => {
      await page.goto("/");
      await main.getByText("Provisioned").first().waitFor();
    }],
    ["search: open and type 3 keys", async () => {
      await page.getByRole("button", { name: "Search" }).click();
      await page.getByRole("dialog").getByRole("textbox").pressSequentially("ds0");
      await page.getByText("of 1000").waitFor({ timeout: 5_000 }).catch(() => undefined);
    }],
  ];
  const results = [];
  for (const [name, step] of steps) results.push(await measured(page, name, step));
  return results;
}

const browser = await openBrowser();
const exceeded = [];

async function measureLists() {
  const page = await observedPage(browser);
  await logIn(page);
  const hosts = await addSessions(page);
  await walk(page, hosts); // the first walk also compiles and fills the cache
  const results = await walk(page, hosts);
  console.log(`\n1,000 datastores and ${hosts} hosts, second visit: processor time, tasks of more than 50 ms, elements, requests`);
  console.log("| action | processor, ms | long tasks | longest, ms | elements | requests |\n|---|---|---|---|---|---|");
  for (const { name, worked, tasks, elements, requests } of results) {
    console.log(`| ${name} | ${Math.round(worked)} | ${tasks.length} | ${Math.round(Math.max(0, ...tasks))} | ${elements} | ${requests} |`);
    if (elements > MOST_ELEMENTS) exceeded.push(`${name}: ${elements} elements`);
    if (requests > MOST_REQUESTS) exceeded.push(`${name}: ${requests} requests`);
  }
  await closePage(page);
}

/** A first visit with an empty cache: ms until the skeleton, and until `shown` is. */
async function firstLoad(line, path, shown, prepare) {
  const page = await openPage(browser);
  await prepare(page);
  const session = await page.context().newCDPSession(page);
  await session.send("Network.enable");
  if (line !== null) await session.send("Network.emulateNetworkConditions", { offline: false, ...line });
  await page.goto(path, { waitUntil: "commit" });
  await shown(page).waitFor();
  const figures = await page.evaluate(() => {
    const [paint] = performance.getEntriesByName("first-contentful-paint");
    return { skeleton: paint.startTime, usable: performance.now() };
  });
  await closePage(page);
  return figures;
}

async function measureLoads() {
  console.log(`\nFirst load with an empty cache, median of ${TIMES} (range), ms`);
  console.log("| line | skeleton of the login | login usable | skeleton | dashboard with data |\n|---|---|---|---|---|");
  for (const [name, line] of LINES) {
    const [login, dashboard] = [[], []];
    for (let time = 0; time < TIMES; time += 1) {
      login.push(await firstLoad(line, "/login", (page) => page.getByRole("button", { name: "Log in" }), () => undefined));
      const prepare = async (page) => {
        const data = { name: "admin", password: PASSWORD };
        assert.equal((await page.context().request.post("/api/v1/session", { data })).status(), 201);
      };
      dashboard.push(await firstLoad(line, "/", (page) => page.getByText("Provisioned").first(), prepare));
    }
    const cells = [login, dashboard].flatMap((loads) => [
      rounded(loads.map(({ skeleton }) => skeleton)),
      rounded(loads.map(({ usable }) => usable)),
    ]);
    console.log(`| ${name} | ${cells.join(" | ")} |`);
  }
}

if (ONLY !== "loads") await measureLists();
if (ONLY !== "lists") await measureLoads();
await browser.close();
assert.deepEqual(exceeded, []);
