// SPDX-License-Identifier: Apache-2.0
/** Selected rows of a list, by their keys. */

import { useCallback, useState } from "react";

export type Select = (keys: readonly string[], on: boolean) => void;

export function useSelection(): readonly [selected: ReadonlySet<string>, select: Select] {
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const select = useCallback<Select>((keys, on) => {
    setSelected((before) => {
      const after = new Set(before);
      for (const key of keys) {
        if (on) after.add(key);
        else after.delete(key);
      }
      return after;
    });
  }, []);
  return [selected, select];
}
