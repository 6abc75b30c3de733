// SPDX-License-Identifier: Apache-2.0
/** The running or last scrub or resilver of a pool. */

import { Label, Progress, ProgressMeasureLocation, ProgressSize } from "@patternfly/react-core";
import type { Pool } from "../api/types";
import { formatBytes, formatShare } from "../format/bytes";
import { text } from "../text";
import { Time } from "./values";

const words = text.pools.scan;
type Scan = NonNullable<Pool["scan"]>;

export function isScanning(pool: Pool): boolean {
  return pool.scan?.state === "scanning";
}

/** Short text. */
export function scanText(scan: Scan): string {
  const what = words.function[scan.function] ?? scan.function;
  switch (scan.state) {
    case "scanning":
      return words.running(what, formatShare(scan.progress, 1));
    case "paused":
      return words.paused(what, formatShare(scan.progress, 1));
    case "canceled":
      return words.canceled(what);
    default:
      return scan.repaired === "0"
        ? words.finished(what, scan.errors)
        : words.repaired(formatBytes(scan.repaired), scan.function === "resilver", scan.errors);
  }
}

export function ScanSummary({ pool }: { readonly pool: Pool }) {
  const { scan } = pool;
  if (scan == null) return words.none;
  if (isScanning(pool)) return <Label color="blue">{scanText(scan)}</Label>;
  return (
    <>
      {scan.errors > 0 ? <Label status="danger">{scanText(scan)}</Label> : scanText(scan)}{" "}
      {scan.ended != null && <Time at={scan.ended} ago />}
    </>
  );
}

/** With a bar while it runs. */
export function ScanProgress({ pool }: { readonly pool: Pool }) {
  const { scan } = pool;
  if (scan == null || (scan.state !== "scanning" && scan.state !== "paused")) return <ScanSummary pool={pool} />;
  return (
    <Progress
      aria-label={words.progress(words.function[scan.function] ?? scan.function)}
      title={scanText(scan)}
      value={Math.floor(100 * scan.progress)}
      size={ProgressSize.sm}
      measureLocation={ProgressMeasureLocation.none}
    />
  );
}
