// SPDX-License-Identifier: Apache-2.0
import { ActionGroup, Button } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { statusQuery } from "../../api/queries";
import { QueryBoundary } from "../../parts/states";
import { text } from "../../text";

const words = text.session.setup.portals;

/** Where hosts reach the target. Its addresses are the daemon's to know, so they are shown, not set. */
export function PortalsStep({ onDone }: { readonly onDone: () => void }) {
  const query = useQuery(statusQuery);
  return (
    <>
      <h2 className="zv-step-title">{words.title}</h2>
      <p>{words.lead}</p>
      <QueryBoundary query={query} what={words.title}>
        {({ target }) =>
          target == null || target.portals.length === 0 ? (
            <p>{words.none}</p>
          ) : (
            <>
              <p>{words.listens}</p>
              <ul className="zv-lines">
                {target.portals.map((portal) => (
                  <li key={portal}>
                    <code>{portal}</code>
                  </li>
                ))}
              </ul>
            </>
          )
        }
      </QueryBoundary>
      <p className="zv-lead">{words.change}</p>
      <ActionGroup>
        <Button onClick={onDone}>{words.submit}</Button>
      </ActionGroup>
    </>
  );
}
