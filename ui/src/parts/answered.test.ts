// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { answerTo, standing } from "./answered";

const A = JSON.stringify({ name: "a" });
const B = JSON.stringify({ name: "b" });

describe("answerTo", () => {
  it("has the answer to what is asked for", () => {
    expect(answerTo(A, { asked: A, answer: ["mirror"] })).toEqual(["mirror"]);
    expect(answerTo(A, null)).toBeNull();
  });

  it("has none that comes late, after something else was chosen", () => {
    expect(answerTo(B, { asked: A, answer: ["mirror"] })).toBeNull();
  });
});

describe("standing", () => {
  const forced = { canForce: true };
  const wrong = { canForce: false };

  it("offers to force what was refused", () => {
    expect(standing(forced, A, A)).toBe(forced);
  });

  it("offers it for nothing else", () => {
    expect(standing(forced, A, B)).toBeNull();
  });

  it("leaves other problems where they are until it is sent again", () => {
    expect(standing(wrong, A, B)).toBe(wrong);
    expect(standing(null, A, B)).toBeNull();
  });
});
