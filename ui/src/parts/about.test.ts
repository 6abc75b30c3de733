// SPDX-License-Identifier: Apache-2.0
import { expect, it, vi } from "vitest";
import { partsOf } from "./about";

// The tests run without a page, so the service has an address here.
vi.hoisted(() => vi.stubGlobal("window", { location: { origin: "https://appliance.example" } }));

const ID = "5366e1bc-0a39-4f87-bac7-2ff14b83a99f";

it.each([
  [ID, [ID, ""]],
  [`${ID}/vm/disk-flat.vmdk`, [ID, "/vm/disk-flat.vmdk"]],
  [`${ID}@before`, [ID, "@before"]],
  ["pool tank", ["pool tank", ""]],
  ["tank/zvaai/vmfs1", ["tank/zvaai/vmfs1", ""]],
  ["", ["", ""]],
])("partsOf %j", (subject, parts) => expect(partsOf(subject)).toEqual(parts));
