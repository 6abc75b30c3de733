// SPDX-License-Identifier: Apache-2.0
// @vitest-environment jsdom
/** The dialog of a reboot says what hosts bear: ESXi waits 140 s for a disk, and then the disk is lost to its VMs. */

import { cleanup } from "@testing-library/react";
import { afterEach, expect, it } from "vitest";
import { text } from "../../src/text";
import { maintenance as german } from "../../src/text/de/maintenance";
import { dialog, newUser, press, until } from "../forms/page";
import { power } from "../forms/world";
import { show } from "./show";

const { reboot, iscsi } = text.maintenance.power;

afterEach(cleanup);

it("asks to shut down the VMs of the listed hosts first", async () => {
  await show("/system");
  await press(newUser(), [reboot.action]);
  const scope = await until("it does not open", dialog);
  await until("no hosts", () => scope.textContent.includes(iscsi));
  expect(scope.textContent).toContain("Shut down the VMs of these hosts first.");
  for (const { lead } of [reboot, german.power.reboot]) expect(lead).toContain("140 s");
});

it("warns of a kernel without OpenZFS, which would serve nothing", async () => {
  const warning = "Linux 6.12 has no OpenZFS: after a reboot nothing is served";
  await show("/system", { "/power": { ...power, warning } });
  await press(newUser(), [reboot.action]);
  const scope = await until("it does not open", dialog);
  await until("no warning", () => scope.textContent.includes(warning));
});
