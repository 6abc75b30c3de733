// SPDX-License-Identifier: Apache-2.0
/** A short list in a card, with a button below to add an entry. */

import { Button } from "@patternfly/react-core";
import type { UseQueryResult } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { Panel } from "./panel";
import { QueryBoundary } from "./states";

interface Props<Item> {
  readonly words: {
    readonly title: string;
    readonly lead?: string;
    /** Text for an empty list. */
    readonly empty?: string;
    readonly create: string;
  };
  readonly query: UseQueryResult<readonly Item[]>;
  readonly creator: (onClose: () => void) => ReactNode;
  readonly children: (items: readonly Item[]) => ReactNode;
}

export function ListPanel<Item>({ words, query, creator, children }: Props<Item>) {
  const [creating, setCreating] = useState(false);
  return (
    <Panel title={words.title} lead={words.lead}>
      <QueryBoundary query={query} what={words.title}>
        {(items) => (items.length === 0 && words.empty !== undefined ? <p>{words.empty}</p> : children(items))}
      </QueryBoundary>
      <div className="zv-buttons">
        <Button variant="secondary" onClick={() => setCreating(true)}>
          {words.create}
        </Button>
      </div>
      {creating && creator(() => setCreating(false))}
    </Panel>
  );
}
