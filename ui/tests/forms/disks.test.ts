// SPDX-License-Identifier: Apache-2.0
// @vitest-environment jsdom
/** Disks: none is free, one is of an imported pool, one leaves the list; a new pool, and the first one; a trim. */

import { cleanup, render } from "@testing-library/react";
import { createElement } from "react";
import { afterEach, expect, it } from "vitest";
import { beginService, service } from "./border";
import { App, newCache } from "../../src/app";
import { text } from "../../src/text";
import { open } from "./opened";
import { fill, isDisabled, newUser, press, toPress, until } from "./page";
import { begun, DISKS, ID, page, pool, world } from "./world";

afterEach(cleanup);

it("says that no disk is free, and lets nobody take a disk of a pool", async () => {
  const { items } = world["/disks"] as { readonly items: readonly { readonly used_by: string | null }[] };
  const used = items.filter((disk) => disk.used_by !== null);
  beginService({ responses: { "/disks": { items: used, next_cursor: null } } });
  window.history.replaceState(null, "", "/pools/-new");
  render(createElement(App, { client: newCache() }));
  const main = await until("no page", () => document.querySelector("main"));
  await until("no sentence", () => main.textContent.includes(text.pools.disks.noneFree));
  await fill(newUser(), main, text.pools.build.carrying, true);
  const name = text.pools.disks.choose(DISKS[0] ?? "");
  const box = await until("no disk", () => main.querySelector<HTMLInputElement>(`input[aria-label="${name}"]`));
  expect(box.disabled).toBe(true);
});

it("creates a pool with the chosen settings, which its dry run does not need", async () => {
  beginService();
  window.history.replaceState(null, "", "/pools/-new");
  render(createElement(App, { client: newCache() }));
  const main = await until("no page", () => document.querySelector("main"));
  const user = newUser();
  const devices = DISKS.slice(2);
  for (const path of devices) await fill(user, main, text.pools.disks.choose(path), true);
  service.answers = [
    { status: 200, body: { layout: ["tank", "  mirror-0"], warnings: [] } },
    { status: 202, body: begun },
  ];
  await press(user, ["Review"], main);
  await until("no dry run", () => main.textContent.includes(text.pools.build.dryRun));
  await press(user, ["More settings"], main);
  await fill(user, main, text.pools.build.ashift, "13");
  await fill(user, main, text.pools.build.autotrim, true);
  await press(user, ["Create pool"], main);
  await until("it is not sent", () => service.sent.length === 2);
  const common = { name: "tank", vdevs: [{ devices, redundancy: "mirror", role: "data" }], force: false };
  expect(service.sent.map(({ path, body }) => [path, body])).toEqual([
    ["/pools/plan", { ...common, extend: false }],
    ["/pools", { ...common, ashift: 13, autotrim: true }],
  ]);
});

it.each([
  ["a new pool", "/pools/-new"],
  ["the first pool", "/first-start"],
  ["more disks", "/pools/tank/extend"],
])("shows the appliance's warnings of %s before the request", async (_what, place) => {
  beginService(place === "/first-start" ? { responses: { "/pools": page() } } : {});
  window.history.replaceState(null, "", place);
  render(createElement(App, { client: newCache() }));
  const main = await until("no page", () => document.querySelector("main"));
  const user = newUser();
  for (const path of DISKS.slice(2)) await fill(user, main, text.pools.disks.choose(path), true);
  const warnings = ["Slow writes: hosts wait.", "No redundancy: all data is lost."];
  service.answers = [{ status: 200, body: { layout: ["tank", "  mirror-0"], warnings } }];
  await press(user, ["Review"], main);
  await until("no dry run", () => main.textContent.includes(text.pools.build.dryRun));
  for (const warning of warnings) expect(main.textContent).toContain(warning);
  expect(service.sent.length).toBe(1);
});

it("does not send a disk that has left the list", async () => {
  const [device = "", , free = ""] = DISKS;
  const { user, client, scope } = await open("/pools/tank", [`Actions for ${device}`, "Replace"]);
  await fill(user, scope, free, true);
  const send = await until("it can't be sent", () => [toPress("Replace", scope)].find((button) => button && !isDisabled(button)));
  const { items } = world["/disks"] as { readonly items: readonly { readonly path: string }[] };
  service.responses = { "/disks": { items: items.filter((disk) => disk.path !== free), next_cursor: null } };
  await client.invalidateQueries();
  await until("it can be sent", () => isDisabled(send));
});

