// SPDX-License-Identifier: Apache-2.0
// @vitest-environment jsdom
/** Clients belong to NFS datastores only, in the dialogs of both kinds. A host group can be deleted while a dialog is open. */

import { service } from "./border";
import { cleanup } from "@testing-library/react";
import { afterEach, expect, it } from "vitest";
import { open } from "./opened";
import { field, fill, isDisabled, press, toPress, until } from "./page";
import { ID, page } from "./world";

const CLIENTS = "More clients";
const FILES = { dataset: "tank/files", used: "4096", guid: "41", datastore: null };
const RESPONSES = { "/volumes": page(), "/filesystems": page(FILES) };

afterEach(cleanup);

it("clones a VMFS datastore without clients", async () => {
  const { user, scope } = await open(`/datastores/${ID.vmfs}/overview`, ["Actions", "Clone"]);
  await fill(user, scope, "Name of the clone", "copy");
  expect(field(CLIENTS, scope)).toBeNull();
  await press(user, ["Clone"], scope);
  await until("the dialog stays", () => !scope.isConnected);
  expect(service.sent.map(({ body }) => body)).toEqual([{ name: "copy", snapshot: null, host_groups: [] }]);
});

it.each([
  ["192.0.2.17, 0.0.0.0/0", { identity: "new", host_groups: [], clients: ["192.0.2.17", "0.0.0.0/0"], anyone: true }],
  ["", { identity: "keep" }],
])("adopts a file system for clients %j", async (clients, sent) => {
  const { user, scope } = await open("/datastores", ["Adopt"], RESPONSES);
  expect(field(CLIENTS, scope), "before a choice").toBeNull();
  await until("nothing to choose", () => scope.querySelector(`option[value="${FILES.dataset}"]`));
  await fill(user, scope, "Volume or file system", FILES.dataset);
  await fill(user, scope, "Name of the datastore", "nfs2");
  await fill(user, scope, CLIENTS, "esx1.example");
  const send = await until("no button", () => toPress("Adopt", scope));
  expect(isDisabled(send), "with a name for an address").toBe(true);
  await user.clear(field(CLIENTS, scope) as HTMLInputElement);
  if (clients !== "") {
    await fill(user, scope, CLIENTS, clients);
    await fill(user, scope, "Any host that reaches the server can mount it", true);
  }
  if (sent.identity === "keep") await fill(user, scope, "Retain its identity", true);
  await press(user, ["Adopt"], scope);
  await until("the dialog stays", () => !scope.isConnected);
  expect(service.sent.map(({ body }) => body)).toEqual([{ dataset: FILES.dataset, name: "nfs2", force: false, ...sent }]);
});

it("clones for the host groups that exist, after the user has cleared one that was deleted", async () => {
  const { user, scope, client } = await open(`/datastores/${ID.vmfs}/overview`, ["Actions", "Clone"]);
  await fill(user, scope, "Name of the clone", "copy");
  await fill(user, scope, "lab", true);
  service.responses = { "/host-groups": page() };
  await client.invalidateQueries();
  await until("it does not say so", () => scope.textContent.includes("This host group no longer exists."));
  await fill(user, scope, ID.group, false);
  await press(user, ["Clone"], scope);
  await until("the dialog stays", () => !scope.isConnected);
  expect(service.sent.map(({ body }) => body)).toEqual([{ name: "copy", snapshot: null, host_groups: [] }]);
});
