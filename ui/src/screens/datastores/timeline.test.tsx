// SPDX-License-Identifier: Apache-2.0
// @vitest-environment jsdom
import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { Snapshot } from "../../api/types";
import { marksOf, rowOf, Timeline } from "./timeline";

const HOUR_S = 3600;
const START_S = Date.UTC(2026, 9, 1) / 1000;

function snapshot(hour: number, more: Partial<Snapshot> = {}): Snapshot {
  const created_at = new Date((START_S + hour * HOUR_S) * 1000).toISOString();
  return {
    ...{ datastore: "1", name: `at-${hour}`, full_name: `tank/zvaai/vmfs1@at-${hour}`, guid: String(hour), created_at },
    ...{ used: "1048576", referenced: "0", holds: 0, clones: [], schedule: "nightly", protected_until: null },
    ...more,
  };
}

afterEach(() => {
  cleanup();
  vi.useRealTimers();
});

describe("marks", () => {
  it("are one for each snapshot, at its time", () => {
    const marks = marksOf([snapshot(0), snapshot(1), snapshot(5)], START_S + 6 * HOUR_S);
    expect(marks.map(({ at, count }) => [(at - START_S) / HOUR_S, count])).toEqual([
      [0, 1],
      [1, 1],
      [5, 1],
    ]);
  });

  it("are few for a thousand snapshots, and leave none out", () => {
    const thousand = Array.from({ length: 1000 }, (_, hour) => snapshot(hour));
    const marks = marksOf(thousand, START_S + 1000 * HOUR_S);
    expect(marks).toHaveLength(150);
    expect(marks.reduce((sum, { count }) => sum + count, 0)).toBe(1000);
    expect(marks[0]).toMatchObject({ oldest: thousand[0], newest: thousand[6] });
  });

  it("of a group have the largest size, never the sum, and the kind that stands out", () => {
    const far = START_S + 10_000 * HOUR_S;
    const kind = (...group: Snapshot[]) => marksOf(group, far).map((mark) => [mark.kind, mark.count, mark.bytes]);
    expect(kind(snapshot(0, { used: "5" }), snapshot(1, { used: "7" }))).toEqual([["schedule", 2, 7]]);
    expect(kind(snapshot(0, { used: "5", schedule: null }), snapshot(1, { used: "5" }))).toEqual([["manual", 2, 5]]);
    expect(kind(snapshot(0, { schedule: null }), snapshot(1, { holds: 1 }))).toEqual([["held", 2, 1048576]]);
  });
});

describe("the timeline", () => {
  const slider = () => screen.getByRole("slider", { name: /^Timeline of the snapshots/ });
  const tip = () => document.querySelector(".zv-chart-tip")?.textContent ?? null;
  const drawn = (selector: string) => document.querySelector(selector)?.getAttribute("d") ?? "";

  function show(): void {
    vi.useFakeTimers({ now: (START_S + 10 * HOUR_S) * 1000, toFake: ["Date"] });
    const snapshots = [
      snapshot(0, { used: "8388608" }),
      snapshot(4, { name: "by hand", schedule: null, used: "4194304" }),
      snapshot(10, { name: "audited", holds: 1 }),
    ];
    render(
      <>
        <Timeline snapshots={snapshots} />
        {snapshots.map((row) => (
          <div key={row.guid} id={rowOf(row)} tabIndex={-1} />
        ))}
      </>,
    );
    Element.prototype.scrollIntoView = () => undefined;
  }

  it("draws each at its time and as high as what it holds, with a shape for each kind", () => {
    show();
    expect(drawn(".zv-line-1 path")).toBe("M0.0 0.0V100");
    expect(drawn(".zv-line-2 path")).toBe("M400.0 50.0V100");
    expect(drawn(".zv-head-manual")).toBe("M400.0 50.0h0.01");
    expect(drawn(".zv-head-held")).toBe("M1000.0 87.5h0.01");
  });

  it("shows name, time and size at the mark with the keyboard, and goes to the row", () => {
    show();
    expect(tip()).toBeNull();
    fireEvent.focus(slider());
    expect(tip()).toMatch(/^audited, Oct 1, 2026, .*, Held: 1 MiB$/);
    fireEvent.keyDown(slider(), { key: "ArrowLeft" });
    expect(tip()).toMatch(/^by hand, Oct 1, 2026, .*, Without schedule: 4 MiB$/);
    expect(slider().getAttribute("aria-valuetext")).toBe(tip());
    fireEvent.keyDown(slider(), { key: "Escape" });
    expect(tip()).toBeNull();
    fireEvent.keyDown(slider(), { key: "PageUp" });
    fireEvent.keyDown(slider(), { key: "ArrowLeft" });
    fireEvent.keyDown(slider(), { key: "Enter" });
    expect(document.activeElement?.id).toBe("snapshot-4");
  });

  it("follows the pointer, and a click goes to the row under it", () => {
    show();
    slider().getBoundingClientRect = () => ({ left: 100, width: 200 }) as DOMRect;
    fireEvent(slider(), new MouseEvent("pointermove", { bubbles: true, clientX: 110 }));
    expect(tip()).toMatch(/^at-0, .*, By schedule: 8 MiB$/);
    fireEvent.click(slider(), { clientX: 175 });
    expect(document.activeElement?.id).toBe("snapshot-4");
  });

  it("says of a group how many, from when to when, and how much one holds at most", () => {
    const from = snapshot(0).created_at;
    vi.useFakeTimers({ now: new Date(from).getTime() + 1e10, toFake: ["Date"] });
    render(<Timeline snapshots={[snapshot(0), snapshot(1, { used: "3145728" })]} />);
    expect(slider().getAttribute("aria-valuetext")).toMatch(/^2 snapshots, Sep 30.* to Sep 30.*: 3 MiB or less each$/);
  });
});
