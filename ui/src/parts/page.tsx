// SPDX-License-Identifier: Apache-2.0
/** The frame of a screen: title, actions, content. Sets the window's title, and after a link moves the focus to the heading. */

import { Breadcrumb, BreadcrumbItem, Button, Flex, FlexItem, PageSection, Title } from "@patternfly/react-core";
import HelpIcon from "@patternfly/react-icons/dist/esm/icons/help-icon";
import { useEffect, useRef, type ReactNode } from "react";
import { Link, useLocation } from "react-router";
import { sectionOf } from "../shell/help";
import { text } from "../text";
import { useApplianceName } from "./appliance-name";

export function usePageTitle(page: string): void {
  const appliance = useApplianceName() ?? text.common.product;
  useEffect(() => {
    document.title = text.common.pageTitle(page, appliance);
  }, [page, appliance]);
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
  const { pathname, key } = useLocation();
  const heading = useRef<HTMLHeadingElement>(null);
  const isFirst = key === "default";
  // Not at the first load: the keyboard begins with the link that skips the navigation. A form has focused its field already.
  useEffect(() => {
    if (!isFirst && heading.current?.closest("main")?.contains(document.activeElement) === false) heading.current.focus();
    // A screen appears once.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, []);
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
            <Title headingLevel="h1" ref={heading} tabIndex={-1} className="zv-title">
              {title}
            </Title>
            {lead !== undefined && <p className="zv-lead">{lead}</p>}
          </FlexItem>
          <FlexItem>
            <div className="zv-buttons-of-page">
              {actions}
              <Button
                variant="plain"
                component="a"
                href={`/help/${sectionOf(pathname)}`}
                target="_blank"
                rel="noreferrer"
                icon={<HelpIcon />}
                aria-label={text.common.help}
                title={text.common.help}
              />
            </div>
          </FlexItem>
        </Flex>
      </PageSection>
      <PageSection isFilled>{children}</PageSection>
    </>
  );
}
