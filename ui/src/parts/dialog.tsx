// SPDX-License-Identifier: Apache-2.0
/** A dialog that sends a request: text, form, problem and, if the service offers it, force. */

import { Button, Checkbox, Form, ModalBody, ModalFooter, ModalHeader, ModalVariant } from "@patternfly/react-core";
import { useId, useState, type ReactNode } from "react";
import type { ApiProblem } from "../api/problem";
import { text } from "../text";
import { currentProblem } from "./answered";
import { TextField } from "./field";
import { firstField } from "./focus";
import type { News } from "./known";
import { Modal } from "./patternfly";
import { ProblemAlert } from "./problem-alert";

interface Props {
  readonly title: string;
  readonly lead?: string;
  readonly submit: string;
  readonly danger?: boolean;
  /** A text that must be typed before sending. */
  readonly confirm?: string;
  readonly ready?: boolean;
  readonly pending: boolean;
  readonly problem: ApiProblem | null;
  /** Facts that have changed meanwhile, if that is the problem. */
  readonly news?: readonly News[];
  /** The request's body as JSON, without force: force is offered only while the body is the same. */
  readonly body: string;
  readonly knownFields?: readonly string[];
  /** Whether the user may use force. */
  readonly mayForce?: boolean;
  readonly onSubmit: (force: boolean) => void;
  readonly onClose: () => void;
  readonly children?: ReactNode;
}

export function SendDialog({
  title,
  lead,
  submit,
  danger = false,
  confirm,
  ready = true,
  pending,
  problem: reported,
  news = [],
  body,
  knownFields,
  mayForce = true,
  onSubmit,
  onClose,
  children,
}: Props) {
  const id = useId();
  const [typed, setTyped] = useState("");
  const [force, setForce] = useState(false);
  const [sent, setSent] = useState<string | null>(null);
  const words = text.datastores.detail.actions;
  const problem = currentProblem(reported, sent, body);
  const canForce = mayForce && (problem?.canForce ?? false);
  const sendable = ready && !pending && (confirm === undefined || typed === confirm);
  // While a request is pending the dialog stays, to show a refusal. Requests end within 65 s.
  const close = () => {
    if (!pending) onClose();
  };
  return (
    <Modal
      isOpen
      variant={ModalVariant.small}
      onClose={close}
      aria-labelledby={`${id}-title`}
      elementToFocus={firstField(`${id}-form`, `${id}-cancel`)}
    >
      <ModalHeader title={title} labelId={`${id}-title`} titleIconVariant={danger ? "warning" : undefined} />
      <ModalBody>
        <Form
          id={`${id}-form`}
          noValidate
          onSubmit={(event) => {
            event.preventDefault();
            if (!sendable || (canForce && !force)) return;
            // The tick was for the earlier refusal; another refusal must be read first.
            setForce(false);
            setSent(body);
            onSubmit(canForce);
          }}
        >
          {lead !== undefined && <p>{lead}</p>}
          {children}
          {confirm !== undefined && (
            <TextField
              id={`${id}-confirm`}
              label={text.common.typeToConfirm(confirm)}
              value={typed}
              onChange={setTyped}
              required
            />
          )}
          {problem !== null && <ProblemAlert problem={problem} knownFields={knownFields} news={news} />}
          {canForce && (
            <Checkbox
              id={`${id}-force`}
              label={words.forceHelp}
              isChecked={force}
              onChange={(_event, checked) => setForce(checked)}
            />
          )}
        </Form>
      </ModalBody>
      <ModalFooter>
        <Button
          type="submit"
          form={`${id}-form`}
          variant={danger ? "danger" : "primary"}
          isLoading={pending}
          isDisabled={!sendable || (canForce && !force)}
        >
          {canForce ? words.force : submit}
        </Button>
        <Button id={`${id}-cancel`} variant="link" isDisabled={pending} onClick={onClose}>
          {text.common.cancel}
        </Button>
      </ModalFooter>
    </Modal>
  );
}
