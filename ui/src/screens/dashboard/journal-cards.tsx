// SPDX-License-Identifier: Apache-2.0
import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import { activeJobsQuery, alertsQuery } from "../../api/queries";
import type { Alert } from "../../api/types";
import { capitalised } from "../../format/sentence";
import { JobProgress, jobName } from "../../parts/job";
import { Panel } from "../../parts/panel";
import { Severity } from "../../parts/severity";
import { QueryBoundary } from "../../parts/states";
import { Time } from "../../parts/values";
import { text } from "../../text";

const SHOWN = 5;
const SEVERITIES: readonly Alert["severity"][] = ["critical", "warning", "info"];

/** The most severe first; of one severity the newest. */
function bySeverity(alerts: readonly Alert[]): Alert[] {
  return alerts.toSorted((first, other) => SEVERITIES.indexOf(first.severity) - SEVERITIES.indexOf(other.severity));
}

export function AlertsCard() {
  const words = text.dashboard.alerts;
  const query = useQuery(alertsQuery);
  return (
    <Panel title={words.title} more={{ to: "/alerts", name: words.all }}>
      <QueryBoundary query={query} what={words.title}>
        {(alerts) =>
          alerts.length === 0 ? (
            <p>{words.none}</p>
          ) : (
            <ul className="zv-lines">
              {bySeverity(alerts)
                .slice(0, SHOWN)
                .map((alert) => (
                  <li key={alert.id}>
                    <Severity of={alert} /> <span>{capitalised(alert.text)}</span> <Time at={alert.raised_at} ago />
                  </li>
                ))}
            </ul>
          )
        }
      </QueryBoundary>
    </Panel>
  );
}

export function JobsCard() {
  const words = text.dashboard.jobs;
  const query = useQuery(activeJobsQuery);
  return (
    <Panel title={words.title} more={{ to: "/jobs", name: words.all }}>
      <QueryBoundary query={query} what={words.title}>
        {(jobs) =>
          jobs.length === 0 ? (
            <p>{words.none}</p>
          ) : (
            <ul className="zv-lines">
              {jobs.slice(0, SHOWN).map((job) => (
                <li key={job.id}>
                  <Link to={`/jobs/${job.id}`}>{jobName(job)}</Link> <JobProgress job={job} />
                </li>
              ))}
            </ul>
          )
        }
      </QueryBoundary>
    </Panel>
  );
}
