// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { shownWith, type Toast } from "./toast";

function toasts(...given: readonly Omit<Toast, "id">[]): string[] {
  return given
    .reduce<readonly Toast[]>((shown, toast, id) => shownWith(shown, { id, ...toast }), [])
    .map(({ id, title }) => `${id} ${title}`);
}

const done = (title: string) => ({ variant: "success", title }) as const;
const failed = (title: string) => ({ variant: "danger", title }) as const;

describe("shownWith", () => {
  it("has the newest about one thing, or with the same words", () => {
    const begun = { variant: "info", title: "Grow: started", about: "job 1" } as const;
    expect(toasts(begun, { ...done("Grow: done"), about: "job 1" })).toEqual(["1 Grow: done"]);
    expect(toasts(done("olga was changed"), done("olga was changed"))).toEqual(["1 olga was changed"]);
  });
  it("lets the oldest that would go by itself go, and none that somebody has to read", () => {
    expect(toasts(failed("a"), done("b"), done("c"), done("d"))).toEqual(["0 a", "2 c", "3 d"]);
    expect(toasts(failed("a"), failed("b"), failed("c"), failed("d"), done("e"))).toHaveLength(5);
  });
});
