// SPDX-License-Identifier: Apache-2.0
/** Deliveries of alerts to a receiver, newest first. */

import { Button, Label, ModalBody, ModalFooter, ModalHeader, ModalVariant } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useQuery } from "@tanstack/react-query";
import { useId } from "react";
import { deliveriesQuery } from "../../api/queries";
import type { Delivery, Receiver } from "../../api/types";
import { Modal } from "../../parts/patternfly";
import { QueryBoundary } from "../../parts/states";
import { Time } from "../../parts/values";
import { text } from "../../text";

const words = text.system.receivers;
const STATUS = {
  pending: "warning",
  delivered: "success",
  failed: "danger",
  dropped: "danger",
  testing: "info",
} as const satisfies Record<Delivery["state"], string>;

export function DeliveryState({ delivery }: { readonly delivery: Delivery }) {
  return <Label status={STATUS[delivery.state]}>{words.delivery[delivery.state]}</Label>;
}

export function Deliveries({ hook, onClose }: { readonly hook: Receiver; readonly onClose: () => void }) {
  const id = useId();
  const query = useQuery(deliveriesQuery(hook.id));
  return (
    <Modal isOpen variant={ModalVariant.large} onClose={onClose} aria-labelledby={id}>
      <ModalHeader title={words.deliveries.title(hook.name)} labelId={id} />
      <ModalBody>
        <QueryBoundary query={query} what={words.deliveries.action} lines={4}>
          {(deliveries) =>
            deliveries.length === 0 ? <p>{words.deliveries.empty}</p> : <DeliveryTable deliveries={deliveries} />
          }
        </QueryBoundary>
      </ModalBody>
      <ModalFooter>
        <Button onClick={onClose}>{text.common.close}</Button>
      </ModalFooter>
    </Modal>
  );
}

function DeliveryTable({ deliveries }: { readonly deliveries: readonly Delivery[] }) {
  const { columns } = words.deliveries;
  return (
    <Table aria-label={words.deliveries.action} variant="compact">
      <Thead>
        <Tr>
          <Th>{columns.created}</Th>
          <Th>{columns.state}</Th>
          <Th>{columns.attempts}</Th>
          <Th>{columns.problem}</Th>
        </Tr>
      </Thead>
      <Tbody>
        {deliveries.map((delivery) => (
          <Tr key={delivery.id}>
            <Td dataLabel={columns.created}>
              <Time at={delivery.created_at} />
            </Td>
            <Td dataLabel={columns.state}>
              <DeliveryState delivery={delivery} />
            </Td>
            <Td dataLabel={columns.attempts}>{delivery.attempts}</Td>
            <Td dataLabel={columns.problem} modifier="breakWord">
              {delivery.problem}
            </Td>
          </Tr>
        ))}
      </Tbody>
    </Table>
  );
}
