// SPDX-License-Identifier: Apache-2.0
// @vitest-environment jsdom
import { expect, it } from "vitest";
import { NO_TIERS, tierValuesOf, type TierForm } from "./tiers";

it.each<[Partial<TierForm>, boolean]>([
  [{}, true],
  [{ hourly: "1000" }, true],
  [{ hourly: "1001" }, false],
  [{ protect_days: "3650" }, true],
  [{ protect_days: "3651" }, false],
  [{ protect_days: "-1" }, false],
])("%j is within the service's limits: %s", (typed, within) =>
  expect(tierValuesOf({ ...NO_TIERS, ...typed }) !== null).toBe(within),
);
