// SPDX-License-Identifier: Apache-2.0
// @vitest-environment jsdom
/** A dialog stays while its request is pending: closed, it would hide a refusal. */

import { service, type Answer } from "./border";
import { cleanup } from "@testing-library/react";
import { afterEach, expect, it } from "vitest";
import { open } from "./opened";
import { dialog, isDisabled, press, problemIn, toPress, until } from "./page";
import { problemBody } from "./problems";

afterEach(cleanup);

it("is not closed by Cancel, X or Escape, and shows the refusal", async () => {
  const { user, scope } = await open("/schedules", ["Actions for hourly", "Pause"]);
  let refuse: (answer: Answer) => void = () => undefined;
  service.answers = [new Promise((resolve) => (refuse = resolve))];
  await press(user, ["Pause"], scope);
  const cancel = toPress("Cancel", scope);
  await until("Cancel can be pressed", () => cancel !== null && isDisabled(cancel));
  await press(user, ["Close"], scope);
  await user.keyboard("{Escape}");
  expect(dialog()).toBe(scope);
  refuse({ status: 409, body: problemBody(409) });
  await until("no refusal", () => problemIn(scope) !== "");
  await press(user, ["Cancel"], scope);
  await until("the dialog stays", () => dialog() === null);
});
