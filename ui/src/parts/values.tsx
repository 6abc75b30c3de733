// SPDX-License-Identifier: Apache-2.0
/** Sizes and times: short, with exact values in tooltips and for screen readers. */

import { Timestamp, TimestampTooltipVariant } from "@patternfly/react-core";
import { formatBytes, formatExactBytes } from "../format/bytes";
import { formatAgo, formatExactTime, formatTime } from "../format/time";
import { useMinute } from "./use-minute";

export function Bytes({ value }: { readonly value: string | number | null | undefined }) {
  if (value == null) return "–";
  return (
    <span className="zv-number" title={formatExactBytes(value)}>
      {formatBytes(value)}
    </span>
  );
}

/** With the zone in a tooltip that the keyboard can reach too. */
export function Time({ at, ago = false }: { readonly at: string; readonly ago?: boolean }) {
  return (
    <Timestamp
      date={new Date(at)}
      tooltip={{ variant: TimestampTooltipVariant.custom, content: formatExactTime(at) }}
      className="zv-time"
    >
      {ago ? <Ago at={at} /> : formatTime(at)}
    </Timestamp>
  );
}

function Ago({ at }: { readonly at: string }) {
  useMinute();
  return formatAgo(at);
}
