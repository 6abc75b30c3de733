// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { waysOf } from "./file-clone";

const sizes = { cloned_bytes: "0", copied_bytes: "0", hole_bytes: "0", copied_because: {} };

describe("how the bytes of a file's clone went", () => {
  test("zero values are left out", () => {
    expect(waysOf({ result: { ...sizes, cloned_bytes: String(2 ** 30) } })).toBe("1 GiB shared");
    expect(waysOf({ result: sizes })).toBe("The file is empty");
  });

  test("what was copied says why, in words where there are some", () => {
    const result = { ...sizes, cloned_bytes: "1024", copied_bytes: "2048", hole_bytes: "4096" };
    const because = { source_dirty: "1024", other: "1024" };
    expect(waysOf({ result: { ...result, copied_because: because } })).toBe(
      "1 KiB shared, 2 KiB copied (The source was written seconds before; other), 4 KiB holes",
    );
  });
});
