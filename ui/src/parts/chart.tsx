// SPDX-License-Identifier: Apache-2.0
/** A chart over time: uPlot, in the colours of the theme, with its newest values as text for who can't see it. */

import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

export interface Series {
  readonly name: string;
  /** A CSS custom property that is a colour. */
  readonly color: string;
  readonly values: readonly (number | null)[];
}

interface Props {
  readonly label: string;
  /** Seconds since 1970. */
  readonly times: readonly number[];
  readonly series: readonly Series[];
  readonly format: (value: number) => string;
  /** The y axis reaches this at least: small values must look small. */
  readonly least: number;
  /** Of sizes: steps of the y axis are round in binary units. */
  readonly binary?: boolean;
}

const HEIGHT = 180;
const SHOWN_S = 300;
const AXIS_PX = 84;
const BINARY_STEPS = Array.from({ length: 50 }, (_, power) => 2 ** power);
const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });

function css(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function optionsOf(width: number, { series, format, least, binary = false }: Props): uPlot.Options {
  const text = css("--pf-t--global--text--color--subtle");
  const grid = css("--pf-t--global--border--color--default");
  const font = `12px ${css("--pf-t--global--font--family--body")}`;
  const axis: uPlot.Axis = { stroke: text, font, grid: { stroke: grid, width: 1 }, ticks: { show: false } };
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    scales: { y: { range: (_chart, _lowest, highest) => [0, Math.max(highest * 1.1, least)] } },
    axes: [
      { ...axis, space: 70, values: (_chart, times) => times.map((time) => CLOCK.format(time * 1000)) },
      { ...axis, size: AXIS_PX, ...(binary ? { incrs: BINARY_STEPS } : {}), values: (_chart, values) => values.map(format) },
    ],
    series: [
      {},
      ...series.map((one) => ({ label: one.name, stroke: css(one.color), width: 2, spanGaps: true, points: { show: false } })),
    ],
  };
}

export function Chart(props: Props) {
  const { label, times, series, format } = props;
  const place = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  const shape = series.map((one) => `${one.name} ${one.color}`).join();

  useEffect(() => {
    const element = place.current;
    if (element === null) return undefined;
    const draw = () => {
      chart.current?.destroy();
      chart.current = new uPlot(optionsOf(element.clientWidth, props), [[], ...series.map(() => [])], element);
      fill(chart.current, times, series);
    };
    const resized = new ResizeObserver(() => chart.current?.setSize({ width: element.clientWidth, height: HEIGHT }));
    // Another theme has other colours.
    const themed = new MutationObserver(draw);
    draw();
    resized.observe(element);
    themed.observe(document.documentElement, { attributeFilter: ["class"] });
    return () => {
      resized.disconnect();
      themed.disconnect();
      chart.current?.destroy();
      chart.current = null;
    };
    // New values do not make a new chart.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [shape, format]);

  useEffect(() => {
    if (chart.current !== null) fill(chart.current, times, series);
  }, [times, series]);

  return <div ref={place} role="img" aria-label={label} className="zv-chart" />;
}

function fill(chart: uPlot, times: readonly number[], series: readonly Series[]): void {
  const newest = times.at(-1) ?? Date.now() / 1000;
  // With its scales: the y axis follows the values.
  chart.setData([[...times], ...series.map((one) => [...one.values])]);
  chart.setScale("x", { min: newest - SHOWN_S, max: newest });
}
