// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { capitalised, sentence } from "./sentence";

describe("capitalised", () => {
  it.each([
    ["it listens at 127.0.0.1:3260 only", "It listens at 127.0.0.1:3260 only"],
    ["version 0.1.0, portals none", "Version 0.1.0, portals none"],
    ["nobody", "Nobody"],
    ["ONLINE; no errors", "ONLINE; no errors"],
    ["0 % is used", "0 % is used"],
  ])("%s", (said, shown) => expect(capitalised(said)).toBe(shown));

  it.each([
    "esxcli iscsi adapter list; zvaai host change esx1 --add-iqn IQN",
    "zpool set feature@block_cloning=enabled tank",
    "apt install zvaai-nfs",
    "feature@block_cloning is enabled",
    "sync=disabled: a power cut loses data",
    "tank/zvaai/nfs1 is not mounted",
    "iqn.1998-01.com.vmware:esx1",
    "zvol_clone is not loaded",
    "",
  ])("leaves %j", (said) => expect(capitalised(said)).toBe(said));
});

describe("sentence", () => {
  it("ends", () => expect(sentence(" a job is under way ")).toBe("A job is under way."));
  it("ends once", () => expect(sentence("Is it?")).toBe("Is it?"));
  it("is nothing of nothing", () => expect(sentence(" ")).toBe(""));
});
