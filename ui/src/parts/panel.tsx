// SPDX-License-Identifier: Apache-2.0
/** A card with a heading, and a link to details. */

import { Card, CardBody, CardHeader, CardTitle, Title } from "@patternfly/react-core";
import { useId, type ReactNode } from "react";
import { Link } from "react-router";

interface Props {
  readonly title: string;
  readonly lead?: string;
  readonly more?: { readonly to: string; readonly name: string };
  readonly children: ReactNode;
}

export function Panel({ title, lead, more, children }: Props) {
  const id = useId();
  const actions = more && <Link to={more.to}>{more.name}</Link>;
  return (
    <Card isFullHeight component="section" aria-labelledby={id}>
      <CardHeader actions={actions ? { actions, hasNoOffset: true } : undefined}>
        <CardTitle>
          <Title headingLevel="h2" size="lg" id={id}>
            {title}
          </Title>
          {lead !== undefined && <p className="zv-lead">{lead}</p>}
        </CardTitle>
      </CardHeader>
      <CardBody>{children}</CardBody>
    </Card>
  );
}
