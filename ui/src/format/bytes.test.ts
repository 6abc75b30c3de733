// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { formatBytes, formatExactBytes, formatRate, formatShare, parseBytes } from "./bytes";

describe("formatBytes", () => {
  it.each([
    ["0", "0 B"],
    ["999", "999 B"],
    ["1000", "0.977 KiB"],
    ["1024", "1 KiB"],
    [1536, "1.5 KiB"],
    [`${1n << 40n}`, "1 TiB"],
    [`${(1n << 40n) * 2n}`, "2 TiB"],
    [`${1023n << 30n}`, "0.999 TiB"],
    [`${(1n << 50n) * 5000n}`, "5,000 PiB"],
  ])("%s is %s", (value, text) => expect(formatBytes(value)).toBe(text));

  it("has all digits on request", () => expect(formatExactBytes(String(1n << 60n))).toBe("1,152,921,504,606,846,976 bytes"));
  it("tells rates", () => expect(formatRate(3 * 1048576)).toBe("3 MiB/s"));
});

describe("parseBytes", () => {
  it.each([
    ["2T", 2n << 40n],
    ["1.5 TiB", 3n << 39n],
    ["1,5tb", 3n << 39n],
    [" 500 GiB ", 500n << 30n],
    ["64m", 64n << 20n],
  ])("%s", (typed, bytes) => expect(parseBytes(typed)).toBe(bytes));

  it.each(["", "12", "GiB", "1e3G", "-1G", "1 GiB x", "1.G", "1,000 GB", "1,000,000 KB"])("refuses %j", (typed) =>
    expect(parseBytes(typed)).toBeNull(),
  );

  it("reads what it writes", () => {
    for (const power of [20n, 30n, 40n, 50n]) {
      for (const amount of [1n, 2n, 12n, 512n]) {
        expect(parseBytes(formatBytes(String(amount << power)))).toBe(amount << power);
      }
    }
  });
});

describe("formatShare", () => {
  it.each([
    [0, 100, "0 %"],
    [1, 1000, "< 1 %"],
    [999, 1000, "> 99 %"],
    [100, 100, "100 %"],
    [150, 100, "150 %"],
    [1, 0, "–"],
  ])("%d of %d", (part, whole, text) => expect(formatShare(part, whole)).toBe(text));
});
