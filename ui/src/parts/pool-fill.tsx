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
  const { allocated, size, available, usable } = pool;
  // The figures of a pool that cannot be read are raw.
  const used =
    available == null || usable == null
      ? words.usedRaw(formatBytes(allocated), formatBytes(size))
      : words.usedOf(formatBytes(Math.max(0, Number(usable) - Number(available))), formatBytes(usable));
  return (
    <Fill
      label={words.usage(pool.name)}
      part={pool.used_percent}
      whole={100}
      words={isBrief ? undefined : used}
      warning={pool.warning_percent}
      critical={pool.critical_percent}
    />
  );
}
