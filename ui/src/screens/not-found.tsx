// SPDX-License-Identifier: Apache-2.0
import { Button, EmptyState, EmptyStateActions, EmptyStateBody, EmptyStateFooter } from "@patternfly/react-core";
import { useNavigate } from "react-router";
import { usePageTitle } from "../parts/page";
import { text } from "../text";

export function NotFoundScreen() {
  const navigate = useNavigate();
  const words = text.common.notFound;
  usePageTitle(words.title);
  return (
    <EmptyState titleText={words.title} headingLevel="h1">
      <EmptyStateBody>{words.body}</EmptyStateBody>
      <EmptyStateFooter>
        <EmptyStateActions>
          <Button onClick={() => void navigate("/")}>{words.action}</Button>
        </EmptyStateActions>
      </EmptyStateFooter>
    </EmptyState>
  );
}
