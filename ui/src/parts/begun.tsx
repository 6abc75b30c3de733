// SPDX-License-Identifier: Apache-2.0
/** The jobs that a page has started: reports how each has ended. */

import { useCallback, useState, type ReactNode } from "react";
import type { Job } from "../api/types";
import { JobNews } from "./job";

export function useBegun(onEnd?: (job: Job) => void): readonly [begin: (job: string) => void, news: ReactNode] {
  const [jobs, setJobs] = useState<readonly string[]>([]);
  const begin = useCallback((id: string) => setJobs((before) => [...before, id]), []);
  return [begin, jobs.map((id) => <JobNews key={id} id={id} onEnd={onEnd} />)];
}
