// SPDX-License-Identifier: Apache-2.0
// @vitest-environment jsdom
/** Offloads that can be disabled for a host group. */

import { cleanup } from "@testing-library/react";
import { afterEach, expect, it } from "vitest";
import { open } from "./opened";

afterEach(cleanup);

it.each([["New group"], ["Actions for lab", "Change"]])("offers all but ATS, the lock of VMFS: %s", async (...names) => {
  const { scope } = await open("/hosts?show=groups", names);
  const boxes = [...scope.querySelectorAll<HTMLInputElement>("input[type=checkbox]")];
  expect(boxes.map((box) => box.labels?.[0]?.textContent)).toEqual(["XCOPY", "WRITE SAME", "UNMAP", "ODX"]);
});
