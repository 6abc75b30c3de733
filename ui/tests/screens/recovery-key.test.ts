// SPDX-License-Identifier: Apache-2.0
// @vitest-environment jsdom
/** The recovery key of the first start is shown until its reader closes the dialog, whatever the page learns meanwhile. */

import { cleanup, render } from "@testing-library/react";
import { createElement } from "react";
import { afterEach, expect, it } from "vitest";
import { beginService, service } from "../forms/border";
import { App, newCache } from "../../src/app";
import { setupQuery } from "../../src/api/queries";
import { text } from "../../src/text";
import { dialog, fill, newUser, press, until } from "../forms/page";
import { problemBody } from "../forms/problems";
import { session } from "../forms/world";

afterEach(cleanup);

const KEY = "2SK4-9QWN-RECOVERY";
const words = text.session.setup;

/** The appliance answers the login so. */
async function createAdmin(login: { readonly status: number; readonly body: unknown }) {
  beginService({ out: true, responses: { "/setup": { needed: true } } });
  window.history.replaceState(null, "", "/first-start");
  const client = newCache();
  render(createElement(App, { client }));
  const user = newUser();
  const main = await until("no page", () => document.querySelector("main"));
  const password = "correct horse battery";
  for (const [label, value] of [
    [words.account.code, "0000-0000-0000-0000-0000"],
    [words.account.password, password],
    [words.account.repeat, password],
  ] as const)
    await fill(user, main, label, value);
  service.responses = {};
  service.answers = [{ status: 201, body: { recovery_key: KEY } }, login];
  if (login.status < 400) service.out = false;
  await press(user, [words.account.submit], main);
  await until("no key", () => dialog()?.textContent.includes(KEY));
  await until("it still creates", () => service.answers.length === 0 && client.isFetching() === 0);
  // As when the reader comes back from another window.
  await client.invalidateQueries({ queryKey: setupQuery.queryKey });
  expect(dialog()?.textContent).toContain(KEY);
  await press(user, [text.common.close], dialog() ?? undefined);
  await until("the dialog stays", () => dialog() === null);
  expect(document.body.textContent).not.toContain(KEY);
}

it("is shown over the next step", async () => {
  await createAdmin({ status: 201, body: session });
  await until("no next step", () => document.body.textContent.includes(words.done.title));
});

it("is shown if the login fails", async () => {
  await createAdmin({ status: 500, body: problemBody(500) });
  await until("no login", () => document.body.textContent.includes(text.session.login.title));
});
