// SPDX-License-Identifier: Apache-2.0
// The network: interfaces as they are, and a host to which jumbo frames do not pass.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { apiOf, closePage, inspect, logIn, openBrowser, openPage } from "./harness.js";

let browser;
let page;
before(async () => {
  browser = await openBrowser();
  page = await openPage(browser);
  await logIn(page);
});
after(() => browser.close());

const port = { kind: "ethernet", state: "up", mac: "52:54:00:00:00:01", mtu: 9000, speed: 25_000, addresses: [], members: [], detail: "" };
const INTERFACES = [
  { ...port, name: "eth0", mtu: 1500, speed: 1_000, addresses: ["192.0.2.1/24", "2001:db8::1/64"] },
  { ...port, name: "eth1" },
  { ...port, name: "eth2", state: "no link", speed: null },
  { ...port, name: "bond0", kind: "bond", detail: "802.3ad", members: ["eth1", "eth2"], speed: 50_000 },
  { ...port, name: "bond0.20", kind: "vlan", detail: "20 of bond0", addresses: ["198.51.100.1/24"], speed: null },
];

test("the server's name and clock are shown, and where the network is changed", async () => {
  await page.getByRole("navigation", { name: "Navigation" }).getByRole("link", { name: "Network" }).click();
  const { hostname } = await apiOf(page).request("GET", "/network");
  await page.getByRole("main").getByText(hostname, { exact: true }).waitFor();
  await page.getByText("the disk image: nmtui").waitFor();
  assert.match(await page.getByRole("link", { name: "Cockpit" }).getAttribute("href"), /:9090/);
});

test("header, login and window title have the appliance's name", async () => {
  const { hostname } = await apiOf(page).request("GET", "/network");
  await page.getByRole("banner").getByText(hostname, { exact: true }).waitFor();
  assert.equal(await page.title(), `Network · ${hostname}`);
  const out = await openPage(browser);
  await out.goto("/login");
  await out.getByText(hostname, { exact: true }).waitFor();
  assert.equal(await out.title(), `Log in · ${hostname}`);
  await closePage(out);
});

test("a ping says which host jumbo frames do not reach, also on a phone", async () => {
  const { id } = await apiOf(page).request("POST", "/hosts", { name: "esx-jumbo", addresses: ["198.51.100.9"] });
  const clock = { synchronized: false, zone: "Europe/Berlin" };
  const network = { hostname: "storage1", dns_servers: ["192.0.2.53"], search_domains: ["example.com"], time: clock, interfaces: INTERFACES };
  await page.route("**/api/v1/network", (route) => route.fulfill({ json: network }));
  const text = "Jumbo frames do not pass between this server and 198.51.100.9: the largest packet that passes is 1500 bytes.";
  const reply = { address: "198.51.100.9", interface: "bond0.20", mtu: 9000, largest: 1500, result: "failed", text };
  await page.reload();
  const row = page.getByRole("row", { name: /^esx-jumbo/ });
  const ping = page.getByRole("button", { name: "Ping esx-jumbo" });
  // Without a network the real answer is a refusal or a failed ping, in words.
  await ping.click();
  await row.getByText(/cannot be reached|No network interface leads|services may not ping/i).waitFor();
  await page.route("**/ping", (route) => route.fulfill({ json: { items: [reply], next_cursor: null } }));
  await ping.click();
  await row.getByText(text).waitFor();
  await page.getByRole("row", { name: /^bond0 Bond 802.3ad of eth1, eth2 Up 50 Gbit\/s 9000/ }).waitFor();
  await page.getByText("Not synchronised").waitFor();
  await inspect(page, "network");
  await page.setViewportSize({ width: 390, height: 844 });
  const wide = () => [...document.querySelectorAll("main *")].filter((element) => element.getBoundingClientRect().right > innerWidth);
  assert.deepEqual(await page.evaluate(`(${wide})().map((one) => one.outerHTML.slice(0, 120))`), []);
  await inspect(page, "network-phone");
  await apiOf(page).request("DELETE", `/hosts/${id}`);
  await closePage(page);
});
