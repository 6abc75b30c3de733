// SPDX-License-Identifier: Apache-2.0
/** Choice of disks. */

import { Checkbox } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import type { Disk } from "../../api/types";
import { Bytes } from "../../parts/values";
import { text } from "../../text";

const words = text.pools.disks;

interface Props {
  /** Prefix of IDs: a form can have several tables. */
  readonly prefix: string;
  readonly disks: readonly Disk[];
  readonly chosen: readonly string[];
  readonly onChange: (chosen: readonly string[]) => void;
}

export function DiskTable({ prefix, disks, chosen, onChange }: Props) {
  const carrying = disks.some((disk) => disk.used_by != null);
  const { columns } = words;
  if (disks.length === 0) return <p>{words.noneFree}</p>;
  return (
    <Table aria-label={words.list} variant="compact">
      <Thead>
        <Tr>
          <Th screenReaderText={columns.choose} />
          <Th>{columns.path}</Th>
          <Th>{columns.model}</Th>
          <Th>{columns.serial}</Th>
          <Th>{columns.kind}</Th>
          <Th>{columns.size}</Th>
          {carrying && <Th>{columns.usedBy}</Th>}
        </Tr>
      </Thead>
      <Tbody>
        {disks.map((disk, index) => (
          <Tr key={disk.path}>
            <Td>
              <Checkbox
                id={`${prefix}-${index}`}
                aria-label={words.choose(disk.path)}
                isChecked={chosen.includes(disk.path)}
                isDisabled={disk.in_use}
                onChange={(_event, checked) =>
                  onChange(checked ? [...chosen, disk.path] : chosen.filter((path) => path !== disk.path))
                }
              />
            </Td>
            <Td dataLabel={columns.path} modifier="breakWord">
              {disk.path}
            </Td>
            <Td dataLabel={columns.model}>{disk.model || "–"}</Td>
            <Td dataLabel={columns.serial}>{disk.serial || "–"}</Td>
            <Td dataLabel={columns.kind}>{disk.rotational ? words.rotational : words.solid}</Td>
            <Td dataLabel={columns.size}>
              <Bytes value={disk.size} />
            </Td>
            {carrying && <Td dataLabel={columns.usedBy}>{disk.used_by ?? words.free}</Td>}
          </Tr>
        ))}
      </Tbody>
    </Table>
  );
}
