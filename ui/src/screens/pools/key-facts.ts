// SPDX-License-Identifier: Apache-2.0
/** Facts of a pool's key that changed while the dialog was open. */

import type { Key } from "../../api/types";
import { formatExactTime } from "../../format/time";
import type { Fact } from "../../parts/known";
import { text } from "../../text";

const words = text.pools.detail.key;

export function factsOf({ key_status: status, stored, exported_at: exported, confirmed_at: confirmed }: Key): readonly Fact[] {
  return [
    [words.status, status === "available" ? words.available : words.unavailable],
    [words.stored, stored ? text.common.yes : text.common.no],
    [words.exported, exported == null ? words.notExported : formatExactTime(exported)],
    [words.confirmed, confirmed == null ? words.notConfirmed : formatExactTime(confirmed)],
  ];
}
