// SPDX-License-Identifier: Apache-2.0
/** German has every text of English, and says it in German. The compiler compares types: values are compared here. */

import { describe, expect, it } from "vitest";
import { de } from "../../src/text/de";
import { en } from "../../src/text/en";
import { ENGLISH, withoutCommands } from "./english";
import { SAME } from "./same";

type Say = (...values: readonly unknown[]) => unknown;

const MOST_WORDS_OF_A_SENTENCE = 20;
/** Instead of what a function does not say of such values. */
const UNSAID = "-";

/** All texts by their place, functions too. */
function textsOf(value: unknown, place: string, into: Map<string, string | Say> = new Map<string, string | Say>()) {
  if (typeof value === "string" || typeof value === "function") into.set(place, value as string | Say);
  else for (const [name, part] of Object.entries(value ?? {})) textsOf(part, `${place}.${name}`, into);
  return into;
}

/** What a function says of numbers, names, lists, and nothing: some take only one of them. */
function said(text: string | Say): string[] {
  if (typeof text === "string") return [text];
  const kinds: ((index: number) => unknown)[] = [
    ...[0, 1, 2, 5, 1000].map((number) => () => number),
    (index) => index + 1,
    (index) => 9 - index,
    (index) => `<${index}>`,
    (index) => [`<${index}>`, "<last>"],
    () => [],
    (index) => (index === 0 ? "<0>" : null),
    () => null,
  ];
  return kinds.map((kind) => {
    try {
      return String(text(...Array.from({ length: text.length }, (_, index) => kind(index))));
    } catch {
      return UNSAID;
    }
  });
}

/** Values that it shows. */
const shown = (text: string): string[] => (text.match(/<\w+>|\d+/g) ?? []).toSorted();
const english = textsOf(en, "");
const german = textsOf(de, "");
const pairs = [...english].map(([place, text]) => ({ place, ours: said(german.get(place) ?? ""), theirs: said(text) }));
/** German texts about which this is true. */
function places(wrong: (ours: string, theirs: string) => boolean): string[] {
  const all = pairs.flatMap(({ place, ours, theirs }) =>
    ours.filter((text, index) => theirs[index] !== UNSAID && wrong(text, theirs[index] ?? "")).map((text) => `${place}: ${text}`),
  );
  return [...new Set(all)];
}

function isLong(text: string): boolean {
  const words = (sentence: string) => sentence.split(/\s+/).filter((word) => /\w/.test(word)).length;
  return text.split(/(?<=[.!?:])\s/).some((sentence) => words(sentence) > MOST_WORDS_OF_A_SENTENCE);
}

it("English has short sentences", () => {
  expect(pairs.flatMap(({ place, theirs }) => theirs.filter(isLong).map((long) => `${place}: ${long}`))).toEqual([]);
});

describe("German", () => {
  it("has the texts of English, in the same order", () => {
    expect([...german.keys()]).toEqual([...english.keys()]);
    expect(english.size).toBeGreaterThan(1000);
  });

  it("is empty only where English is", () => {
    expect(places((ours, theirs) => ours.trim() === "" && theirs !== "")).toEqual([]);
  });

  it("shows the values that English shows", () => {
    const functions = new Set([...english].filter(([, text]) => typeof text !== "string").map(([place]) => place));
    const wrong = places((ours, theirs) => shown(ours).join() !== shown(theirs).join());
    expect(wrong.filter((line) => functions.has(line.split(":")[0] ?? ""))).toEqual([]);
  });

  it("is not the English text, but for words that both have", () => {
    const left = pairs.flatMap(({ ours: [our = ""], theirs: [other] }) => (our === other && /[a-z]{2}/i.test(our) ? our : []));
    expect(new Set(left)).toEqual(new Set(SAME));
  });

  it("has no English words", () => {
    expect(places((ours) => ENGLISH.test(withoutCommands(ours)))).toEqual([]);
  });

  it("has short sentences", () => expect(places(isLong)).toEqual([]));
});