it("does not make a pool of a disk that has left the list", async () => {
  beginService();
  window.history.replaceState(null, "", "/pools/-new");
  const client = newCache();
  render(createElement(App, { client }));
  const main = await until("no page", () => document.querySelector("main"));
  const user = newUser();
  const devices = DISKS.slice(2);
  for (const path of devices) await fill(user, main, text.pools.disks.choose(path), true);
  const send = await until("it can't be sent", () => [toPress("Review", main)].find((button) => button && !isDisabled(button)));
  const { items } = world["/disks"] as { readonly items: readonly { readonly path: string }[] };
  service.responses = { "/disks": { items: items.filter((disk) => disk.path !== devices[0]), next_cursor: null } };
  await client.invalidateQueries();
  await until("it can be sent", () => isDisabled(send));
  expect(main.textContent).toContain(text.pools.build.tooFew(2));
});

it("starts the trim that the user has read about, also if another trim has started meanwhile", async () => {
  const { user, client, scope } = await open("/pools/tank", ["Actions", "Start trim"]);
  service.responses = { "/pools/tank": { ...pool, vdevs: pool.vdevs.map((vdev) => ({ ...vdev, trim: "active" })) } };
  await client.invalidateQueries();
  await press(user, ["Start trim"], scope);
  await until("the dialog stays", () => !scope.isConnected);
  expect(service.sent.map(({ body }) => body)).toEqual([{ action: "start" }]);
});

it.each([
  ["ext4", false],
  ["LVM2_member on /dev/sda5", true],
])("without a free disk, one with %s: its use (%s) decides whether the first pool is offered", async (used, inUse) => {
  const { items } = world["/disks"] as { readonly items: readonly { readonly used_by: string | null }[] };
  const disks = items.map((disk) => ({ ...disk, used_by: disk.used_by ?? used, in_use: disk.used_by !== null || inUse }));
  beginService({ responses: { "/pools": page(), "/disks": page(...disks) } });
  window.history.replaceState(null, "", "/first-start");
  render(createElement(App, { client: newCache() }));
  const main = await until("no page", () => document.querySelector("main"));
  await until("no disks", () => main.textContent.includes(text.pools.disks.noneFree));
  expect(main.textContent.includes(text.session.setup.pool.noDisks.body)).toBe(inUse);
  if (inUse) return;
  const user = newUser();
  await fill(user, main, text.pools.build.carrying, true);
  for (const path of DISKS.slice(2)) await fill(user, main, text.pools.disks.choose(path), true);
  const review = await until("no form", () => toPress("Review", main));
  expect(isDisabled(review)).toBe(false);
});

it("leads from the first pool to the portals; after a failed job the choice is still there", async () => {
  const ends = { [ID.begun]: { ...begun, state: "failed" }, [ID.job]: { ...begun, id: ID.job, state: "succeeded" } };
  beginService({
    responses: { "/pools": page(), ...Object.fromEntries(Object.entries(ends).map(([id, job]) => [`/jobs/${id}`, job])) },
  });
  window.history.replaceState(null, "", "/first-start");
  const client = newCache();
  render(createElement(App, { client }));
  const main = await until("no page", () => document.querySelector("main"));
  const user = newUser();
  const devices = DISKS.slice(2);
  for (const path of devices) await fill(user, main, text.pools.disks.choose(path), true);
  service.answers = [
    { status: 200, body: { layout: ["tank", "  mirror-0"], warnings: [] } },
    { status: 202, body: begun },
    { status: 202, body: { ...begun, id: ID.job } },
  ];
  await press(user, ["Review"], main);
  await press(user, ["Create pool"], main);
  const submit = await until("it does not follow the job", () => service.sent.length === 2 && toPress("Create pool", main));
  await until("it does not end", () => !isDisabled(submit));
  service.responses = { ...service.responses, "/pools": page(pool) };
  await press(user, ["Create pool"], main);
  await until("no portals", () => main.textContent.includes(text.session.setup.portals.title));
  const body = { name: "tank", vdevs: [{ devices, redundancy: "mirror", role: "data" }], force: false };
  const made = ["/pools", { ...body, ashift: 12, autotrim: false }];
  expect(service.sent.map(({ path, body }) => [path, body])).toEqual([["/pools/plan", { ...body, extend: false }], made, made]);
});
