// SPDX-License-Identifier: Apache-2.0
/** Offloads of one datastore or of all: sums, and reasons for copies instead of clones. */

import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import type { ReactNode } from "react";
import { formatRate } from "../format/bytes";
import { text } from "../text";
import { Bytes } from "./values";

const words = text.datastores.detail.vaai;

interface FigureProps {
  readonly name: string;
  readonly help?: string;
  /** Present rate in bytes per second. */
  readonly rate?: number;
  readonly children: ReactNode;
}

/** An entry of a list of figures (`dl`). */
export function Figure({ name, help, rate = 0, children }: FigureProps) {
  return (
    <div title={help}>
      <dt>{name}</dt>
      <dd>
        {children} {rate > 0 && <span className="zv-rate">{words.now(formatRate(rate))}</span>}
      </dd>
    </div>
  );
}

interface FallbacksProps {
  readonly fallbacks: ReadonlyMap<string, number>;
  readonly reasons: Readonly<Record<string, readonly [string, string]>>;
  /** Without remedies. */
  readonly brief?: boolean;
}

export function Fallbacks({ fallbacks, reasons, brief = false }: FallbacksProps) {
  if (fallbacks.size === 0) return <p>{words.noFallbacks}</p>;
  return (
    <Table aria-label={words.fallbacks} variant="compact">
      <Thead>
        <Tr>
          <Th>{words.fallbackColumns.reason}</Th>
          <Th>{words.fallbackColumns.bytes}</Th>
          {!brief && <Th>{words.fallbackColumns.remedy}</Th>}
        </Tr>
      </Thead>
      <Tbody>
        {[...fallbacks].map(([reason, bytes]) => {
          const [name, remedy] = reasons[reason] ?? [reason, "–"];
          return (
            <Tr key={reason}>
              <Td dataLabel={words.fallbackColumns.reason}>{name}</Td>
              <Td dataLabel={words.fallbackColumns.bytes}>
                <Bytes value={bytes} />
              </Td>
              {!brief && <Td dataLabel={words.fallbackColumns.remedy}>{remedy}</Td>}
            </Tr>
          );
        })}
      </Tbody>
    </Table>
  );
}
