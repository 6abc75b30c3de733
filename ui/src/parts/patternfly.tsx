// SPDX-License-Identifier: Apache-2.0
/** Parts of PatternFly with built-in English words, here with words of the catalogue. */

import * as patternfly from "@patternfly/react-core";
import CloseIcon from "@patternfly/react-icons/dist/esm/icons/rh-microns-close-icon";
import { text } from "../text";

type AlertProps = patternfly.AlertProps & { readonly variant: Exclude<patternfly.AlertProps["variant"], "custom" | undefined> };

export function Alert(props: AlertProps) {
  return <patternfly.Alert variantLabel={text.common.message[props.variant]} {...props} />;
}

export function Modal({ onClose, children, ...props }: Omit<patternfly.ModalProps, "ref"> & { readonly onClose: () => void }) {
  return (
    <patternfly.Modal {...props} onEscapePress={onClose}>
      <div className="pf-v6-c-modal-box__close">
        <patternfly.Button variant="plain" aria-label={text.common.close} icon={<CloseIcon />} onClick={onClose} />
      </div>
      {children}
    </patternfly.Modal>
  );
}

export function SearchInput(props: patternfly.SearchInputProps) {
  return <patternfly.SearchInput resetButtonLabel={text.common.reset} {...props} />;
}

export function Toolbar(props: Omit<patternfly.ToolbarProps, "ref">) {
  return <patternfly.Toolbar clearFiltersButtonText={text.common.clearFilters} {...props} />;
}
