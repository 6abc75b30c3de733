// SPDX-License-Identifier: Apache-2.0
import { ActionGroup, Button } from "@patternfly/react-core";
import { text } from "../../text";
import { Portals } from "../system/portals";

const words = text.session.setup.portals;

export function PortalsStep({ onDone }: { readonly onDone: () => void }) {
  return (
    <>
      <h2 className="zv-step-title">{words.title}</h2>
      <p>{words.lead}</p>
      <Portals />
      <ActionGroup>
        <Button onClick={onDone}>{words.submit}</Button>
      </ActionGroup>
    </>
  );
}
