// SPDX-License-Identifier: Apache-2.0
import { QueryClient } from "@tanstack/react-query";
import { describe, expect, it, vi } from "vitest";
import type { Outcome } from "../api/client";
import { ApiProblem } from "../api/problem";
import { newsOf, readNow, sendKnown, type Known, type SentWith } from "./known";

// The tests run without a page, so the service has an address here.
vi.hoisted(() => vi.stubGlobal("window", { location: { origin: "https://appliance.example" } }));

const REFUSED: Outcome<string> = {
  error: { code: "precondition_failed", detail: "it has changed", status: 412 },
  response: new Response(null, { status: 412 }),
};

/** Counts how often the object was read again. */
function knownOf(readAnew: () => Promise<void>): Known {
  return { thing: {}, etag: '"one"', opening: false, news: [], readAnew };
}

describe("newsOf", () => {
  it("has what is otherwise, with what it was", () => {
    const before = [
      ["Name", "esx1"],
      ["Group", "None"],
    ] as const;
    const now = [
      ["Name", "esx1"],
      ["Group", "cluster"],
    ] as const;
    expect(newsOf(before, now)).toEqual([{ name: "Group", now: "cluster", before: "None" }]);
    expect(newsOf(before, before)).toEqual([]);
  });
});

describe("readNow", () => {
  it("has the present version, not that of an earlier request that still runs", async () => {
    const client = new QueryClient();
    const queryKey = ["hosts", "1"];
    let answer: (etag: string) => void = () => undefined;
    const late = new Promise<{ etag: string }>((resolve) => {
      answer = (etag) => resolve({ etag });
    });
    client.setQueryData(queryKey, { etag: "first" });
    const shown = client.query({ queryKey, queryFn: () => late, staleTime: 0 });
    const now = await readNow(client, { queryKey, queryFn: () => Promise.resolve({ etag: "third" }) });
    answer("second");
    await shown;
    expect(now).toEqual({ etag: "third" });
    expect(client.getQueryData(queryKey)).toEqual({ etag: "third" });
    client.clear();
  });
});

describe("sendKnown", () => {
  it("names the version that is known, and none where there is none", async () => {
    const sent: SentWith[] = [];
    const send = (headers: SentWith) => {
      sent.push(headers);
      return Promise.resolve({ data: "done", response: new Response() });
    };
    await sendKnown(
      send,
      "key",
      knownOf(() => Promise.resolve()),
    );
    await sendKnown(send, "key", undefined);
    expect(sent).toEqual([{ "Idempotency-Key": "key", "If-Match": '"one"' }, { "Idempotency-Key": "key" }]);
  });

  it("reads what is there now when it is refused for that, and is refused all the same", async () => {
    let read = 0;
    const known = knownOf(() => {
      read += 1;
      return Promise.resolve();
    });
    await expect(sendKnown(() => Promise.resolve(REFUSED), "key", known)).rejects.toMatchObject({ status: 412 });
    expect(read).toBe(1);
  });

  it("tells that it is not there any more, but no fault of the reading instead of the refusal", async () => {
    const failing = (status: number) => knownOf(() => Promise.reject(new ApiProblem(status, "", "")));
    await expect(sendKnown(() => Promise.resolve(REFUSED), "key", failing(404))).rejects.toMatchObject({ status: 404 });
    await expect(sendKnown(() => Promise.resolve(REFUSED), "key", failing(0))).rejects.toMatchObject({ status: 412 });
  });
});
