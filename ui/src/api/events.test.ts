// SPDX-License-Identifier: Apache-2.0
import { QueryClient } from "@tanstack/react-query";
import { describe, expect, it } from "vitest";
import { takeJobEvent } from "./events";

/** The cache after an event of job 1, of this kind. */
function after(state: "running" | "succeeded", kind = "file.clone"): QueryClient {
  const client = new QueryClient();
  const job = { id: "1", state: "queued", step: "", percent: 0 };
  client.setQueryData(["jobs", { subject: "store" }], [job, { ...job, id: "2" }]);
  client.setQueryData(["files", "store", null], {});
  takeJobEvent(client, { subject: "1", job_kind: kind, state, step: "copies", percent: 40 });
  return client;
}

describe("takeJobEvent", () => {
  it.each(["file.clone", "snapshot.rollback", "datastore.restore", "of another day"])(
    "has files measured anew after %s",
    (kind) => {
      expect(after("succeeded", kind).getQueryState(["files", "store", null])?.isInvalidated).toBe(true);
    },
  );

  it.each(["snapshot.create", "snapshot.retention", "support.bundle"])("keeps the loaded files after %s", (kind) => {
    expect(after("succeeded", kind).getQueryState(["files", "store", null])?.isInvalidated).toBe(false);
  });

  it("shows the progress in the jobs of a datastore, and asks for them again at the end", () => {
    const key = ["jobs", { subject: "store" }];
    const running = after("running");
    expect(running.getQueryData(key)).toMatchObject([
      { id: "1", state: "running", step: "copies", percent: 40 },
      { id: "2", state: "queued", percent: 0 },
    ]);
    expect(running.getQueryState(key)?.isInvalidated).toBe(false);
    expect(after("succeeded").getQueryState(key)?.isInvalidated).toBe(true);
  });
});
