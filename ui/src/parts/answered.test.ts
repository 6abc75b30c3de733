// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { answerTo, currentProblem } from "./answered";

const A = JSON.stringify({ name: "a" });
const B = JSON.stringify({ name: "b" });

describe("answerTo", () => {
  it("has the answer to the current request", () => {
    expect(answerTo(A, { request: A, answer: ["mirror"] })).toEqual(["mirror"]);
    expect(answerTo(A, null)).toBeNull();
  });

  it("has none that comes late, after something else was chosen", () => {
    expect(answerTo(B, { request: A, answer: ["mirror"] })).toBeNull();
  });
});

describe("currentProblem", () => {
  const forced = { canForce: true };
  const wrong = { canForce: false };

  it("offers to force what was refused", () => {
    expect(currentProblem(forced, A, A)).toBe(forced);
  });

  it("offers it for nothing else", () => {
    expect(currentProblem(forced, A, B)).toBeNull();
  });

  it("leaves other problems where they are until it is sent again", () => {
    expect(currentProblem(wrong, A, B)).toBe(wrong);
    expect(currentProblem(null, A, B)).toBeNull();
  });
});
