// SPDX-License-Identifier: Apache-2.0
/** Shows a screen of the console, with the data of the world or other data. */

import { beginService } from "../forms/border";
import { render } from "@testing-library/react";
import type { QueryClient } from "@tanstack/react-query";
import { createElement } from "react";
import { App, newCache } from "../../src/app";
import { until } from "../forms/page";

type Responses = Readonly<Record<string, unknown>>;

/** `broken`: paths that are answered with 503. */
export async function show(address: string, responses: Responses = {}, broken: readonly string[] = []): Promise<QueryClient> {
  beginService({ responses, broken });
  window.history.replaceState(null, "", address);
  const client = newCache();
  render(createElement(App, { client }));
  await until("no page", () => document.querySelector("main h1"));
  await loaded(client);
  return client;
}

/** Nothing is requested any more. */
export async function loaded(client: QueryClient): Promise<void> {
  await until("it still loads", () => document.querySelector(".zv-loading") === null && client.isFetching() === 0);
}

/** The text of the part with this title. */
export function panel(title: string): string {
  const heading = [...document.querySelectorAll("h2")].find((candidate) => candidate.textContent === title);
  const card = heading?.closest(".pf-v6-c-card");
  if (card == null) throw new Error(`no panel ${title}`);
  return card.textContent;
}
