// SPDX-License-Identifier: Apache-2.0
/** Actions on a host, with a dialog for each. */

import { useState } from "react";
import type { Host } from "../../api/types";
import { ActionsMenu } from "../../parts/actions-menu";
import { text } from "../../text";
import { ChangeHost, DeleteHost, RemoveChap, SetChap } from "./host-dialogs";

const words = text.hosts;

interface Props {
  readonly host: Host;
  /** At the end of its row in a list. */
  readonly row?: boolean;
  readonly onDeleted?: () => void;
}

export function HostMenu({ host, row = false, onDeleted }: Props) {
  const [chosen, setChosen] = useState<"change" | "chap" | "unchap" | "delete" | null>(null);
  const onClose = () => setChosen(null);
  return (
    <>
      <ActionsMenu
        row={row}
        label={row ? words.actions(host.name) : words.menu}
        choices={[
          { name: words.change.action, onChoose: () => setChosen("change") },
          { name: host.chap_name == null ? words.chap.action : words.chap.rotate, onChoose: () => setChosen("chap") },
          ...(host.chap_name == null ? [] : [{ name: words.unchap.action, danger: true, onChoose: () => setChosen("unchap") }]),
          { name: words.delete.action, danger: true, onChoose: () => setChosen("delete") },
        ]}
      />
      {chosen === "change" && <ChangeHost host={host} onClose={onClose} />}
      {chosen === "chap" && <SetChap host={host} onClose={onClose} />}
      {chosen === "unchap" && <RemoveChap host={host} onClose={onClose} />}
      {chosen === "delete" && <DeleteHost host={host} onClose={onClose} onDone={onDeleted} />}
    </>
  );
}
