// SPDX-License-Identifier: Apache-2.0
/** Actions on a host, with a dialog for each. */

import type { Host } from "../../api/types";
import { ActionsMenu } from "../../parts/actions-menu";
import { text } from "../../text";
import { ChangeHost, DeleteHost, RemoveChap, SetChap } from "./host-dialogs";

const words = text.hosts;

/** An action that the user has chosen, for its dialog. The dialog stays if the host leaves the list. */
export interface Chosen {
  readonly host: Host;
  readonly action: "change" | "chap" | "unchap" | "delete";
}

interface MenuProps {
  readonly host: Host;
  /** At the end of its row in a list. */
  readonly row?: boolean;
  readonly onChoose: (chosen: Chosen) => void;
}

export function HostMenu({ host, row = false, onChoose }: MenuProps) {
  const choice = (action: Chosen["action"], name: string, danger = false) => ({
    name,
    danger,
    onChoose: () => onChoose({ host, action }),
  });
  return (
    <ActionsMenu
      row={row}
      label={row ? words.actions(host.name) : words.menu}
      choices={[
        choice("change", words.change.action),
        choice("chap", host.chap_name == null ? words.chap.action : words.chap.rotate),
        ...(host.chap_name == null ? [] : [choice("unchap", words.unchap.action, true)]),
        choice("delete", words.delete.action, true),
      ]}
    />
  );
}

interface DialogProps extends Chosen {
  readonly onClose: () => void;
  readonly onDeleted?: () => void;
}

export function HostDialog({ host, action, onClose, onDeleted }: DialogProps) {
  return (
    <>
      {action === "change" && <ChangeHost host={host} onClose={onClose} />}
      {action === "chap" && <SetChap host={host} onClose={onClose} />}
      {action === "unchap" && <RemoveChap host={host} onClose={onClose} />}
      {action === "delete" && <DeleteHost host={host} onClose={onClose} onDone={onDeleted} />}
    </>
  );
}
