// SPDX-License-Identifier: Apache-2.0
/** Active datastores that the target or the NFS server does not serve. */

import { useQuery } from "@tanstack/react-query";
import { readinessQuery } from "../../api/queries";
import type { Readiness } from "../../api/types";

/** The evidence of readiness, by the datastore's identifier. */
function unservedOf({ checks }: Readiness): ReadonlyMap<string, string> {
  const failed = checks.filter(({ id, result }) => (id === "served" || id === "exported") && result === "failed");
  return new Map(failed.map(({ subject, evidence }) => [subject, evidence]));
}

/** Undefined until readiness is loaded. */
export function useUnserved(): ReadonlyMap<string, string> | undefined {
  return useQuery({ ...readinessQuery, select: unservedOf }).data;
}
