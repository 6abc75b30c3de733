// SPDX-License-Identifier: Apache-2.0
/** Names and values, side by side. */

import { DescriptionList, DescriptionListDescription, DescriptionListGroup, DescriptionListTerm } from "@patternfly/react-core";
import type { ReactNode } from "react";

/** Absent facts are left out. */
export type Fact = readonly [name: string, value: ReactNode] | null;

export function Facts({ facts, columns = 1 }: { readonly facts: readonly Fact[]; readonly columns?: 1 | 2 }) {
  return (
    <DescriptionList isHorizontal isCompact columnModifier={{ default: "1Col", lg: columns === 2 ? "2Col" : "1Col" }}>
      {facts.map(
        (fact) =>
          fact && (
            <DescriptionListGroup key={fact[0]}>
              <DescriptionListTerm>{fact[0]}</DescriptionListTerm>
              <DescriptionListDescription>{fact[1]}</DescriptionListDescription>
            </DescriptionListGroup>
          ),
      )}
    </DescriptionList>
  );
}
