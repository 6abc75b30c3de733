// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { csvOf } from "./csv";

it("quotes what separates cells, and disarms formulas", () => {
  const rows = [
    ["vmfs1", "2199023255552", 1, null],
    ['a "b", c', "=HYPERLINK(1)", -1, undefined],
    ["two\nlines", "-", true, ""],
  ];
  expect(csvOf(["Name", "Size, bytes", "LUN", ""], rows)).toBe(
    'Name,"Size, bytes",LUN,\r\nvmfs1,2199023255552,1,\r\n"a ""b"", c",\'=HYPERLINK(1),-1,\r\n"two\nlines",\'-,true,\r\n',
  );
});
