// SPDX-License-Identifier: Apache-2.0
// @vitest-environment jsdom
import { expect, it } from "vitest";
import { ApiProblem } from "../api/problem";
import { wordsOf } from "./problem-alert";

it("says once how long to wait", () => {
  const problem = new ApiProblem(429, "too_many_requests", "too many failed logins; try again in 30 s", { retry_after: 30 });
  const { body, remedy } = wordsOf(problem);
  expect([body, remedy]).toEqual(["Too many failed logins.", "Try again in 30 s."]);
});
