// SPDX-License-Identifier: Apache-2.0
// @vitest-environment jsdom
/** The end of recovery mode: a pool's copy replaces the configuration after a preview, the database stays without one. */

import { service } from "./border";
import { cleanup } from "@testing-library/react";
import { afterEach, expect, it } from "vitest";
import { text } from "../../src/text";
import { open } from "./opened";
import { fill, press, toPress, until } from "./page";
import { recovery } from "./world";

const words = text.system.recovery;
const { preview } = text.system.configuration;
const copies = [...recovery.copies, { ...recovery.copies[0], pool: "vault" }];
const RESPONSES = { "/recovery": { ...recovery, active: true, suggested: "tank", copies } };
const ANSWER = { status: 200, body: { changes: ["host esx9: added"] } };

afterEach(cleanup);

it("previews each copy before it replaces the configuration", async () => {
  const { user, scope } = await open("/system", [words.decide], RESPONSES);
  service.answers = [ANSWER];
  await press(user, [preview], scope);
  await until("no changes", () => scope.textContent.includes("host esx9: added"));
  await fill(user, scope, words.source, words.fromPool("vault"));
  expect(toPress(words.decideSubmit, scope)).toBeNull();
  expect(scope.textContent).not.toContain("host esx9: added");
  service.answers = [ANSWER, ANSWER];
  await press(user, [preview], scope);
  await press(user, [words.decideSubmit], scope);
  await until("the dialog stays", () => !scope.isConnected);
  const sent = (from_pool: string, dry_run: boolean) => ({ from_pool, keep: false, recovery_key: null, dry_run, force: false });
  expect(service.sent.map(({ body }) => body)).toEqual([sent("tank", true), sent("vault", true), sent("vault", false)]);
});

it("keeps the database at once", async () => {
  const { user, scope } = await open("/system", [words.decide], RESPONSES);
  await fill(user, scope, words.source, words.keep(recovery.generation));
  service.answers = [ANSWER];
  await press(user, [words.decideSubmit], scope);
  await until("the dialog stays", () => !scope.isConnected);
  const body = { from_pool: null, keep: true, recovery_key: null, dry_run: false, force: false };
  expect(service.sent.map((request) => request.body)).toEqual([body]);
});
