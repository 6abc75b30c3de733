/** A secret that is told once: in a dialog that says so, gone from the page with it. */

import { Button, ClipboardCopy, Modal, ModalBody, ModalFooter, ModalHeader, ModalVariant } from "@patternfly/react-core";
import { useId } from "react";
import { text } from "../text";

interface Props {
  readonly title: string;
  readonly lead: string;
  readonly label: string;
  readonly value: string;
  readonly done: string;
  readonly onClose: () => void;
}

export function SecretDialog({ title, lead, label, value, done, onClose }: Props) {
  const id = useId();
  return (
    <Modal isOpen variant={ModalVariant.small} aria-labelledby={id}>
      <ModalHeader title={title} labelId={id} />
      <ModalBody>
        <p className="zv-lead">{lead}</p>
        <ClipboardCopy isReadOnly hoverTip={text.common.copy} clickTip={text.common.copied} textAriaLabel={label}>
          {value}
        </ClipboardCopy>
      </ModalBody>
      <ModalFooter>
        <Button onClick={onClose}>{done}</Button>
      </ModalFooter>
    </Modal>
  );
}
