// SPDX-License-Identifier: Apache-2.0
import { useQuery } from "@tanstack/react-query";
import { Navigate, useLocation } from "react-router";
import { setupQuery } from "../api/queries";
import { Alone } from "../parts/alone";
import { useSession } from "../session/session";
import { text } from "../text";
import { LoginForm } from "./login-form";
import { OidcButton } from "./login-oidc";

/** The page before the login; only addresses of this console. */
function cameFrom(state: unknown): string {
  const { pathname, search, hash } = (state as { from?: Record<string, unknown> } | null)?.from ?? {};
  const address = [pathname, search, hash].filter((part) => typeof part === "string").join("");
  return address.startsWith("/") && !address.startsWith("//") ? address : "/";
}

export function LoginScreen() {
  const { session, ended } = useSession();
  const { data: setup } = useQuery(setupQuery);
  const location = useLocation();
  if (setup?.needed) return <Navigate to="/first-start" replace />;
  if (session !== null && !ended) return <Navigate to={cameFrom(location.state)} replace />;
  return (
    <Alone page={text.session.login.page} title={text.session.login.title}>
      <LoginForm submit={text.session.login.submit} />
      <OidcButton from={cameFrom(location.state)} />
    </Alone>
  );
}
