// SPDX-License-Identifier: Apache-2.0
// @vitest-environment jsdom
/** A reboot into a kernel without OpenZFS would serve nothing. */

import "./border";
import { cleanup } from "@testing-library/react";
import { afterEach, expect, it } from "vitest";
import { text } from "../../src/text";
import { open } from "./opened";
import { power } from "./world";

afterEach(cleanup);

it("is warned of before a reboot", async () => {
  const warning = "Linux 6.12 has no OpenZFS: after a reboot nothing is served";
  const { scope } = await open("/system", [text.maintenance.power.reboot.action], { "/power": { ...power, warning } });
  expect(scope.textContent).toContain(warning);
});
