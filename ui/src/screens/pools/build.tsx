// SPDX-License-Identifier: Apache-2.0
/** A new pool, or more disks for a pool. */

import { useQuery } from "@tanstack/react-query";
import { useNavigate, useParams } from "react-router";
import { ApiProblem } from "../../api/problem";
import { disksQuery } from "../../api/queries";
import { Screen } from "../../parts/page";
import { ProblemAlert } from "../../parts/problem-alert";
import { QueryBoundary } from "../../parts/states";
import { useMay } from "../../session/session";
import { text } from "../../text";
import { Builder } from "./builder";

/** Without a name in the address a new pool. */
export default function BuildScreen() {
  const { name } = useParams();
  const navigate = useNavigate();
  const query = useQuery(disksQuery);
  const may = useMay("admin");
  const title = name === undefined ? text.pools.create.title : text.pools.extend.title(name);
  return (
    <Screen title={title} parent={{ to: "/pools", name: text.pools.title }}>
      {may ? (
        <QueryBoundary query={query} what={text.pools.disks.list} lines={6}>
          {(disks) => (
            <Builder
              pool={name ?? null}
              disks={disks}
              cancel={text.common.cancel}
              onBegin={(job) => void navigate(`/jobs/${job}`)}
              onCancel={() => void navigate(name === undefined ? "/pools" : `/pools/${name}`)}
            />
          )}
        </QueryBoundary>
      ) : (
        <ProblemAlert problem={new ApiProblem(403, "forbidden", "")} reading />
      )}
    </Screen>
  );
}
