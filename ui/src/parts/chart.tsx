// SPDX-License-Identifier: Apache-2.0
/** A chart over time, with the values at its cursor. Several charts of one range share a cursor. */

import type { CSSProperties, KeyboardEvent, PointerEvent } from "react";
import { formatTime } from "../format/time";
import { nearest, timeTicks, valueTicks } from "../measures/scale";
import { text } from "../text";
import { chosen } from "../text/chosen";

export interface Series {
  readonly name: string;
  /** Number of the chart colour, from 1. */
  readonly color: 1 | 2 | 3 | 4;
  readonly values: readonly (number | null)[];
}

/** A time in seconds since 1970; without a time the newest values are shown. */
export interface Cursor {
  readonly at: number | null;
  readonly onMove: (at: number | null) => void;
}

interface Props {
  readonly title: string;
  /** Seconds since 1970, ascending. */
  readonly times: readonly number[];
  readonly series: readonly Series[];
  readonly format: (value: number) => string;
  /** The y axis reaches at least this value: small values must look small. */
  readonly least: number;
  /** For sizes: steps of the y axis are round in binary units. */
  readonly binary?: boolean;
  readonly cursor: Cursor;
}

const WIDTH = 1000;
const HEIGHT = 100;
const CLOCK = new Intl.DateTimeFormat(chosen.locale, { timeStyle: "short" });
const DATE = new Intl.DateTimeFormat(chosen.locale, { month: "short", day: "numeric" });

/** A line through known values, with gaps; a single value is a dot. */
export function pathOf(values: readonly (number | null)[], x: (place: number) => number, y: (value: number) => number): string {
  const parts: string[] = [];
  values.forEach((value, place) => {
    if (value === null) return;
    const joined = place > 0 && values[place - 1] !== null;
    const point = `${x(place).toFixed(1)} ${y(value).toFixed(2)}`;
    parts.push(joined ? `L${point}` : `M${point}h0.01`);
  });
  return parts.join("");
}

const share = (part: number, property: "insetInlineStart" | "insetBlockEnd"): CSSProperties => ({ [property]: `${100 * part}%` });

export function Chart({ title, times, series, format, least, binary = false, cursor }: Props) {
  const from = times[0] ?? 0;
  const to = times.at(-1) ?? 0;
  const span = Math.max(1, to - from);
  const highest = Math.max(least, ...series.flatMap((line) => line.values.map((value) => value ?? 0)));
  const ticks = valueTicks(highest, binary);
  const top = ticks.at(-1) ?? highest;
  const place = cursor.at === null ? times.length - 1 : nearest(times, cursor.at);
  const shown = times[place] ?? to;
  const clock = timeTicks(from, to);
  const values = series.map((line) => `${line.name} ${inWords(line.values[place], format)}`);

  const point = ({ currentTarget, clientX }: PointerEvent<HTMLElement>) => {
    const { left, width } = currentTarget.getBoundingClientRect();
    cursor.onMove(from + (span * (clientX - left)) / Math.max(1, width));
  };
  const step = (event: KeyboardEvent) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, PageDown: -10, PageUp: 10 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    cursor.onMove(times[Math.min(times.length - 1, Math.max(0, place + by))] ?? null);
  };
  return (
    <figure className="zv-figure">
      <figcaption className="zv-legend">
        <h3>{title}</h3>
        {series.map((line) => (
          <span key={line.name} className={`zv-key zv-key-${line.color}`}>
            {line.name} <b>{inWords(line.values[place], format)}</b>
          </span>
        ))}
      </figcaption>
      <div className="zv-chart">
        <div className="zv-chart-values" aria-hidden="true">
          {ticks.map((value) => (
            <span key={value} style={share(value / top, "insetBlockEnd")}>
              {format(value)}
            </span>
          ))}
        </div>
        <div
          className="zv-chart-plot"
          role="slider"
          tabIndex={0}
          aria-label={text.history.cursor(title)}
          aria-valuemin={0}
          aria-valuemax={Math.max(0, times.length - 1)}
          aria-valuenow={Math.max(0, place)}
          aria-valuetext={`${formatTime(new Date(shown * 1000).toISOString())}: ${values.join(", ")}`}
          onPointerMove={point}
          onPointerLeave={() => cursor.onMove(null)}
          onBlur={() => cursor.onMove(null)}
          onKeyDown={step}
        >
          <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
            {ticks.map((value) => (
              <line key={value} className="zv-chart-grid" x1={0} x2={WIDTH} {...level(HEIGHT * (1 - value / top))} />
            ))}
            {series.map((line) => (
              <path
                key={line.name}
                className={`zv-line-${line.color}`}
                d={pathOf(
                  line.values,
                  (index) => (WIDTH * ((times[index] ?? 0) - from)) / span,
                  (value) => HEIGHT * (1 - value / top),
                )}
              />
            ))}
          </svg>
          {cursor.at !== null && <span className="zv-chart-cursor" style={share((shown - from) / span, "insetInlineStart")} />}
        </div>
        <div className="zv-chart-times" aria-hidden="true">
          {clock.times.map((at) => (
            <span key={at} style={share((at - from) / span, "insetInlineStart")}>
              {(clock.days ? DATE : CLOCK).format(at * 1000)}
            </span>
          ))}
        </div>
      </div>
    </figure>
  );
}

const level = (y: number) => ({ y1: y, y2: y });

function inWords(value: number | null | undefined, format: (value: number) => string): string {
  return value == null ? "–" : format(value);
}
