// SPDX-License-Identifier: Apache-2.0
// @vitest-environment jsdom
import { expect, it } from "vitest";
import { languageOf } from "./language";

it.each([
  [null, ["en-US", "en"], "en", "en-US"],
  [null, ["de-AT", "de", "en"], "de", "de-AT"],
  [null, ["fr-FR", "DE", "en"], "de", "DE"],
  [null, ["fr"], "en", "en"],
  [null, [], "en", "en"],
  ["de", ["en-GB"], "de", "de"],
  ["en", ["de-DE", "en-GB"], "en", "en-GB"],
  ["toString", ["de"], "de", "de"],
])("%s of %j is %s, written as in %s", (stored, preferred, language, locale) =>
  expect(languageOf(stored, preferred)).toEqual({ language, locale }),
);
