// SPDX-License-Identifier: Apache-2.0
/** The state of a pool, vdev or disk, as OpenZFS calls it. */

import { Label } from "@patternfly/react-core";
import type { Pool } from "../api/types";
import { text } from "../text";

const GOOD: readonly string[] = ["ONLINE", "AVAIL"];
const BAD: readonly string[] = ["FAULTED", "UNAVAIL", "REMOVED", "SUSPENDED"];

export function Health({ of, errors = 0 }: { readonly of: string; readonly errors?: number }) {
  const status = BAD.includes(of) ? "danger" : GOOD.includes(of) && errors === 0 ? "success" : "warning";
  return (
    <Label isCompact status={status}>
      {of}
    </Label>
  );
}

export function PoolHealth({ pool }: { readonly pool: Pool }) {
  return (
    <>
      <Health of={pool.health} errors={pool.error_count} /> {pool.readonly && <Label isCompact>{text.pools.readonly}</Label>}
    </>
  );
}
