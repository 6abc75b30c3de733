// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { failureOf } from "./load-failure";

it.each([
  "TypeError: Failed to fetch dynamically imported module: https://appliance.example/assets/list.js",
  "TypeError: error loading dynamically imported module: https://appliance.example/assets/list.js",
  "TypeError: Importing a module script failed.",
  "Error: Unable to preload CSS for /assets/list.css",
])("a part that cannot be loaded is no fault of the console: %s", (message) => expect(failureOf(message)).toBe("load"));

it("anything else is one", () => expect(failureOf(new TypeError("x is undefined"))).toBe("code"));
