// SPDX-License-Identifier: Apache-2.0
/** Shows the console to logged-in users; others see the login, or the first start if no administrator exists. */

import { Bullseye } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Navigate, useLocation } from "react-router";
import { setupQuery } from "../api/queries";
import { QueryBoundary } from "../parts/states";
import { sessionQuery } from "../session/session";
import { text } from "../text";

export function Gate({ children }: { readonly children: ReactNode }) {
  const session = useQuery(sessionQuery);
  // Logged-in users do not wait for it.
  const setup = useQuery({ ...setupQuery, enabled: session.data?.session === null });
  const location = useLocation();
  if (session.data?.session) return children;
  return (
    <Bullseye>
      <QueryBoundary query={session} what={text.common.product}>
        {() => (
          <QueryBoundary query={setup} what={text.common.product}>
            {({ needed }) =>
              needed ? <Navigate to="/first-start" replace /> : <Navigate to="/login" replace state={{ from: location }} />
            }
          </QueryBoundary>
        )}
      </QueryBoundary>
    </Bullseye>
  );
}
