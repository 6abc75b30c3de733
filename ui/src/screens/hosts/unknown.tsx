// SPDX-License-Identifier: Apache-2.0
/** Unknown iSCSI initiators that tried to log in: most hosts are added by one click here. */

import { Button } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { unknownQuery } from "../../api/queries";
import { Panel } from "../../parts/panel";
import { Time } from "../../parts/values";
import { May } from "../../session/session";
import { text } from "../../text";
import { AddHost } from "./host-dialogs";

const words = text.hosts.unknown;

export function Unknown() {
  const { data: unknown = [] } = useQuery(unknownQuery);
  const [adding, setAdding] = useState<string | null>(null);
  return (
    <>
      {unknown.length > 0 && (
        <Panel title={words.title} lead={words.lead}>
          <Table aria-label={words.title} variant="compact">
            <Thead>
              <Tr>
                <Th>{words.columns.initiator}</Th>
                <Th>{words.columns.address}</Th>
                <Th>{words.columns.at}</Th>
                <Th screenReaderText={text.hosts.columns.actions} />
              </Tr>
            </Thead>
            <Tbody>
              {unknown.map(({ initiator, address, at }) => (
                <Tr key={`${initiator} ${address}`}>
                  <Td dataLabel={words.columns.initiator} modifier="breakWord">
                    {initiator}
                  </Td>
                  <Td dataLabel={words.columns.address}>{address}</Td>
                  <Td dataLabel={words.columns.at}>
                    <Time at={at} ago />
                  </Td>
                  <Td isActionCell>
                    <May least="operator">
                      <Button variant="link" isInline onClick={() => setAdding(initiator)}>
                        {words.add}
                      </Button>
                    </May>
                  </Td>
                </Tr>
              ))}
            </Tbody>
          </Table>
        </Panel>
      )}
      {adding !== null && <AddHost iqn={adding} onClose={() => setAdding(null)} />}
    </>
  );
}
