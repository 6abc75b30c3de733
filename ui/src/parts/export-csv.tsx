// SPDX-License-Identifier: Apache-2.0
/** A button that saves a list as CSV: the rows that its filters let through, with all their digits. */

import { Button } from "@patternfly/react-core";
import { useState } from "react";
import { asProblem } from "../api/problem";
import { csvOf, type Cell } from "../format/csv";
import { useToast } from "../shell/toasts";
import { text } from "../text";
import { download } from "./download";

interface Props {
  /** Of the file, before its date. */
  readonly name: string;
  readonly head: readonly string[];
  readonly rows: () => readonly (readonly Cell[])[] | Promise<readonly (readonly Cell[])[]>;
}

export function ExportCsv({ name, head, rows }: Props) {
  const [pending, setPending] = useState(false);
  const notify = useToast();
  async function save(): Promise<void> {
    setPending(true);
    try {
      download(csvOf(head, await rows()), "text/csv", `zvaai-${name}-${new Date().toISOString().slice(0, 10)}.csv`);
    } catch (error) {
      notify({ variant: "danger", title: text.common.csvFailed, body: asProblem(error).message });
    }
    setPending(false);
  }
  return (
    <Button variant="secondary" isLoading={pending} isDisabled={pending} onClick={() => void save()}>
      {text.common.csv}
    </Button>
  );
}
