// SPDX-License-Identifier: Apache-2.0
// @vitest-environment jsdom
/** Dialogs of schedules say what is deleted, and what another user has changed meanwhile. */

import { service } from "./border";
import { cleanup } from "@testing-library/react";
import { afterEach, expect, it } from "vitest";
import { text } from "../../src/text";
import { open } from "./opened";
import { isReady, press, problemIn, until } from "./page";
import { problemBody } from "./problems";
import { ID, page, schedule } from "./world";

const words = text.schedules;
const responsesOf = (more: object) => ({
  "/schedules": page({ ...schedule, ...more }),
  [`/schedules/${ID.schedule}`]: { ...schedule, ...more },
});

afterEach(cleanup);

it.each([
  [{ kind: "snapshot" }, true],
  [{ kind: "scrub", pool: "tank", datastores: [] }, false],
])("of %j says that it deletes snapshots when it is resumed: %s", async (more, deletes) => {
  const { scope } = await open("/schedules", ["Actions for hourly", "Resume"], responsesOf({ ...more, enabled: false }));
  expect(scope.textContent.includes(words.resume.deletes)).toBe(deletes);
  expect(scope.querySelector(".pf-m-danger") !== null).toBe(deletes);
});

it("shows each field that another user has changed", async () => {
  const { user, scope } = await open("/schedules", ["Actions for hourly", "Pause"]);
  await until("it can't be sent", () => isReady("Pause", scope));
  service.responses = responsesOf({ at: "03:00", time_zone: "Europe/Berlin", protect_days: 7, daily: 3 });
  service.answers = [{ status: 412, body: problemBody(412) }];
  await press(user, ["Pause"], scope);
  await until("no news", () => problemIn(scope).includes(text.problems.nowIs));
  for (const name of ["at", "time_zone", "protect_days", "daily"] as const)
    expect(problemIn(scope)).toContain(words.tiers.labels[name]);
});
