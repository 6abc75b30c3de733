// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { shownOf } from "./choices";

const CHOICES = [
  { id: "1", name: "vmfs1", of: "tank" },
  { id: "2", name: "vmfs2", of: "vault" },
  { id: "3", name: "nfs1", of: "tank" },
];

it.each<[string, string[], string[]]>([
  ["", [], ["1", "2", "3"]],
  ["VMFS", [], ["1", "2"]],
  ["vault", [], ["2"]],
  ["vault", ["3"], ["2", "3"]],
  ["nothing", [], []],
])("shownOf %j with %j chosen", (search, chosen, shown) =>
  expect(shownOf(CHOICES, search, chosen).map(({ id }) => id)).toEqual(shown),
);
