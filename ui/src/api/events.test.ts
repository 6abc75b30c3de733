// SPDX-License-Identifier: Apache-2.0
import { QueryClient } from "@tanstack/react-query";
import { describe, expect, it } from "vitest";
import { takeJobEvent } from "./events";

/** Whether files are requested again after a job of this kind, which the list of jobs has. */
function measuresAnew(kind: string, listed = "1"): boolean | undefined {
  const client = new QueryClient();
  client.setQueryData(["jobs"], [{ id: listed, kind, state: "running", step: "", percent: 0 }]);
  client.setQueryData(["files", "store", null], {});
  takeJobEvent(client, { subject: "1", state: "succeeded", step: "", percent: 100 });
  const old = client.getQueryState(["files", "store", null])?.isInvalidated;
  client.clear();
  return old;
}

describe("takeJobEvent", () => {
  it.each(["file.clone", "snapshot.rollback", "datastore.restore", "of another day"])(
    "has files measured anew after %s",
    (kind) => {
      expect(measuresAnew(kind)).toBe(true);
    },
  );

  it("has files measured anew after a job that is not known", () => {
    expect(measuresAnew("snapshot.create", "another")).toBe(true);
  });

  it.each(["snapshot.create", "snapshot.retention", "support.bundle"])("keeps the loaded files after %s", (kind) => {
    expect(measuresAnew(kind)).toBe(false);
  });
});
