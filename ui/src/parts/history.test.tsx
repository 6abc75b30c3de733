// SPDX-License-Identifier: Apache-2.0
// @vitest-environment jsdom
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, describe, expect, it } from "vitest";
import { historyQuery, type Historied, type Range } from "../api/queries";
import type { History } from "../api/types";
import { pathOf } from "./chart";
import { HistoryPanel } from "./history";

afterEach(cleanup);

const part = { start: "2026-11-22T09:30:00.000Z", step_seconds: 600 };
const none = [null, null, null];
const load: History["load"] = {
  ...part,
  series: {
    ...{ read_operations: [10, 20, 30], write_operations: [1, null, 3], read_bytes: [0, 0, 0], write_bytes: [0, 0, 0] },
    ...{ cloned_bytes: [1048576, 0, 0], copied_bytes: [0, 0, 0], zeroed_bytes: [0, 0, 0], unmapped_bytes: [0, 0, 0] },
    ...{ p50_ms: [0.5, 0.5, 0.6], p99_ms: [4, 900, 5] },
  },
};
const capacity = { ...part, series: { used_bytes: [1, 2, 3], snapshot_bytes: none, size_bytes: [10, 10, 10] } };

function show(kind: Historied, histories: Partial<Record<Range, History>>, isFull = false) {
  const client = new QueryClient({ defaultOptions: { queries: { staleTime: Infinity } } });
  for (const [range, history] of Object.entries(histories))
    client.setQueryData(historyQuery(kind, "x", range as Range).queryKey, history);
  render(
    <QueryClientProvider client={client}>
      <HistoryPanel kind={kind} id="x" isFull={isFull} />
    </QueryClientProvider>,
  );
}

const charts = () => screen.queryAllByRole("heading", { level: 3 }).map((heading) => heading.textContent);
const cursorOf = (title: string) => screen.getByRole("slider", { name: `${title}: time of the values` });

describe("history", () => {
  it("has a chart for each kind of value, and the newest values", () => {
    show("datastores", { day: { load, capacity } });
    expect(charts()).toEqual(["Operations per second", "Throughput", "Latency", "Offloads", "Capacity"]);
    expect(cursorOf("Operations per second").getAttribute("aria-valuetext")).toMatch(/: Read 30, Write 3$/);
    expect(screen.queryByText("Snapshots")).toBeNull();
  });

  it("has one cursor for all charts", () => {
    show("datastores", { day: { load, capacity } });
    fireEvent.keyDown(cursorOf("Operations per second"), { key: "ArrowLeft" });
    expect(cursorOf("Operations per second").getAttribute("aria-valuetext")).toMatch(/: Read 20, Write –$/);
    expect(cursorOf("Latency").getAttribute("aria-valuetext")).toMatch(/: Median 0.5 ms, 99 % 900 ms$/);
    expect(cursorOf("Capacity").getAttribute("aria-valuetext")).toMatch(/: Used 2 B, Size 10 B$/);
    fireEvent.blur(cursorOf("Operations per second"));
    expect(cursorOf("Latency").getAttribute("aria-valuetext")).toMatch(/99 % 5 ms$/);
  });

  it("follows the pointer", () => {
    show("hosts", { day: { load } });
    const plot = cursorOf("Latency");
    plot.getBoundingClientRect = () => ({ left: 100, width: 200 }) as DOMRect;
    fireEvent(plot, new MouseEvent("pointermove", { bubbles: true, clientX: 205 }));
    expect(cursorOf("Operations per second").getAttribute("aria-valuetext")).toMatch(/: Read 20, Write –$/);
  });

  it("says when a pool is full, and when there is no forecast", () => {
    show("pools", {
      day: { load, capacity, full_at: "2027-03-12T12:00:00.000Z" },
      year: { load, capacity, full_at: null },
    });
    expect(screen.getByText(/the pool is full on Mar 12, 2027/)).toBeTruthy();
    fireEvent.click(screen.getByRole("button", { name: "Year" }));
    expect(screen.getByText(/not foreseen/)).toBeTruthy();
  });

  it("has no forecast of a pool that has reached its threshold", () => {
    show("pools", { day: { load, capacity, full_at: null } }, true);
    expect(charts()).toContain("Capacity");
    expect(screen.queryByText(/not foreseen/)).toBeNull();
  });

  it("leaves out what is not counted, and says when there is nothing", () => {
    const nothing = Object.fromEntries(Object.keys(load.series).map((name) => [name, none])) as typeof load.series;
    show("hosts", {
      day: { load: { ...load, series: { ...nothing, cloned_bytes: [1, 2, 3], copied_bytes: [0, 0, 0] } } },
      hour: { load: { ...load, series: nothing } },
    });
    expect(charts()).toEqual(["Offloads"]);
    fireEvent.click(screen.getByRole("button", { name: "Hour" }));
    expect(screen.getByText(/No values in this range yet/)).toBeTruthy();
  });
});

it("draws a gap where nothing is known, and a dot for a value alone", () => {
  const path = pathOf(
    [1, 2, null, 4],
    (place) => 10 * place,
    (value) => value,
  );
  expect(path).toBe("M0.0 1.00h0.01L10.0 2.00M30.0 4.00h0.01");
});
