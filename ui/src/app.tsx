// SPDX-License-Identifier: Apache-2.0
/** Providers, the cache, and the screen of each address. */

import { MutationCache, QueryCache, QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { lazy, Suspense } from "react";
import { BrowserRouter, Navigate, Route, Routes } from "react-router";
import { asProblem } from "./api/problem";
import { Loading } from "./parts/states";
import { AlertsScreen } from "./screens/alerts";
import { DashboardScreen } from "./screens/dashboard/dashboard";
import { DatastoresScreen } from "./screens/datastores/list";
import { FirstStartScreen } from "./screens/first-start/first-start";
import { JobScreen, JobsScreen } from "./screens/jobs";
import { LoginScreen } from "./screens/login";
import { OidcScreen } from "./screens/login-oidc";
import { NotFoundScreen } from "./screens/not-found";
import { ReadinessScreen } from "./screens/readiness";
import { refused, SessionProvider, sessionQuery } from "./session/session";
import { Boundary } from "./shell/boundary";
import { Gate } from "./shell/gate";
import { Shell } from "./shell/shell";
import { Toasts } from "./shell/toasts";
import { text } from "./text";

const NewDatastoreScreen = lazy(() => import("./screens/datastores/wizard"));
const AuditScreen = lazy(() => import("./screens/audit"));
const LogsScreen = lazy(() => import("./screens/logs"));
const PeopleScreen = lazy(() => import("./screens/people/people"));
const SystemScreen = lazy(() => import("./screens/system/system"));
const DatastoreScreen = lazy(() => import("./screens/datastores/detail"));
const HostsScreen = lazy(() => import("./screens/hosts/list"));
const HostScreen = lazy(() => import("./screens/hosts/detail"));
const PoolsScreen = lazy(() => import("./screens/pools/list"));
const PoolScreen = lazy(() => import("./screens/pools/detail"));
const NetworkScreen = lazy(() => import("./screens/network"));
const SchedulesScreen = lazy(() => import("./screens/schedules/list"));
const BuildScreen = lazy(() => import("./screens/pools/build"));

/** The cache of one page. The session is requested together with the screen's data. */
export function newCache(): QueryClient {
  const onError = (error: Error): void => refused(client, asProblem(error));
  const client: QueryClient = new QueryClient({
    queryCache: new QueryCache({ onError }),
    mutationCache: new MutationCache({ onError }),
    defaultOptions: {
      queries: {
        staleTime: 5_000,
        // Requests show whether the appliance can be reached; the browser only knows its network cards.
        networkMode: "always",
        // A refused request would be refused again. A request without a response is repeated while the banner is shown.
        retry: (count, error) => asProblem(error).isConnection && count < 2,
        retryDelay: 1_000,
      },
    },
  });
  void client.query(sessionQuery).catch(() => undefined);
  return client;
}

export function App({ client }: { readonly client: QueryClient }) {
  return (
    <Boundary>
      <QueryClientProvider client={client}>
        <SessionProvider>
          <Toasts>
            <BrowserRouter>
              <Suspense fallback={<Loading what={text.common.product} />}>
                <Routes>
                  <Route path="/login" element={<LoginScreen />} />
                  <Route path="/login/oidc" element={<OidcScreen />} />
                  <Route path="/first-start" element={<FirstStartScreen />} />
                  <Route
                    element={
                      <Gate>
                        <Shell />
                      </Gate>
                    }
                  >
                    <Route index element={<DashboardScreen />} />
                    <Route path="/datastores" element={<DatastoresScreen />} />
                    <Route path="/datastores/new" element={<NewDatastoreScreen />} />
                    <Route path="/datastores/:id" element={<Navigate to="overview" replace relative="path" />} />
                    <Route path="/datastores/:id/:tab" element={<DatastoreScreen />} />
                    <Route path="/hosts" element={<HostsScreen />} />
                    <Route path="/hosts/:id" element={<HostScreen />} />
                    <Route path="/pools" element={<PoolsScreen />} />
                    {/* Not the name of a pool: those begin with a letter. */}
                    <Route path="/pools/-new" element={<BuildScreen />} />
                    <Route path="/pools/:name" element={<PoolScreen />} />
                    <Route path="/pools/:name/extend" element={<BuildScreen />} />
                    <Route path="/network" element={<NetworkScreen />} />
                    <Route path="/schedules" element={<SchedulesScreen />} />
                    <Route path="/jobs" element={<JobsScreen />} />
                    <Route path="/jobs/:id" element={<JobScreen />} />
                    <Route path="/alerts" element={<AlertsScreen />} />
                    <Route path="/readiness" element={<ReadinessScreen />} />
                    <Route path="/audit" element={<AuditScreen />} />
                    <Route path="/logs" element={<LogsScreen />} />
                    <Route path="/users" element={<PeopleScreen />} />
                    <Route path="/system" element={<SystemScreen />} />
                    <Route path="*" element={<NotFoundScreen />} />
                  </Route>
                </Routes>
              </Suspense>
            </BrowserRouter>
          </Toasts>
        </SessionProvider>
      </QueryClientProvider>
    </Boundary>
  );
}
