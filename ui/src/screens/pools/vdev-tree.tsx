// SPDX-License-Identifier: Apache-2.0
/** The vdevs of a pool as a tree, with states and errors. */

import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useState } from "react";
import type { Pool, Vdev } from "../../api/types";
import { formatWhole } from "../../format/number";
import { Health } from "../../parts/health";
import type { Place } from "../../parts/job-dialog";
import { Bytes } from "../../parts/values";
import { May } from "../../session/session";
import { text } from "../../text";
import { DeviceDialog, DeviceMenu, isRemovable, isWhole, type Chosen } from "./device-menu";
import { rowsOf } from "./layout";

const words = text.pools.detail;
const columns = words.vdevColumns;
const DEEPEST = 3;

interface Props {
  readonly pool: Pool;
  readonly onBegin: Place["onBegin"];
}

export function VdevTree({ pool, onBegin }: Props) {
  const [chosen, setChosen] = useState<Chosen | null>(null);
  return (
    <>
      <Table aria-label={words.vdevs} variant="compact">
        <Thead>
          <Tr>
            <Th width={40}>{columns.name}</Th>
            <Th>{columns.health}</Th>
            <Th>{columns.size}</Th>
            <Th>{columns.read}</Th>
            <Th>{columns.write}</Th>
            <Th>{columns.checksum}</Th>
            <Th screenReaderText={columns.actions} />
          </Tr>
        </Thead>
        {rowsOf(pool).map(({ role, rows }) => (
          <Tbody key={role}>
            <Tr>
              <Th colSpan={7} scope="colgroup">
                {words.roles[role] ?? role}
              </Th>
            </Tr>
            {rows.map(({ vdev, level, parent }) => (
              <Tr key={vdev.guid}>
                <Td dataLabel={columns.name} modifier="breakWord">
                  <div className={`zv-level-${Math.min(level, DEEPEST)}`}>
                    {parent !== null && <span className="pf-v6-screen-reader">{words.within(parent.name)}</span>}
                    {vdev.was == null ? vdev.name : words.was(vdev.name, vdev.was)}
                  </div>
                </Td>
                <Td dataLabel={columns.health}>
                  <Health of={vdev.health} errors={errorsOf(vdev)} />
                </Td>
                <Td dataLabel={columns.size}>{vdev.size === "0" ? "–" : <Bytes value={vdev.size} />}</Td>
                <Td dataLabel={columns.read}>{formatWhole(vdev.read_errors)}</Td>
                <Td dataLabel={columns.write}>{formatWhole(vdev.write_errors)}</Td>
                <Td dataLabel={columns.checksum}>{formatWhole(vdev.checksum_errors)}</Td>
                <Td isActionCell>
                  {((vdev.vdevs ?? []).length === 0 || isRemovable(vdev, parent)) && (
                    <May least={isWhole(vdev) ? "admin" : "operator"}>
                      <DeviceMenu device={vdev} parent={parent} onChoose={setChosen} />
                    </May>
                  )}
                </Td>
              </Tr>
            ))}
          </Tbody>
        ))}
      </Table>
      {chosen && <DeviceDialog {...chosen} pool={pool} onBegin={onBegin} onClose={() => setChosen(null)} />}
    </>
  );
}

function errorsOf(vdev: Vdev): number {
  return vdev.read_errors + vdev.write_errors + vdev.checksum_errors;
}
