// SPDX-License-Identifier: Apache-2.0
/** A menu of actions: at the top of a screen, or at the end of a row. */

import { Dropdown, DropdownItem, DropdownList, MenuToggle, type MenuToggleElement } from "@patternfly/react-core";
import EllipsisIcon from "@patternfly/react-icons/dist/esm/icons/ellipsis-v-icon";
import { useState, type Ref } from "react";

export interface Choice {
  readonly name: string;
  readonly danger?: boolean;
  readonly onChoose: () => void;
}

interface Props {
  readonly label: string;
  readonly choices: readonly Choice[];
  /** At the end of a row: three dots. */
  readonly row?: boolean;
}

export function ActionsMenu({ label, choices, row = false }: Props) {
  const [open, setOpen] = useState(false);
  if (choices.length === 0) return null;
  return (
    <Dropdown
      isOpen={open}
      onOpenChange={setOpen}
      onSelect={() => setOpen(false)}
      // A closing dialog returns the focus to the element that had it before.
      shouldFocusToggleOnSelect
      popperProps={{ position: "right" }}
      toggle={(ref: Ref<MenuToggleElement>) =>
        row ? (
          <MenuToggle
            ref={ref}
            variant="plain"
            icon={<EllipsisIcon />}
            isExpanded={open}
            aria-label={label}
            onClick={() => setOpen(!open)}
          />
        ) : (
          <MenuToggle ref={ref} variant="primary" isExpanded={open} onClick={() => setOpen(!open)}>
            {label}
          </MenuToggle>
        )
      }
    >
      <DropdownList>
        {choices.map((choice) => (
          <DropdownItem key={choice.name} isDanger={choice.danger} onClick={choice.onChoose}>
            {choice.name}
          </DropdownItem>
        ))}
      </DropdownList>
    </Dropdown>
  );
}
