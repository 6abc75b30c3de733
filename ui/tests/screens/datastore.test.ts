// SPDX-License-Identifier: Apache-2.0
// @vitest-environment jsdom
/** A datastore as its page shows it: whether it is served, and its space. */

import { show, panel } from "./show";
import { cleanup } from "@testing-library/react";
import { afterEach, expect, it } from "vitest";
import { text } from "../../src/text";
import { ID, page, world } from "../forms/world";

afterEach(cleanup);

const GIB = 2 ** 30;
const words = text.datastores;
const of = (id: string, more: object) => ({ [`/datastores/${id}`]: { ...(world[`/datastores/${id}`] as object), ...more } });
const check = (id: string, subject: string, result: string) => ({
  "/readiness": {
    ...(world["/readiness"] as object),
    checks: [{ id, title: "", result, evidence: "no device", remedy: "", subject }],
  },
});
const label = () => document.querySelector("main .zv-lead .pf-v6-c-label");

it.each([
  ["served", ID.vmfs],
  ["exported", ID.nfs],
])("is not served if the check %s failed", async (id, store) => {
  await show(`/datastores/${store}/overview`, check(id, store, "failed"));
  expect(label()?.textContent).toBe(words.detail.summary.notServed);
  expect(label()?.getAttribute("title")).toBe("No device");
});

it("is active while nothing is known of it", async () => {
  await show(`/datastores/${ID.vmfs}/overview`, check("served", ID.vmfs, "unknown"));
  expect(label()?.textContent).toBe(words.state.active);
  cleanup();
  await show(`/datastores/${ID.vmfs}/overview`, {}, ["/readiness"]);
  expect(label()?.textContent).toBe(words.state.active);
});

it("has the free space of a thick NFS datastore from the NFS server, and an alert's colour by its own threshold", async () => {
  await show(`/datastores/${ID.nfs}/overview`);
  expect(panel(words.detail.summary.title)).toContain(`${words.detail.summary.free}24 GiB`);
  cleanup();
  const bar = () => document.querySelector("main .pf-v6-c-progress")?.className;
  const full = { referenced: String(1000 * GIB), size: String(1024 * GIB) };
  await show(`/datastores/${ID.vmfs}/overview`, of(ID.vmfs, full));
  expect(bar()).not.toMatch(/pf-m-(danger|warning)/);
  cleanup();
  await show(`/datastores/${ID.vmfs}/overview`, of(ID.vmfs, { ...full, soft_threshold: 95 }));
  expect(bar()).toContain("pf-m-warning");
});

it("has no alerts of the whole appliance while it is missing", async () => {
  const { items } = world["/alerts"] as { items: [object] };
  await show(`/datastores/${ID.missing}/events`, { "/alerts": page({ ...items[0], subject: "" }) });
  expect(panel(words.detail.events.alerts)).toContain(words.detail.events.noAlerts);
});
