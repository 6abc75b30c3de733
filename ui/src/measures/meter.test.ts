// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { Meter } from "./meter";

function meterOf(...samples: readonly (readonly [at: number, bytes: number])[]): Meter<"bytes"> {
  const meter = new Meter(["bytes"]);
  for (const [at, bytes] of samples) meter.take({ at, counts: { bytes } });
  return meter;
}

describe("Meter", () => {
  it("knows no rate of one sample, or of one that is repeated", () => {
    expect(meterOf().rate("bytes")).toBe(0);
    expect(meterOf([10, 5], [10, 50]).rate("bytes")).toBe(0);
  });
  it("spreads a burst over the last thirty seconds, and has forgotten it then", () => {
    const burst = meterOf([0, 0], [10, 3000], [20, 3000], [30, 3000]);
    expect(burst.rate("bytes")).toBe(100);
    burst.take({ at: 41, counts: { bytes: 3000 } });
    expect(burst.rate("bytes")).toBe(0);
  });
  it("begins anew where what is counted did", () => {
    const meter = meterOf([0, 1000], [2, 10]);
    expect(meter.rate("bytes")).toBe(0);
    meter.take({ at: 4, counts: { bytes: 30 } });
    expect(meter.rate("bytes")).toBe(10);
  });
});
