// SPDX-License-Identifier: Apache-2.0
/** How full a pool is, by the percentage that its alerts compare with their thresholds. */

import type { Pool } from "../api/types";
import { formatBytes } from "../format/bytes";
import { text } from "../text";
import { Fill } from "./fill";

const words = text.pools;

interface Props {
  readonly pool: Pool;
  /** In a list: the percentage alone. */
  readonly isBrief?: boolean;
}

export function PoolFill({ pool, isBrief = false }: Props) {
  const { allocated, size, used_percent: percent } = pool;
  const used = words.usedOf(formatBytes(allocated), formatBytes(size));
  // Reserved space is in the percentage only if it leaves clearly less room than the disks.
  const isReserved = percent > (100 * Number(allocated)) / Number(size) + 1;
  return (
    <Fill
      label={words.usage(pool.name)}
      part={percent}
      whole={100}
      words={isBrief ? undefined : isReserved ? words.usedOrReserved(used, percent) : used}
      warning={pool.warning_percent}
      critical={pool.critical_percent}
    />
  );
}
