// SPDX-License-Identifier: Apache-2.0
// @vitest-environment jsdom
/** Names that a form has before the user types one. */

import { service } from "./border";
import { cleanup } from "@testing-library/react";
import { afterEach, expect, it } from "vitest";
import { open } from "./opened";
import { field, fill, press, until } from "./page";
import { AT, ID, page } from "./world";

afterEach(cleanup);

it("names a restored VM after the folder that was chosen last", async () => {
  const folders = page(...["web", "db"].map((name) => ({ name, kind: "folder", size: "0", modified_at: AT })));
  const responses = { [`/datastores/${ID.nfs}/snapshots/before/folder`]: folders };
  const { user, scope } = await open(
    `/datastores/${ID.nfs}/snapshots`,
    ["Actions for snapshot before", "Restore a VM"],
    responses,
  );
  await fill(user, scope, "Folder of the VM", "web");
  expect(field("Name of the restored VM", scope)).toHaveProperty("value", "web-restored");
  await fill(user, scope, "Folder of the VM", "db");
  await press(user, ["Restore VM"], scope);
  await until("the dialog stays", () => !scope.isConnected);
  expect(service.sent.map(({ body }) => body)).toEqual([{ folder: "db", name: "db-restored" }]);
});

it("keeps a typed name of a restored VM", async () => {
  const { user, scope } = await open(`/datastores/${ID.nfs}/snapshots`, ["Actions for snapshot before", "Restore a VM"]);
  await fill(user, scope, "Name of the restored VM", "mine");
  await fill(user, scope, "Folder of the VM", "web");
  expect(field("Name of the restored VM", scope)).toHaveProperty("value", "mine");
});

it("restores a deleted datastore under its own name", async () => {
  const { user, scope } = await open(`/datastores/${ID.gone}/overview`, ["Actions", "Restore"]);
  await until("not its name", () => field("Name", scope)?.getAttribute("value") === "gone1");
  await press(user, ["Restore"], scope);
  await until("the dialog stays", () => !scope.isConnected);
  expect(service.sent.map(({ body }) => body)).toEqual([{ name: null, host_groups: null }]);
});
