// SPDX-License-Identifier: Apache-2.0
// @vitest-environment jsdom
/** Every screen in German, without an English word that is not the appliance's. */

import "../forms/border";
import { cleanup, render } from "@testing-library/react";
import { createElement } from "react";
import { afterEach, describe, expect, it, vi } from "vitest";
import { beginService, service } from "../forms/border";
import { dialog, newUser, press, until } from "../forms/page";
import { AT, ID, page, world } from "../forms/world";
import routes from "../../src/app.tsx?raw";
import { chosen } from "../../src/text/chosen";
import { de } from "../../src/text/de";
import { ENGLISH, withoutCommands } from "./english";

const SCREENS: Readonly<Record<string, readonly string[]>> = {
  "/login": ["/login"],
  "/login/oidc": ["/login/oidc"],
  "/first-start": ["/first-start"],
  "/": ["/"],
  "/datastores": ["/datastores"],
  "/datastores/new": ["/datastores/new"],
  "/datastores/:id": [],
  "/datastores/:id/:tab": [ID.vmfs, ID.nfs].flatMap((id) =>
    Object.keys(de.datastores.detail.tabs).map((tab) => `/datastores/${id}/${tab}`),
  ),
  "/hosts": ["/hosts", "/hosts?show=groups"],
  "/hosts/:id": [`/hosts/${ID.host}`],
  "/pools": ["/pools", "/pools?show=disks"],
  "/pools/-new": ["/pools/-new"],
  "/pools/:name": ["/pools/tank"],
  "/pools/:name/extend": ["/pools/tank/extend"],
  "/network": ["/network"],
  "/schedules": ["/schedules"],
  "/jobs": ["/jobs"],
  "/jobs/:id": [`/jobs/${ID.job}`],
  "/alerts": ["/alerts"],
  "/readiness": ["/readiness"],
  "/audit": ["/audit"],
  "/logs": ["/logs"],
  "/users": ["/users"],
  "/system": ["/system"],
  "*": ["/nowhere"],
};
const NAMING = ["aria-label", "title", "placeholder", "alt"];
const responses = { "/audit": page(), "/logs": page(), [`/datastores/${ID.nfs}/space`]: world[`/datastores/${ID.vmfs}/space`] };

/** What the appliance says: its own words stay English. */
function wordsOf(data: unknown): string[] {
  if (typeof data === "string") return [data];
  return typeof data === "object" && data !== null ? Object.values(data).flatMap(wordsOf) : [];
}
/** PatternFly does not let the console name it: a button of narrow windows, which also shows the step. */
const NOT_OURS = "wizard toggle";
const wordsOfWorld = new Set([...wordsOf(world).map((word) => word.toLowerCase()), NOT_OURS]);

/** What is read, or read out. */
function textsOf(root: Element): string[] {
  const texts = [...root.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE).map((node) => node.textContent ?? "");
  const names = NAMING.flatMap((name) => root.getAttribute(name) ?? []);
  return [...texts, ...names, ...[...root.children].flatMap(textsOf)].map((text) => text.trim()).filter((text) => text !== "");
}

/** Whole texts on the page with an English word. */
function english(): string[] {
  const shown = textsOf(document.body).filter((text) => !wordsOfWorld.has(text.toLowerCase().replace(/\.$/, "")));
  expect(shown).not.toContain(de.problems.console.title);
  return shown.filter((text) => ENGLISH.test(withoutCommands(text)));
}

async function show(address: string) {
  vi.resetModules();
  Object.assign(chosen, { language: "de", locale: "de-DE", text: de });
  const { chosen: now } = await import("../../src/text/chosen");
  Object.assign(now, chosen);
  const { App, newCache } = await import("../../src/app");
  window.history.replaceState(null, "", address);
  render(createElement(App, { client: newCache() }));
}

afterEach(cleanup);

describe("German", () => {
  it("is tested on every screen", () => {
    const paths = [...routes.matchAll(/<Route path="([^"]+)"/g)].map(([, path]) => path);
    expect(Object.keys(SCREENS).toSorted()).toEqual(["/", ...paths].toSorted());
  });

  it.each(Object.values(SCREENS).flat())(
    "%s",
    async (address) => {
      const out = address.startsWith("/login") || address === "/first-start";
      beginService({ out, responses: { ...responses, ...(address === "/first-start" ? { "/setup": { needed: true } } : {}) } });
      await show(address);
      await until("no heading", () => document.querySelector("h1, h2"));
      await until("it still loads", () => document.querySelector(".zv-loading") === null);
      expect(english()).toEqual([]);
      expect(service.unknown).toEqual([]);
    },
    300_000,
  );

  it("reaches the file field of a restore, which PatternFly would name", async () => {
    beginService({ responses });
    await show("/system");
    await press(newUser(), [de.system.configuration.restore]);
    await until("no dialog", dialog);
    expect(english()).toEqual([]);
  }, 300_000);

  it("writes numbers, sizes and times as in German", async () => {
    await show("/jobs");
    const { formatBytes, formatExactBytes, parseBytes } = await import("../../src/format/bytes");
    const { formatAgo, formatTime } = await import("../../src/format/time");
    const { formatOperations } = await import("../../src/format/performance");
    expect(formatBytes(1536)).toBe("1,5 KiB");
    expect(formatExactBytes("1048576")).toBe("1.048.576 Byte");
    expect(formatOperations(1234)).toBe("1.234");
    expect(formatTime(AT)).toMatch(/^22\.11\.2026, /);
    expect(formatAgo(AT, Date.parse(AT) + 300_000)).toBe("vor 5 Minuten");
    expect(parseBytes("0,977 TiB")).toBe((977n << 40n) / 1000n);
    expect(parseBytes("1.5 TiB")).toBe(3n << 39n);
    // A thousand for Germans, one for others.
    expect(parseBytes("1.000 GiB")).toBeNull();
  });

  it("offers both languages by their own names", async () => {
    beginService({ responses });
    await show("/jobs");
    await press(newUser(), [de.common.language("Deutsch")]);
    const items = await until("no menu", () => document.querySelectorAll("[role=menuitem]"));
    expect([...items].map((item) => [item.textContent, item.querySelector("[lang]")?.getAttribute("lang")])).toEqual([
      ["English", "en"],
      ["Deutsch", "de"],
    ]);
  });
});
