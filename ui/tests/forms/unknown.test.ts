// SPDX-License-Identifier: Apache-2.0
// @vitest-environment jsdom
/** An initiator of no host becomes one with a click. */

import { cleanup, render } from "@testing-library/react";
import { createElement } from "react";
import { afterEach, expect, it } from "vitest";
import { beginService } from "./border";
import { App, newCache } from "../../src/app";
import { dialog, field, newUser, press, until } from "./page";
import { UNKNOWN } from "./world";

afterEach(cleanup);

it("is added with its iSCSI name, and a name that comes from it", async () => {
  beginService();
  window.history.replaceState(null, "", "/hosts");
  render(createElement(App, { client: newCache() }));
  await press(newUser(), ["Add this host"]);
  const scope = await until("it does not open", dialog);
  expect(field("iSCSI names", scope)).toHaveProperty("value", UNKNOWN);
  expect(field("Name", scope)).toHaveProperty("value", "esx9");
});
