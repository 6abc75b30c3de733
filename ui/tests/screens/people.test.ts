// SPDX-License-Identifier: Apache-2.0
// @vitest-environment jsdom
/** Logins: the page after one, two-factor login that cannot be read, settings that another user has changed. */

import { show } from "./show";
import { cleanup, render } from "@testing-library/react";
import { createElement } from "react";
import { afterEach, expect, it } from "vitest";
import { App, newCache } from "../../src/app";
import { text } from "../../src/text";
import { beginService, service } from "../forms/border";
import { open } from "../forms/opened";
import { dialog, fill, isReady, newUser, press, problemIn, until } from "../forms/page";
import { problemBody } from "../forms/problems";
import { world } from "../forms/world";

afterEach(cleanup);

it("leads to the address that was opened, with its query and hash", async () => {
  beginService({ out: true });
  window.history.replaceState(null, "", "/pools?show=disks#one");
  render(createElement(App, { client: newCache() }));
  const user = newUser();
  const main = await until("no login", () => document.querySelector("main"));
  await fill(user, main, text.session.login.name, "admin");
  await fill(user, main, text.session.login.password, "a password");
  await press(user, [text.session.login.submit], main);
  const { location } = window;
  await until("no page", () => `${location.pathname}${location.search}${location.hash}` === "/pools?show=disks#one");
});

it("says that two-factor login cannot be read", async () => {
  await show("/users", {}, ["/session/totp"]);
  const user = newUser();
  await press(user, [text.common.user.menu("admin"), text.common.user.totp]);
  const scope = await until("no dialog", dialog);
  expect(problemIn(scope)).toContain(text.problems.unavailable.title);
  await press(user, [text.common.close], scope);
  await until("the dialog stays", () => dialog() === null);
});

const PEM = "-----BEGIN CERTIFICATE-----\nthe end of a new one\n-----END CERTIFICATE-----";
const { directory, oidc } = text.people;

it.each([
  ["directory", directory, { start_tls: false, certificate: PEM }, [directory.startTls, directory.certificate]],
  ["oidc", oidc, { scopes: ["groups"], certificate: PEM }, [oidc.scopes, oidc.certificate]],
] as const)("shows each setting of %s that another user has changed", async (name, words, changed, labels) => {
  const path = `/settings/${name}`;
  const { user, scope } = await open("/users", [words.menu, words.unset]);
  await until("it can't be sent", () => isReady(words.unsetSubmit, scope));
  service.responses = { [path]: { ...(world[path] as object), ...changed } };
  service.answers = [{ status: 412, body: problemBody(412) }];
  await press(user, [words.unsetSubmit], scope);
  await until("no news", () => problemIn(scope).includes(text.problems.nowIs));
  for (const label of labels) expect(problemIn(scope)).toContain(label);
  expect(problemIn(scope)).toContain("dofanewone");
});
