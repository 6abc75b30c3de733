// SPDX-License-Identifier: Apache-2.0
// @vitest-environment jsdom
/** Several snapshots are deleted by one request. A rollback destroys only the snapshots that its dialog shows. */

import { beginService, service } from "./border";
import type { QueryClient } from "@tanstack/react-query";
import { cleanup, render } from "@testing-library/react";
import { createElement } from "react";
import { afterEach, expect, it } from "vitest";
import { App, newCache } from "../../src/app";
import { dialog, field, fill, isDisabled, newUser, press, toPress, until } from "./page";
import { problemBody } from "./problems";
import { begun, ID, page, session, world } from "./world";

const PATH = `/datastores/${ID.vmfs}/snapshots`;
const [template] = (world[PATH] as ReturnType<typeof page>).items as [object];
const snapshots = page(
  ...["one", "two", "held", "cloned"].map((name) => ({
    ...{ ...template, name, guid: name, full_name: `tank/zvaai/vmfs1@${name}` },
    ...{ holds: name === "held" ? 1 : 0, clones: name === "cloned" ? ["tank/zvaai/copy"] : [] },
  })),
);

function open(role: string): QueryClient {
  const responses = { [PATH]: snapshots, [`${PATH}/held/holds`]: page(), "/session": { ...session, role } };
  beginService({ responses });
  window.history.replaceState(null, "", PATH);
  const client = newCache();
  render(createElement(App, { client }));
  return client;
}

afterEach(cleanup);

it("deletes the selected snapshots after the datastore's name is typed", async () => {
  open("admin");
  const user = newUser();
  const idle = await until("no button", () => toPress("Delete selected snapshots"));
  await user.click(idle);
  expect(dialog(), "without a selection").toBeNull();
  for (const name of ["held", "cloned"])
    expect((field(`Select snapshot ${name}`, document.body) as HTMLInputElement).disabled, name).toBe(true);
  await fill(user, document.body, "Select snapshot two", true);
  await until("it does not count one", () => toPress("Delete 1 snapshot"));
  await fill(user, document.body, "Select all snapshots without holds and clones", true);
  await press(user, ["Delete 2 snapshots"]);
  const scope = await until("it does not open", dialog);
  expect(scope.textContent).toContain("Delete 2 snapshots of vmfs1?");
  expect([...scope.querySelectorAll("li")].map((item) => item.textContent)).toEqual(["one", "two"]);
  const send = await until("no button", () => toPress("Delete", scope));
  expect(isDisabled(send)).toBe(true);
  await fill(user, scope, "Type vmfs1 to confirm", "vmfs1");
  service.answers = [
    { status: 409, body: problemBody(409, { blocking: ["two (held: audit)"] }) },
    { status: 202, body: begun },
  ];
  await press(user, ["Delete"], scope);
  await until("it does not say what is in the way", () => scope.textContent.includes("two (held: audit)"));
  await press(user, ["Delete"], scope);
  await until("the dialog stays", () => !scope.isConnected);
  const request = ["POST", `${PATH}/delete`, { names: ["one", "two"] }];
  expect(service.sent.map(({ method, path, body }) => [method, path, body])).toEqual([request, request]);
  await until("the selection stays", () => toPress("Delete selected snapshots"));
});

it("offers the selection to administrators only", async () => {
  open("operator");
  await until("no snapshots", () => toPress("Actions for snapshot one"));
  expect(field("Select snapshot one", document.body)).toBeNull();
  expect(toPress("Delete selected snapshots")).toBeNull();
});

it("does not destroy a snapshot that was taken while the dialog of the rollback was open", async () => {
  const client = open("admin");
  const user = newUser();
  await press(user, ["Actions for snapshot one", "Roll back"]);
  const scope = await until("it does not open", dialog);
  const late = { ...template, name: "late", guid: "late", full_name: "tank/zvaai/vmfs1@late" };
  service.responses = { ...service.responses, [PATH]: page(...snapshots.items, late) };
  await client.invalidateQueries();
  await until("the list stays", () => document.body.textContent.includes("late"));
  const shown = ["two", "held", "cloned"];
  expect([...scope.querySelectorAll("li")].map((item) => item.textContent)).toEqual(shown);
  await fill(user, scope, "Type vmfs1 to confirm", "vmfs1");
  service.answers = [{ status: 202, body: begun }];
  await press(user, ["Roll back"], scope);
  await until("the dialog stays", () => !scope.isConnected);
  expect(service.sent.map(({ body }) => body)).toEqual([{ force: false, destroy: shown }]);
});
