// SPDX-License-Identifier: Apache-2.0
/** Content of a screen without data: loading or failed. */

import { Skeleton } from "@patternfly/react-core";
import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { asProblem } from "../api/problem";
import { text } from "../text";
import { ProblemAlert } from "./problem-alert";

export function Loading({ what, lines = 3 }: { readonly what: string; readonly lines?: number }) {
  return (
    <div role="status" aria-busy="true" className="zv-loading">
      {Array.from({ length: lines }, (_, index) => (
        <Skeleton key={index} height="1.5rem" screenreaderText={index === 0 ? text.common.loading(what) : undefined} />
      ))}
    </div>
  );
}

interface Props<Data> {
  readonly query: UseQueryResult<Data>;
  readonly what: string;
  readonly lines?: number;
  readonly children: (data: Data) => ReactNode;
}

/** Data of a query. If a refresh fails, the earlier data stays, with the problem above it. */
export function QueryBoundary<Data>({ query, what, lines, children }: Props<Data>) {
  const failed = query.isError ? (
    <ProblemAlert problem={asProblem(query.error)} reading onRetry={() => void query.refetch()} />
  ) : null;
  if (query.data === undefined) return failed ?? <Loading what={what} lines={lines} />;
  return (
    <>
      {failed}
      {children(query.data)}
    </>
  );
}
