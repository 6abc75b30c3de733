// SPDX-License-Identifier: Apache-2.0
/** Disks, with their use and SMART data. */

import { EmptyState } from "@patternfly/react-core";
import { ExpandableRowContent, Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { disksQuery } from "../../api/queries";
import type { Disk } from "../../api/types";
import { QueryBoundary } from "../../parts/states";
import { Bytes } from "../../parts/values";
import { text } from "../../text";
import { SmartFacts, SmartLabel } from "./smart";

const words = text.pools.disks;

export function DisksTab() {
  const query = useQuery(disksQuery);
  return (
    <QueryBoundary query={query} what={words.list} lines={8}>
      {(disks) => (disks.length === 0 ? <EmptyState titleText={words.none} headingLevel="h2" /> : <DiskTable disks={disks} />)}
    </QueryBoundary>
  );
}

function DiskTable({ disks }: { readonly disks: readonly Disk[] }) {
  const [open, setOpen] = useState<readonly string[]>([]);
  const { columns } = words;
  return (
    <Table aria-label={words.list} variant="compact">
      <Thead>
        <Tr>
          <Th screenReaderText={columns.details} />
          <Th width={30}>{columns.path}</Th>
          <Th>{columns.model}</Th>
          <Th>{columns.serial}</Th>
          <Th>{columns.kind}</Th>
          <Th>{columns.size}</Th>
          <Th>{columns.usedBy}</Th>
          <Th>{columns.smart}</Th>
        </Tr>
      </Thead>
      {disks.map((disk, index) => {
        const isExpanded = open.includes(disk.path);
        return (
          <Tbody key={disk.path} isExpanded={isExpanded}>
            <Tr>
              <Td
                expand={{
                  rowIndex: index,
                  isExpanded,
                  expandId: "smart-",
                  onToggle: () => setOpen(isExpanded ? open.filter((path) => path !== disk.path) : [...open, disk.path]),
                }}
              />
              <Td dataLabel={columns.path} modifier="breakWord">
                {disk.path}
              </Td>
              <Td dataLabel={columns.model}>{disk.model || "–"}</Td>
              <Td dataLabel={columns.serial}>{disk.serial || "–"}</Td>
              <Td dataLabel={columns.kind}>{disk.rotational ? words.rotational : words.solid}</Td>
              <Td dataLabel={columns.size}>
                <Bytes value={disk.size} />
              </Td>
              <Td dataLabel={columns.usedBy}>{disk.used_by ?? words.free}</Td>
              <Td dataLabel={columns.smart}>
                <SmartLabel smart={disk.smart} />
              </Td>
            </Tr>
            {isExpanded && (
              <Tr isExpanded>
                <Td colSpan={8}>
                  <ExpandableRowContent>
                    <SmartFacts smart={disk.smart} />
                  </ExpandableRowContent>
                </Td>
              </Tr>
            )}
          </Tbody>
        );
      })}
    </Table>
  );
}
