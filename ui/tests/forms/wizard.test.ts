// SPDX-License-Identifier: Apache-2.0
// @vitest-environment jsdom
/** The wizard for an NFS datastore: the record size that its review shows, and its request. */

import { cleanup, render } from "@testing-library/react";
import { createElement } from "react";
import { afterEach, beforeEach, expect, it } from "vitest";
import { beginService, service } from "./border";
import { App, newCache } from "../../src/app";
import { text } from "../../src/text";
import { fill, newUser, press, until } from "./page";
import { begun, page, pool } from "./world";

const words = text.datastores.wizard;

beforeEach(() => sessionStorage.clear());
afterEach(cleanup);

it.each([
  ["mirror", undefined, "64 KiB", {}],
  ["raidz2", undefined, "128 KiB", {}],
  ["raidz2", "256 KiB", "256 KiB", { record_size: 262144 }],
])("makes a thick one on %s, record size %s: shows %s, sends %j", async (kind, chosen, shown, sent) => {
  beginService({ responses: { "/pools": page({ ...pool, vdevs: pool.vdevs.map((vdev) => ({ ...vdev, kind })) }) } });
  service.answers = [{ status: 202, body: begun }];
  window.history.replaceState(null, "", "/datastores/new");
  render(createElement(App, { client: newCache() }));
  const main = await until("no page", () => document.querySelector("main"));
  const user = newUser();
  await fill(user, main, words.type.nfs.label, true);
  await press(user, ["Next"], main);
  await fill(user, main, words.place.name, "nfs2");
  await press(user, ["Next"], main);
  await fill(user, main, words.size.quota, "1 TiB");
  await fill(user, main, words.size.thick.label, true);
  if (chosen !== undefined) {
    await press(user, ["More settings"], main);
    await fill(user, main, words.size.recordSize, chosen);
  }
  await press(user, ["Next"], main);
  await press(user, ["Next"], main);
  const name = await until("no review", () =>
    [...main.querySelectorAll("dt")].find((term) => term.textContent === words.review.recordsize),
  );
  expect(name.nextElementSibling?.textContent).toBe(shown);
  await press(user, [words.review.submit], main);
  await until("it is not sent", () => service.sent.length === 1);
  const common = { kind: "nfs", name: "nfs2", pool: "tank", size: String(1n << 40n), compression: "lz4", sync: "standard" };
  const rest = { thick: true, encrypted: false, host_groups: [], clients: [], anyone: false };
  expect(service.sent.map(({ body }) => body)).toEqual([{ ...common, ...rest, ...sent }]);
});
