// SPDX-License-Identifier: Apache-2.0
// @vitest-environment jsdom
/** What the service refuses, and would do by force: it is read, ticked, and sent once more. */

import { cleanup, render } from "@testing-library/react";
import { createElement } from "react";
import { afterEach, expect, it } from "vitest";
import { beginService, service } from "./border";
import { App, newCache } from "../../src/app";
import { text } from "../../src/text";
import { open } from "./opened";
import { dialog, fill, isDisabled, isReady, newUser, press, toPress, until } from "./page";
import { problemBody } from "./problems";
import { begun, DISKS, ID, page, session, world } from "./world";

afterEach(cleanup);

it("is forced after a tick only, and names what is in the way", async () => {
  beginService();
  window.history.replaceState(null, "", `/datastores/${ID.vmfs}/snapshots`);
  render(createElement(App, { client: newCache() }));
  const user = newUser();
  await press(user, ["Actions for snapshot before", "Roll back"]);
  const scope = await until("it does not open", dialog);
  await fill(user, scope, "Type vmfs1 to confirm", "vmfs1");
  const send = await until("no button", () => toPress("Roll back", scope));
  await until("it can't be sent", () => !isDisabled(send));
  service.answers = [
    { status: 409, body: problemBody(409, { blocking: ["esx1"], can_force: true }) },
    { status: 202, body: begun },
  ];
  await press(user, ["Roll back"], scope);
  const force = await until("it does not offer force", () => toPress("Continue anyway", scope));
  expect(scope.textContent).toContain("esx1");
  expect(isDisabled(force)).toBe(true);
  const tick = await until("no tick", () => scope.querySelector<HTMLInputElement>("input[type=checkbox]"));
  await user.click(tick);
  await press(user, ["Continue anyway"], scope);
  await until("the dialog stays", () => !scope.isConnected);
  expect(service.sent.map((request) => request.body)).toEqual([
    { force: false, destroy: ["after"] },
    { force: true, destroy: ["after"] },
  ]);
});

it.each([
  ["Rotate CHAP secret", "Set secret", "PUT"],
  ["Remove CHAP secret", "Remove secret", "DELETE"],
] as const)("%s is forced while its host is logged in", async (action, submit, method) => {
  const { user, scope } = await open("/hosts", ["Actions for esx1", action]);
  if (method === "PUT") await fill(user, scope, "Secret", "a secret of a host");
  await until("it can't be sent", () => isReady(submit, scope));
  service.answers = [
    { status: 409, body: problemBody(409, { blocking: ["esx1"], can_force: true }) },
    { status: 200, body: {} },
  ];
  await press(user, [submit], scope);
  await user.click(await until("no tick", () => scope.querySelector<HTMLInputElement>("input[type=checkbox]")));
  await press(user, ["Continue anyway"], scope);
  await until("the dialog stays", () => !scope.isConnected);
  const forces = service.sent.map(({ body, search }) => (method === "PUT" ? (body as { force: boolean }).force : search));
  expect(forces).toEqual(method === "PUT" ? [false, true] : ["?force=false", "?force=true"]);
});

it.each([
  ["Replace", "Replace", text.pools.replace.none],
  ["Attach a disk", "Attach", text.pools.attach.none],
] as const)("%s takes a disk with old content only after a choice, a refusal and a tick", async (action, submit, none) => {
  const { items } = world["/disks"] as { readonly items: readonly { readonly in_use: boolean }[] };
  const disks = items.map((disk) => (disk.in_use ? disk : { ...disk, used_by: "ext4" }));
  const [device = "", , old = ""] = DISKS;
  const { user, scope } = await open("/pools/tank", [`Actions for ${device}`, action], { "/disks": page(...disks) });
  await until("it does not say so", () => scope.textContent.includes(none));
  await fill(user, scope, text.pools.replace.carrying, true);
  const radios = await until("no disk", () => [...scope.querySelectorAll<HTMLInputElement>("input[type=radio]")]);
  expect(radios.map(({ checked }) => checked)).toEqual([false, false]);
  expect(isReady(submit, scope)).toBe(false);
  expect(scope.textContent).toContain(text.pools.replace.content("ext4"));
  await fill(user, scope, old, true);
  await fill(user, scope, text.pools.replace.carrying, false);
  expect([...scope.querySelectorAll<HTMLInputElement>("input[type=radio]")].map(({ checked }) => checked)).toEqual([true]);
  service.answers = [
    { status: 409, body: problemBody(409, { can_force: true }) },
    { status: 202, body: begun },
  ];
  await press(user, [submit], scope);
  await until("it does not offer force", () => toPress("Continue anyway", scope));
  await fill(user, scope, text.datastores.detail.actions.forceHelp, true);
  await press(user, ["Continue anyway"], scope);
  await until("the dialog stays", () => !scope.isConnected);
  expect(service.sent.map(({ body }) => body)).toEqual([false, true].map((force) => ({ device, new_device: old, force })));
});

it.each([
  ["admin", true],
  ["operator", false],
] as const)("is offered to %s for a new device: %s", async (role, offered) => {
  beginService({ responses: { "/session": { ...session, role } } });
  window.history.replaceState(null, "", "/pools/tank");
  render(createElement(App, { client: newCache() }));
  const user = newUser();
  const [device = "", , free = ""] = DISKS;
  await press(user, [`Actions for ${device}`, "Replace"]);
  const scope = await until("it does not open", dialog);
  await fill(user, scope, free, true);
  service.answers = [{ status: 409, body: problemBody(409, { can_force: true }) }];
  await press(user, ["Replace"], scope);
  await until("no problem", () => scope.querySelector(".zv-problem"));
  expect(toPress("Continue anyway", scope) !== null).toBe(offered);
});
