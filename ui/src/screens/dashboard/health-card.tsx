// SPDX-License-Identifier: Apache-2.0
import { Icon } from "@patternfly/react-core";
import CheckCircleIcon from "@patternfly/react-icons/dist/esm/icons/check-circle-icon";
import ExclamationTriangleIcon from "@patternfly/react-icons/dist/esm/icons/exclamation-triangle-icon";
import { useQuery } from "@tanstack/react-query";
import { readinessQuery, statusQuery } from "../../api/queries";
import type { Readiness, Status } from "../../api/types";
import { capitalised } from "../../format/sentence";
import { Facts, type Fact } from "../../parts/facts";
import { Panel } from "../../parts/panel";
import { QueryBoundary } from "../../parts/states";
import { Time } from "../../parts/values";
import { text } from "../../text";

const words = text.dashboard.health;

/** No count: one fault can be a problem of the target, of the reconciliation and an alert. */
function isTroubled(status: Status): boolean {
  const parts = [status.target.problem, status.storage_problem, status.reconcile_problem];
  return parts.some((problem) => problem != null) || status.target.luns_failed > 0 || status.unacknowledged_alerts > 0;
}

export function HealthCard() {
  const query = useQuery(statusQuery);
  const { data: readiness } = useQuery(readinessQuery);
  return (
    <Panel title={words.title} more={{ to: "/readiness", name: words.readiness }}>
      <QueryBoundary query={query} what={words.title} lines={5}>
        {(status) => {
          const troubled = isTroubled(status);
          const failed = readiness && failedChecks(readiness);
          const well = !troubled && failed === 0;
          return (
            <>
              <p className="zv-verdict">
                {(troubled || readiness !== undefined) && (
                  <Icon status={well ? "success" : "warning"} size="lg">
                    {well ? <CheckCircleIcon /> : <ExclamationTriangleIcon />}
                  </Icon>
                )}
                {troubled
                  ? words.needs
                  : readiness === undefined
                    ? words.checksUnknown
                    : well
                      ? words.allWell
                      : checksSaid(readiness)}
              </p>
              <Facts
                facts={[
                  [words.target, capitalised(status.target.problem ?? words.targetRuns(status.target.version))],
                  nfsSaid(readiness),
                  [words.luns, <Luns key="luns" status={status} />],
                  [words.sessions, status.target.sessions],
                  status.storage_problem == null ? null : [words.pools, capitalised(status.storage_problem)],
                  [words.checks, readiness === undefined ? "–" : checksSaid(readiness)],
                  [words.reconciled, status.reconciled_at == null ? text.common.never : <Time at={status.reconciled_at} ago />],
                ]}
              />
            </>
          );
        }}
      </QueryBoundary>
    </Panel>
  );
}

/** Results of the NFS server's readiness, while NFS datastores exist. */
function nfsSaid(readiness: Readiness | undefined): Fact {
  const check = readiness?.checks.find(({ id }) => id === "nfs");
  return check === undefined ? null : [words.nfs, capitalised(check.evidence)];
}

function failedChecks({ checks }: Readiness): number {
  return checks.filter(({ result }) => result !== "ok").length;
}

function checksSaid(readiness: Readiness): string {
  const [failed, all] = [failedChecks(readiness), readiness.checks.length];
  return failed === 0 ? words.checksPassed(all) : words.checksNeedy(failed, all);
}

function Luns({ status }: { readonly status: Status }) {
  const { luns_serving: serving, luns_failed: failed } = status.target;
  return failed > 0 ? `${serving}, ${words.lunsFailed(failed)}` : String(serving);
}
