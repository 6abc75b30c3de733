// SPDX-License-Identifier: Apache-2.0
/** The frame of each screen: masthead, navigation, banners, the login after the end of a session. */

import {
  Banner,
  Label,
  Masthead,
  MastheadBrand,
  MastheadContent,
  MastheadLogo,
  MastheadMain,
  MastheadToggle,
  Nav,
  NavItem,
  NavList,
  Page,
  PageSidebar,
  PageSidebarBody,
  PageToggleButton,
  SkipToContent,
  Toolbar,
  ToolbarContent,
  ToolbarGroup,
  ToolbarItem,
} from "@patternfly/react-core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Suspense, useEffect, useSyncExternalStore } from "react";
import { Link, Outlet, useLocation } from "react-router";
import { isLost, onConnectionChange } from "../api/connection";
import { statusQuery } from "../api/queries";
import { Logo } from "../parts/appliance-name";
import { Loading } from "../parts/states";
import type { Role } from "../api/types";
import { May, useSession } from "../session/session";
import { text } from "../text";
import { Boundary } from "./boundary";
import { LoginAgain } from "./login-again";
import { LanguageMenu, ThemeMenu, UserMenu } from "./menus";
import { Search } from "./search";

const CONTENT = "content";
const PAGES = [
  ["/", text.common.pages.dashboard],
  ["/datastores", text.common.pages.datastores],
  ["/hosts", text.common.pages.hosts],
  ["/pools", text.common.pages.pools],
  ["/network", text.common.pages.network],
  ["/schedules", text.common.pages.schedules],
  ["/jobs", text.common.pages.jobs],
  ["/alerts", text.common.pages.alerts],
  ["/readiness", text.common.pages.readiness],
  ["/audit", text.common.pages.audit, "admin"],
  ["/logs", text.common.pages.logs, "admin"],
  ["/users", text.common.pages.users],
  ["/system", text.common.pages.system],
] as const satisfies readonly (readonly [path: string, name: string, least?: Role])[];

export function Shell() {
  const { ended } = useSession();
  const { pathname } = useLocation();
  const lost = useSyncExternalStore(onConnectionChange, isLost);

  useAskWhileLost(lost);

  return (
    <Page
      mainContainerId={CONTENT}
      mainTabIndex={-1}
      skipToContent={<SkipToContent href={`#${CONTENT}`}>{text.common.skip}</SkipToContent>}
      masthead={<Top />}
      isManagedSidebar
      sidebar={
        <PageSidebar>
          <PageSidebarBody>
            <Nav aria-label={text.common.navigation}>
              <NavList>
                {PAGES.map(([path, name, least]) => (
                  <May key={path} least={least ?? "viewer"}>
                    {/* The link is a child: NavItem passes `href` to other components and drops `to`, which Link needs. */}
                    <NavItem itemId={path} isActive={path === "/" ? pathname === "/" : pathname.startsWith(path)}>
                      <Link to={path}>{name}</Link>
                    </NavItem>
                  </May>
                ))}
              </NavList>
            </Nav>
          </PageSidebarBody>
        </PageSidebar>
      }
      banner={
        lost ? (
          <Banner status="warning" screenReaderText="">
            <span role="status">{text.problems.lostBanner}</span>
          </Banner>
        ) : undefined
      }
    >
      <Boundary key={screenOf(pathname)}>
        <Suspense fallback={<Loading what={text.common.product} />}>
          <Outlet />
        </Suspense>
      </Boundary>
      {ended && <LoginAgain />}
    </Page>
  );
}

/** The same key for all tabs of a screen: a change of tab neither moves the focus nor discards unfinished input. */
function screenOf(pathname: string): string {
  return pathname.split("/").slice(0, 3).join("/");
}

/** While nothing responds, retries periodically; then reloads all shown data. */
function useAskWhileLost(lost: boolean): void {
  const client = useQueryClient();
  useEffect(() => {
    if (!lost) return undefined;
    const timer = window.setInterval(() => void client.refetchQueries({ queryKey: statusQuery.queryKey }), 3_000);
    return () => {
      window.clearInterval(timer);
      void client.invalidateQueries();
    };
  }, [client, lost]);
}

function Top() {
  const { data: status } = useQuery(statusQuery);
  return (
    <Masthead>
      <MastheadMain>
        <MastheadToggle>
          <PageToggleButton isHamburgerButton aria-label={text.common.navigation} />
        </MastheadToggle>
        <MastheadBrand>
          <MastheadLogo component={LogoLink}>
            <Logo />
          </MastheadLogo>
        </MastheadBrand>
      </MastheadMain>
      <MastheadContent>
        <Toolbar isStatic>
          <ToolbarContent>
            <ToolbarGroup align={{ default: "alignEnd" }} gap={{ default: "gapMd" }} alignItems="center">
              {status !== undefined && status.active_jobs > 0 && (
                <ToolbarItem>
                  <Badge to="/jobs" color="blue" label={text.common.runningJobs(status.active_jobs)} />
                </ToolbarItem>
              )}
              {status !== undefined && status.unacknowledged_alerts > 0 && (
                <ToolbarItem>
                  <Badge to="/alerts" color="orange" label={text.common.openAlerts(status.unacknowledged_alerts)} />
                </ToolbarItem>
              )}
              <ToolbarItem>
                <Search />
              </ToolbarItem>
              <ToolbarItem>
                <LanguageMenu />
              </ToolbarItem>
              <ToolbarItem>
                <ThemeMenu />
              </ToolbarItem>
              <ToolbarItem>
                <UserMenu />
              </ToolbarItem>
            </ToolbarGroup>
          </ToolbarContent>
        </Toolbar>
      </MastheadContent>
    </Masthead>
  );
}

/** The element is not replaced with each status, so that it does not lose the keyboard focus. */
function LogoLink(props: object) {
  return <Link {...props} to="/" className="zv-logo" />;
}

function Badge({ to, color, label }: { readonly to: string; readonly color: "blue" | "orange"; readonly label: string }) {
  return (
    <Label
      color={color}
      render={({ className, content }) => (
        <Link className={className} to={to}>
          {content}
        </Link>
      )}
    >
      {label}
    </Label>
  );
}
