// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it, vi } from "vitest";
import type { Key } from "../../api/types";
import { newsOf } from "../../parts/known";
import { factsOf } from "./key-facts";

// The tests run without a page, so the service has an address here.
vi.hoisted(() => vi.stubGlobal("window", { location: { origin: "https://appliance.example" } }));

const KEY: Key = {
  pool: "tank",
  dataset: "tank/zvaai-encrypted",
  algorithm: "aes-256-gcm",
  key_status: "available",
  stored: true,
  exported_at: "2026-11-22T09:30:00.000Z",
  confirmed_at: null,
  etag: "one",
};

describe("factsOf", () => {
  it("tells that somebody has confirmed it meanwhile, and when", () => {
    const news = newsOf(factsOf(KEY), factsOf({ ...KEY, confirmed_at: "2026-11-22T09:31:00.000Z", etag: "two" }));
    expect(news).toHaveLength(1);
    expect(news[0]).toMatchObject({ name: "Confirmed", before: "Not yet" });
    expect(news[0]?.now).toContain("6:01:00");
  });
  it("tells that it was exported once more, even in the same minute", () => {
    expect(newsOf(factsOf(KEY), factsOf({ ...KEY, exported_at: "2026-11-22T09:30:05.000Z" }))).toHaveLength(1);
  });
});
