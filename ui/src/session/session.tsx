// SPDX-License-Identifier: Apache-2.0
/** The logged-in user: read once, cached, removed by any 401. */

import { focusManager, queryOptions, useQuery, useQueryClient, type QueryClient } from "@tanstack/react-query";
import { createContext, use, useCallback, useEffect, useMemo, useRef, type ReactNode } from "react";
import { api, setCsrfToken, unwrap } from "../api/client";
import { listen } from "../api/events";
import { ApiProblem, asProblem } from "../api/problem";
import type { Role, Session } from "../api/types";

const KEY = ["session"];
/** Message to other tabs after a login or logout: all tabs have one cookie. */
const CHANNEL = "zvaai-session";
const RANK: Record<Role, number> = { viewer: 1, operator: 2, admin: 3 };

/** `ended`: the session has ended; the page and its input stay. */
interface Known {
  readonly session: Session | null;
  readonly ended: boolean;
}

export const sessionQuery = queryOptions({
  queryKey: KEY,
  queryFn: async ({ client, signal }): Promise<Known> => {
    try {
      const session = await unwrap(api.GET("/api/v1/session", { signal }));
      setCsrfToken(session.csrf_token ?? null);
      return { session, ended: false };
    } catch (error) {
      if (error instanceof ApiProblem && error.isSession) {
        // The page and its input stay after the end of the session.
        const known = client.getQueryData<Known>(KEY);
        return known?.session ? { ...known, ended: true } : { session: null, ended: false };
      }
      throw error;
    }
  },
  staleTime: Infinity,
  gcTime: Infinity,
});

/** Sets the known session, and cancels earlier requests: their responses would restore the old state. */
function setKnown(client: QueryClient, known: Known): void {
  void client.cancelQueries({ queryKey: KEY });
  client.setQueryData<Known>(KEY, known);
}

/** After a 401 the session has ended. */
function endSession(client: QueryClient): void {
  setCsrfToken(null);
  const known = client.getQueryData<Known>(KEY);
  // The page's first request is still running: nothing is shown before its response.
  if (known?.session) setKnown(client, { ...known, ended: true });
}

/** Sets the logged-in user. A different user must not see data of the previous user, so the page is reloaded. */
function take(client: QueryClient, session: Session): void {
  setCsrfToken(session.csrf_token ?? null);
  const before = client.getQueryData<Known>(KEY)?.session;
  setKnown(client, { session, ended: false });
  if (before && before.user !== session.user) window.location.assign("/");
  else void client.invalidateQueries({ predicate: (query) => query.queryKey[0] !== KEY[0] });
}

/**
 * Reads the session again: another tab has logged in or out, so the CSRF token of this tab is invalid, or a refusal reported
 * another role. Cached data is only outdated if something of the session has changed.
 */
export async function refreshSession(client: QueryClient): Promise<void> {
  const known = client.getQueryData<Known>(KEY);
  if (!known?.session) return;
  try {
    const session = await unwrap(api.GET("/api/v1/session"));
    const { user, role, csrf_token: token } = known.session;
    if (known.ended || session.user !== user || session.role !== role || session.csrf_token !== token) take(client, session);
  } catch (error) {
    // Other parts report an appliance that does not respond.
    if (asProblem(error).isSession) endSession(client);
  }
}

/** Effect of a refusal on the session: it has ended, or it may be another than this tab knows. */
export function refused(client: QueryClient, problem: ApiProblem): void {
  if (problem.isSession) endSession(client);
  else if (problem.status === 403) void refreshSession(client);
}

interface Credentials {
  readonly name: string;
  readonly password: string;
  readonly code?: string;
}

interface Completed {
  readonly binding: string;
  readonly state: string;
  readonly code: string;
}

interface SessionActions {
  readonly session: Session | null;
  readonly ended: boolean;
  readonly logIn: (credentials: Credentials) => Promise<void>;
  /** Completes a login at the OIDC provider. */
  readonly complete: (login: Completed) => Promise<void>;
  readonly logOut: () => Promise<void>;
}

const SessionContext = createContext<SessionActions | null>(null);

export function SessionProvider({ children }: { readonly children: ReactNode }) {
  const client = useQueryClient();
  const { data: known } = useQuery(sessionQuery);
  const live = known?.session != null && !known.ended;
  const ended = known?.ended ?? false;

  const others = useRef<BroadcastChannel | null>(null);

  // The stream of the previous session may have been refused.
  const token = known?.session?.csrf_token;
  useEffect(() => (live ? listen(client) : undefined), [client, live, token]);
  // Also after the end of the session: the next login can be in another tab.
  useEffect(() => {
    const channel = new BroadcastChannel(CHANNEL);
    channel.onmessage = () => void refreshSession(client);
    others.current = channel;
    return () => channel.close();
  }, [client]);
  // Until the next login nothing is requested, as on a hidden page: each response would be a 401, after which React
  // draws the page below the login again. A dialog of that page would hide the login from screen readers.
  useEffect(() => focusManager.setFocused(ended ? false : undefined), [ended]);

  const begin = useCallback(
    (session: Session) => {
      others.current?.postMessage(null);
      take(client, session);
    },
    [client],
  );
  const logIn = useCallback(
    async (credentials: Credentials) => begin(await unwrap(api.POST("/api/v1/session", { body: credentials }))),
    [begin],
  );
  const complete = useCallback(
    async (login: Completed) => begin(await unwrap(api.POST("/api/v1/session/oidc", { body: login }))),
    [begin],
  );

  const logOut = useCallback(async () => {
    try {
      await unwrap(api.DELETE("/api/v1/session"));
    } catch (error) {
      // The session has already ended.
      if (!asProblem(error).isSession) throw error;
    }
    others.current?.postMessage(null);
    setCsrfToken(null);
    // The session stays in the cache, so that observers see its end; all other data of the user is removed.
    setKnown(client, { session: null, ended: false });
    client.removeQueries({ predicate: (query) => query.queryKey[0] !== KEY[0] });
  }, [client]);

  const session = known?.session ?? null;
  const value = useMemo(() => ({ session, ended, logIn, complete, logOut }), [session, ended, logIn, complete, logOut]);
  return <SessionContext value={value}>{children}</SessionContext>;
}

export function useSession(): SessionActions {
  const value = use(SessionContext);
  if (value === null) throw new Error("useSession is for what is inside of SessionProvider");
  return value;
}

/** Whether the user has at least this role. */
export function useMay(role: Role): boolean {
  const { session } = useSession();
  return session !== null && RANK[session.role] >= RANK[role];
}

/** Shows its children only to users with the role. */
export function May({ least, children }: { readonly least: Role; readonly children: ReactNode }) {
  return useMay(least) ? children : null;
}
