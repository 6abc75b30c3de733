// SPDX-License-Identifier: Apache-2.0
/** The frame of a screen: title, actions, content. Sets the window's title and moves the focus to the heading. */

import { Breadcrumb, BreadcrumbItem, Flex, FlexItem, PageSection, Title } from "@patternfly/react-core";
import { useEffect, type ReactNode } from "react";
import { Link } from "react-router";
import { text } from "../text";

export function usePageTitle(page: string): void {
  useEffect(() => {
    document.title = text.common.pageTitle(page);
  }, [page]);
}

interface Props {
  readonly title: string;
  readonly lead?: ReactNode;
  readonly actions?: ReactNode;
  /** Pages above this page. */
  readonly parent?: { readonly to: string; readonly name: string };
  readonly children: ReactNode;
}

export function Screen({ title, lead, actions, parent, children }: Props) {
  usePageTitle(title);
  return (
    <>
      <PageSection>
        {parent && (
          <Breadcrumb aria-label={text.common.breadcrumb} className="zv-breadcrumb">
            <BreadcrumbItem
              render={({ className }) => (
                <Link className={className} to={parent.to}>
                  {parent.name}
                </Link>
              )}
            />
            <BreadcrumbItem isActive>{title}</BreadcrumbItem>
          </Breadcrumb>
        )}
        <Flex justifyContent={{ default: "justifyContentSpaceBetween" }} alignItems={{ default: "alignItemsCenter" }}>
          <FlexItem>
            <Title headingLevel="h1">{title}</Title>
            {lead !== undefined && <p className="zv-lead">{lead}</p>}
          </FlexItem>
          {actions !== undefined && <FlexItem>{actions}</FlexItem>}
        </Flex>
      </PageSection>
      <PageSection isFilled>{children}</PageSection>
    </>
  );
}
