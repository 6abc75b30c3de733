// SPDX-License-Identifier: Apache-2.0
/** Receivers of alerts: list, last delivery, test. */

import { Label } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, idempotent, unwrap } from "../../api/client";
import { receiversQuery } from "../../api/queries";
import type { Delivery, Receiver, ReceiverSecret } from "../../api/types";
import { ListPanel } from "../../parts/list-panel";
import { ProblemAlert } from "../../parts/problem-alert";
import { ActionsMenu } from "../../parts/actions-menu";
import { SecretDialog, type Made } from "../../parts/secret";
import { useSubmission } from "../../parts/use-submission";
import { Time } from "../../parts/values";
import { useToast } from "../../shell/toasts";
import { text } from "../../text";
import { Deliveries, DeliveryState } from "./deliveries";
import { ChangeReceiver, CreateReceiver, DeleteReceiver, RenewSecret } from "./receiver-dialogs";

const words = text.system.receivers;
const DIALOGS = { change: ChangeReceiver, deliveries: Deliveries, renew: RenewSecret, remove: DeleteReceiver } as const;

interface Chosen {
  readonly hook: Receiver;
  readonly action: keyof typeof DIALOGS;
}

export function Receivers() {
  const query = useQuery(receiversQuery);
  const [chosen, setChosen] = useState<Chosen | null>(null);
  const [made, setMade] = useState<Made | null>(null);
  const Dialog = chosen && DIALOGS[chosen.action];
  /** Only webhooks have a secret. */
  const show = ({ name, secret }: ReceiverSecret) => {
    if (secret != null) setMade({ name, secret });
  };
  return (
    <>
      <ListPanel words={words} query={query} creator={(onClose) => <CreateReceiver onMade={show} onClose={onClose} />}>
        {(hooks) => <ReceiverTable hooks={hooks} onChoose={setChosen} />}
      </ListPanel>
      {Dialog && <Dialog hook={chosen.hook} onMade={show} onClose={() => setChosen(null)} />}
      {made && <SecretDialog made={made} words={words} onClose={() => setMade(null)} />}
    </>
  );
}

interface TableProps {
  readonly hooks: readonly Receiver[];
  readonly onChoose: (chosen: Chosen) => void;
}

function ReceiverTable({ hooks, onChoose }: TableProps) {
  const client = useQueryClient();
  const notify = useToast();
  const test = useSubmission(
    async (hook: Receiver, key: string) => {
      const options = { params: { path: { receiver_id: hook.id } }, headers: idempotent(key) };
      return { hook, delivery: await unwrap(api.POST("/api/v1/receivers/{receiver_id}/test", options)) };
    },
    ({ hook, delivery }: { hook: Receiver; delivery: Delivery }) => {
      void client.invalidateQueries({ queryKey: receiversQuery.queryKey });
      if (delivery.state === "delivered")
        notify({ variant: "success", title: words.testDone(hook.name, delivery.status), about: hook.id });
      else notify({ variant: "danger", title: words.testFailed(hook.name), body: delivery.problem, about: hook.id });
    },
  );

  function begin(hook: Receiver): void {
    notify({ variant: "info", title: words.testing(hook.name), about: hook.id });
    void test.send(hook);
  }

  return (
    <>
      {test.problem !== null && <ProblemAlert problem={test.problem} />}
      <Table aria-label={words.list} variant="compact">
        <Thead>
          <Tr>
            <Th>{words.columns.name}</Th>
            <Th>{words.columns.url}</Th>
            <Th>{words.columns.severity}</Th>
            <Th>{words.columns.state}</Th>
            <Th>{words.columns.last}</Th>
            <Th screenReaderText={text.datastores.detail.actions.menu} />
          </Tr>
        </Thead>
        <Tbody>
          {hooks.map((hook) => (
            <Tr key={hook.id}>
              <Td dataLabel={words.columns.name}>{hook.name}</Td>
              <Td dataLabel={words.columns.url} modifier="breakWord">
                {[hook.url, ...hook.recipients].join(", ")}
              </Td>
              <Td dataLabel={words.columns.severity}>{words.severity[hook.severity]}</Td>
              <Td dataLabel={words.columns.state}>
                {hook.enabled ? words.enabled : words.off} {hook.waiting > 0 && <Label>{words.waiting(hook.waiting)}</Label>}
              </Td>
              <Td dataLabel={words.columns.last}>
                {hook.last_delivery == null ? text.common.never : <LastDelivery delivery={hook.last_delivery} />}
              </Td>
              <Td isActionCell>
                <ActionsMenu
                  row
                  label={words.menu(hook.name)}
                  choices={[
                    { name: words.test, onChoose: () => begin(hook) },
                    { name: words.deliveries.action, onChoose: () => onChoose({ hook, action: "deliveries" }) },
                    { name: words.change, onChoose: () => onChoose({ hook, action: "change" }) },
                    ...(hook.kind === "webhook"
                      ? [{ name: words.renew, onChoose: () => onChoose({ hook, action: "renew" }) }]
                      : []),
                    { name: words.remove, danger: true, onChoose: () => onChoose({ hook, action: "remove" }) },
                  ]}
                />
              </Td>
            </Tr>
          ))}
        </Tbody>
      </Table>
    </>
  );
}

function LastDelivery({ delivery }: { readonly delivery: Delivery }) {
  return (
    <>
      <DeliveryState delivery={delivery} /> <Time at={delivery.ended_at ?? delivery.created_at} ago /> {delivery.problem}
    </>
  );
}
