// SPDX-License-Identifier: Apache-2.0
/** Login over a page whose session has ended: its input stays. */

import { Modal, ModalBody, ModalHeader, ModalVariant } from "@patternfly/react-core";
import { LoginForm } from "../screens/login-form";
import { OidcLink } from "../screens/login-oidc";
import { text } from "../text";

export function LoginAgain() {
  const words = text.problems.session;
  return (
    <Modal
      id="login-again-dialog"
      isOpen
      variant={ModalVariant.small}
      aria-labelledby="login-again"
      elementToFocus="#login-password"
    >
      <ModalHeader title={words.title} labelId="login-again" description={`${words.body} ${words.remedy}`} />
      <ModalBody>
        <LoginForm submit={text.session.login.again} />
        <OidcLink />
      </ModalBody>
    </Modal>
  );
}
