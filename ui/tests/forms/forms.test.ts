// SPDX-License-Identifier: Apache-2.0
// @vitest-environment jsdom
import "./border";
import { cleanup } from "@testing-library/react";
import { afterEach, describe, expect, it } from "vitest";
import { datastores } from "./of-datastores";
import { hosts, schedules } from "./of-hosts";
import { directories, others, people, system } from "./of-people";
import { firstStart, pools } from "./of-pools";
import { formsInSources, functionsThatSend } from "./sources";
import { walk } from "./walk";

const FORMS = [...datastores, ...hosts, ...schedules, ...pools, ...firstStart, ...people, ...directories, ...system, ...others];

afterEach(cleanup);

describe("a form keeps what was typed, says what happened, and can be sent again", () => {
  it.each(FORMS)("$form", walk, 300_000);
});

describe("the table of forms", () => {
  it("has each form of the sources once", () => {
    expect(FORMS.map(({ form }) => form).toSorted()).toEqual(formsInSources().toSorted());
  });

  it("finds all that is sent: by the parts of forms", () => {
    const sending = functionsThatSend();
    expect(sending.length).toBeGreaterThan(0);
    expect(sending.filter(({ isForm }) => !isForm)).toEqual([]);
  });
});
