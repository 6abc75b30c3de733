// SPDX-License-Identifier: Apache-2.0
/** A secret that is shown once, in a dialog. The page forgets it when the dialog closes. */

import { Button, Modal, ModalBody, ModalFooter, ModalHeader, ModalVariant } from "@patternfly/react-core";
import { useId } from "react";
import { text } from "../text";
import { CopyLines } from "./copy-lines";

/** The created object, with its secret. */
export interface Made {
  readonly name: string;
  readonly secret: string;
}

interface Props {
  readonly made: Made;
  readonly words: {
    readonly secretTitle: (name: string) => string;
    readonly secretLead: string;
  };
  readonly onClose: () => void;
}

export function SecretDialog({ made, words, onClose }: Props) {
  const id = useId();
  return (
    <Modal isOpen variant={ModalVariant.small} aria-labelledby={id}>
      <ModalHeader title={words.secretTitle(made.name)} labelId={id} />
      <ModalBody>
        <p className="zv-lead">{words.secretLead}</p>
        <CopyLines lines={[made.secret]} label={text.common.copy} />
      </ModalBody>
      <ModalFooter>
        <Button onClick={onClose}>{text.common.close}</Button>
      </ModalFooter>
    </Modal>
  );
}
