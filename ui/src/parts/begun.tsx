// SPDX-License-Identifier: Apache-2.0
/** The jobs that were begun on a page: it tells how each has ended. */

import { useCallback, useState, type ReactNode } from "react";
import { JobNews } from "./job";

export function useBegun(): readonly [begin: (job: string) => void, news: ReactNode] {
  const [jobs, setJobs] = useState<readonly string[]>([]);
  const begin = useCallback((id: string) => setJobs((before) => [...before, id]), []);
  return [begin, jobs.map((id) => <JobNews key={id} id={id} />)];
}
