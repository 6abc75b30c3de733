// SPDX-License-Identifier: Apache-2.0
/** A form on its page, opened by the buttons that lead to it. */

import { beginService, service } from "./border";
import { render } from "@testing-library/react";
import { createElement } from "react";
import { App, newCache } from "../../src/app";
import { dialog, newUser, press, until } from "./page";
import { begun } from "./world";

/** Its first request begins a job. */
export async function open(at: string, names: readonly string[], responses = {}) {
  beginService({ responses });
  service.answers = [{ status: 202, body: begun }];
  window.history.replaceState(null, "", at);
  const client = newCache();
  render(createElement(App, { client }));
  const user = newUser();
  await press(user, names);
  return { user, client, scope: await until("it does not open", dialog) };
}
