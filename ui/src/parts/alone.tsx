// SPDX-License-Identifier: Apache-2.0
/** A page without navigation: login and first start. */

import { Card, CardBody, CardTitle, Title } from "@patternfly/react-core";
import type { ReactNode } from "react";
import { LanguageMenu } from "../shell/menus";
import { Logo } from "./appliance-name";
import { usePageTitle } from "./page";

interface Props {
  readonly page: string;
  readonly title: string;
  readonly wide?: boolean;
  readonly children: ReactNode;
}

export function Alone({ page, title, wide = false, children }: Props) {
  usePageTitle(page);
  return (
    <main className="zv-alone">
      <div className={wide ? "zv-alone-wide" : "zv-alone-narrow"}>
        <div className="zv-alone-head">
          <p className="zv-logo">
            <Logo />
          </p>
          <LanguageMenu isNamed />
        </div>
        <Card isLarge>
          <CardTitle>
            <Title headingLevel="h1" size="2xl">
              {title}
            </Title>
          </CardTitle>
          <CardBody>{children}</CardBody>
        </Card>
      </div>
    </main>
  );
}
