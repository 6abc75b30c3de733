// SPDX-License-Identifier: Apache-2.0
/** A chart over time, with the values at its cursor. Several charts of one range share a cursor. */

import type { CSSProperties, KeyboardEvent, MouseEvent, ReactNode } from "react";
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
/** In a longer range, day and month do not name one day. */
const LONGEST_WITH_DAYS_S = 400 * 86_400;
const CLOCK = new Intl.DateTimeFormat(chosen.locale, { timeStyle: "short" });
const MONTH = new Intl.DateTimeFormat(chosen.locale, { year: "numeric", month: "short" });
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

/** Index of the time at the cursor; without a cursor, of the last time. */
export function placeOf(times: readonly number[], at: number | null): number {
  return at === null ? times.length - 1 : nearest(times, at);
}

export function Chart({ title, times, series, format, least, binary = false, cursor }: Props) {
  const highest = Math.max(least, ...series.flatMap((line) => line.values.map((value) => value ?? 0)));
  const place = placeOf(times, cursor.at);
  const values = series.map((line) => `${line.name} ${inWords(line.values[place], format)}`);
  const shown = new Date((times[place] ?? 0) * 1000).toISOString();
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
      <Plot
        label={text.history.cursor(title)}
        valueText={`${formatTime(shown)}: ${values.join(", ")}`}
        times={times}
        ticks={valueTicks(highest, binary)}
        format={format}
        cursor={cursor}
      >
        {(x, y) =>
          series.map((line) => (
            <path
              key={line.name}
              className={`zv-line-${line.color}`}
              d={pathOf(line.values, (index) => x(times[index] ?? 0), y)}
            />
          ))
        }
      </Plot>
    </figure>
  );
}

interface PlotProps {
  readonly label: string;
  /** What is at the cursor. */
  readonly valueText: string;
  /** Times at which the cursor can be, in seconds since 1970, ascending. */
  readonly times: readonly number[];
  /** End of the axis; without it, the last time. */
  readonly to?: number;
  readonly ticks: readonly number[];
  readonly format: (value: number) => string;
  readonly cursor: Cursor;
  /** Shown at the cursor. */
  readonly tip?: string;
  /** Called on a click, or Enter, with the index of the time. Focus then moves the cursor, so that there is a tip. */
  readonly onOpen?: (place: number) => void;
  readonly children: (x: (at: number) => number, y: (value: number) => number) => ReactNode;
}

/** Axes and a cursor. */
export function Plot({
  label,
  valueText,
  times,
  to = times.at(-1) ?? 0,
  ticks,
  format,
  cursor,
  tip,
  onOpen,
  children,
}: PlotProps) {
  const from = times[0] ?? 0;
  const span = Math.max(1, to - from);
  const top = ticks.at(-1) ?? 1;
  const place = placeOf(times, cursor.at);
  const shown = ((times[place] ?? to) - from) / span;
  const clock = timeTicks(from, to);
  const scale = span > LONGEST_WITH_DAYS_S ? MONTH : clock.days ? DATE : CLOCK;

  const timeAt = ({ currentTarget, clientX }: MouseEvent<HTMLElement>) => {
    const { left, width } = currentTarget.getBoundingClientRect();
    return from + (span * (clientX - left)) / Math.max(1, width);
  };
  const step = (event: KeyboardEvent) => {
    if (event.key === "Enter") onOpen?.(place);
    if (event.key === "Escape") cursor.onMove(null);
    const by = { ArrowLeft: -1, ArrowRight: 1, PageDown: -10, PageUp: 10 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    cursor.onMove(times[Math.min(times.length - 1, Math.max(0, place + by))] ?? null);
  };
  return (
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
        aria-label={label}
        aria-valuemin={0}
        aria-valuemax={Math.max(0, times.length - 1)}
        aria-valuenow={Math.max(0, place)}
        aria-valuetext={valueText}
        onPointerMove={(event) => cursor.onMove(timeAt(event))}
        onPointerLeave={() => cursor.onMove(null)}
        onFocus={() => onOpen && cursor.at === null && cursor.onMove(times.at(-1) ?? null)}
        onBlur={() => cursor.onMove(null)}
        onKeyDown={step}
        onClick={(event) => onOpen?.(nearest(times, timeAt(event)))}
      >
        <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
          {ticks.map((value) => (
            <line key={value} className="zv-chart-grid" x1={0} x2={WIDTH} {...level(HEIGHT * (1 - value / top))} />
          ))}
          {children(
            (at) => (WIDTH * (at - from)) / span,
            (value) => HEIGHT * (1 - value / top),
          )}
        </svg>
        {cursor.at !== null && <span className="zv-chart-cursor" style={share(shown, "insetInlineStart")} />}
        {tip !== undefined && (
          <span
            className="zv-chart-tip"
            aria-hidden="true"
            style={{ ...share(shown, "insetInlineStart"), translate: `${-100 * shown}%` }}
          >
            {tip}
          </span>
        )}
      </div>
      <div className="zv-chart-times" aria-hidden="true">
        {clock.times.map((at) => (
          <span key={at} style={share((at - from) / span, "insetInlineStart")}>
            {scale.format(at * 1000)}
          </span>
        ))}
      </div>
    </div>
  );
}

const level = (y: number) => ({ y1: y, y2: y });

function inWords(value: number | null | undefined, format: (value: number) => string): string {
  return value == null ? "–" : format(value);
}
