// SPDX-License-Identifier: Apache-2.0
/** The way of a new host to its datastores: its group, what to type on it, and a last step that turns green when the host is there. */

import { Label, ProgressStep, ProgressStepper } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { datastoresQuery, groupsQuery, readinessQuery } from "../../api/queries";
import type { Host, IscsiSession, NfsClient } from "../../api/types";
import { CopyLines } from "../../parts/copy-lines";
import { Panel } from "../../parts/panel";
import { text } from "../../text";
import { linesFor, mountsOf, pathsOf, seenBy } from "./paths";

const words = text.hosts.connect;

interface Props {
  readonly host: Host;
  readonly sessions: readonly IscsiSession[] | undefined;
  readonly clients: readonly NfsClient[] | undefined;
}

export function isConnected({ host, sessions, clients }: Props): boolean {
  return pathsOf(host, sessions ?? []).length + mountsOf(host, clients ?? []).length > 0;
}

export function Connect(props: Props) {
  const { host } = props;
  const { data: groups } = useQuery(groupsQuery);
  const { data: stores = [] } = useQuery(datastoresQuery);
  const { data: readiness } = useQuery(readinessQuery);
  const group = groups?.find((known) => known.id === host.group)?.name;
  const seen = seenBy(host, stores);
  const connected = isConnected(props);
  return (
    <Panel title={words.title}>
      <ProgressStepper isVertical aria-label={words.title}>
        <ProgressStep
          id="connect-group"
          titleId="connect-group-title"
          variant={seen.length > 0 ? "success" : "warning"}
          aria-label={words.group}
          description={group === undefined ? words.noGroup : words.inGroup(group, seen.length)}
        >
          {words.group}
        </ProgressStep>
        <ProgressStep
          id="connect-type"
          titleId="connect-type-title"
          variant={connected ? "success" : "info"}
          isCurrent={!connected}
          aria-label={words.type}
          description={text.hosts.detail.esxcliLead}
        >
          {words.type}
        </ProgressStep>
        <ProgressStep
          id="connect-login"
          titleId="connect-login-title"
          variant={connected ? "success" : "pending"}
          aria-label={words.login}
          description={<Label status={connected ? "success" : "info"}>{connected ? words.connected : words.waiting}</Label>}
        >
          {words.login}
        </ProgressStep>
      </ProgressStepper>
      {readiness !== undefined && (
        <div className="zv-below">
          <CopyLines lines={linesFor(readiness, seen, host.id)} label={text.hosts.detail.copyAll} />
        </div>
      )}
    </Panel>
  );
}
