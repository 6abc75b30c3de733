// SPDX-License-Identifier: Apache-2.0
/** A configuration is replaced in two steps: the first request is a dry run, whose changes are shown. */

import { List, ListItem } from "@patternfly/react-core";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { answerTo, type Answered } from "../../parts/answered";
import { useToast } from "../../shell/toasts";
import { text } from "../../text";

const words = text.system.configuration;

interface Changed {
  readonly changes: readonly string[];
}

/** `request`: the values of the form. Changes of other values are discarded: only shown changes are made. */
export function usePreview(request: string, done: string, onClose: () => void) {
  const client = useQueryClient();
  const notify = useToast();
  const [result, setResult] = useState<Answered<readonly string[]> | null>(null);

  async function take(sent: Promise<Changed | undefined>, isDryRun: boolean): Promise<void> {
    const answer = await sent;
    if (answer === undefined) return;
    if (isDryRun) {
      setResult({ request, answer: answer.changes });
      return;
    }
    void client.invalidateQueries();
    notify({ variant: "success", title: done });
    onClose();
  }

  return { changes: answerTo(request, result), take, discard: () => setResult(null) };
}

export function Changes({ changes }: Changed) {
  return (
    <div role="status">
      <strong>{words.changes}</strong>
      {changes.length === 0 ? (
        <p>{words.noChanges}</p>
      ) : (
        <List>
          {changes.map((change) => (
            <ListItem key={change}>{change}</ListItem>
          ))}
        </List>
      )}
    </div>
  );
}
