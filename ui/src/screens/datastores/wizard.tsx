// SPDX-License-Identifier: Apache-2.0
/** A new datastore, step by step; the last step shows all settings. */

import { Wizard, WizardStep } from "@patternfly/react-core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useState } from "react";
import { useNavigate } from "react-router";
import { api, idempotent, unwrap } from "../../api/client";
import { ApiProblem } from "../../api/problem";
import { datastoresQuery, groupsQuery, jobQuery, jobsQuery, poolsQuery } from "../../api/queries";
import type { Datastore, DatastoreCreate, Group, Job, Pool } from "../../api/types";
import { useDraft } from "../../parts/form";
import { JobNews, JobProgress } from "../../parts/job";
import { Screen } from "../../parts/page";
import { ProblemAlert } from "../../parts/problem-alert";
import { QueryBoundary } from "../../parts/states";
import { useSubmission } from "../../parts/use-submission";
import { useMay } from "../../session/session";
import { text } from "../../text";
import { requestOf, clientsProblem, nameProblem, NOTHING_YET, sizeProblem, vmfsProblem, type FormValues } from "./form-values";
import { HostsStep, PlaceStep, ReviewStep, SizeStep, TypeStep } from "./wizard-steps";

const words = text.datastores.wizard;
const DRAFT = "zvaai-new-datastore";
/** The step of each field. */
const STEP_OF: Readonly<Record<string, string>> = {
  name: "place",
  pool: "place",
  size: "size",
  soft_threshold: "size",
  lun: "size",
  encrypted: "size",
  record_size: "size",
  host_groups: "hosts",
  clients: "hosts",
};

export default function NewDatastoreScreen() {
  const pools = useQuery(poolsQuery);
  const groups = useQuery(groupsQuery);
  const stores = useQuery(datastoresQuery);
  const may = useMay("operator");
  return (
    <Screen title={words.title} parent={{ to: "/datastores", name: text.datastores.title }}>
      {may ? (
        <QueryBoundary query={pools} what={words.title}>
          {(loadedPools) => (
            <QueryBoundary query={groups} what={words.title}>
              {(loadedGroups) => <Steps pools={loadedPools} groups={loadedGroups} stores={stores.data ?? []} />}
            </QueryBoundary>
          )}
        </QueryBoundary>
      ) : (
        <ProblemAlert problem={new ApiProblem(403, "forbidden", "")} reading />
      )}
    </Screen>
  );
}

interface Props {
  readonly pools: readonly Pool[];
  readonly groups: readonly Group[];
  readonly stores: readonly Datastore[];
}

function Steps({ pools, groups, stores }: Props) {
  const navigate = useNavigate();
  const client = useQueryClient();
  const [draft, change, discard] = useDraft<FormValues>(DRAFT, () => NOTHING_YET);
  // Pool and host groups of a stored draft can be gone.
  const pool = pools.some(({ name }) => name === draft.pool) ? draft.pool : (pools[0]?.name ?? "");
  const values = { ...draft, pool, groups: draft.groups.filter((id) => groups.some((group) => group.id === id)) };
  const [job, setJob] = useState<Job | null>(null);
  const submission = useSubmission(
    useCallback(
      (body: DatastoreCreate, key: string) => unwrap(api.POST("/api/v1/datastores", { body, headers: idempotent(key) })),
      [],
    ),
    useCallback(
      (begun: Job) => {
        void client.invalidateQueries({ queryKey: jobsQuery.queryKey });
        client.setQueryData(jobQuery(begun.id).queryKey, begun);
        setJob(begun);
      },
      [client],
    ),
  );
  const { problem, pending, fieldProblem } = submission;
  const placed = nameProblem(values, stores) === undefined && values.pool !== "";
  const sized = sizeProblem(values) === undefined && vmfsProblem(values) === undefined;
  const shown = clientsProblem(values) === undefined;
  const marked = (step: string) => [...(problem?.fields.keys() ?? [])].some((field) => STEP_OF[field] === step);
  const status = (step: string) => (marked(step) ? ("error" as const) : ("default" as const));
  const step = { values, change, pools, groups, stores, fieldProblem };
  const common = { backButtonText: text.common.back, cancelButtonText: text.common.cancel };
  if (job !== null)
    return (
      <Creating
        job={job}
        onCreated={() => {
          discard();
          void navigate(`/datastores/${job.subject}/overview`, { replace: true });
        }}
        onFailed={() => setJob(null)}
      />
    );
  // IDs of steps become IDs of their buttons. They must differ from IDs of fields, whose labels would name the button.
  return (
    <Wizard
      className="zv-wizard"
      navAriaLabel={words.title}
      onClose={() => {
        discard();
        void navigate("/datastores");
      }}
      onSave={() => void submission.send(requestOf(values))}
    >
      <WizardStep id="step-type" name={words.steps.type} footer={{ ...common, nextButtonText: text.common.next }}>
        <TypeStep {...step} />
      </WizardStep>
      <WizardStep
        id="step-place"
        name={words.steps.place}
        status={status("place")}
        footer={{ ...common, nextButtonText: text.common.next, isNextDisabled: !placed }}
      >
        <PlaceStep {...step} />
      </WizardStep>
      <WizardStep
        id="step-size"
        name={words.steps.size}
        status={status("size")}
        isDisabled={!placed}
        footer={{ ...common, nextButtonText: text.common.next, isNextDisabled: !sized }}
      >
        <SizeStep {...step} />
      </WizardStep>
      <WizardStep
        id="step-hosts"
        name={words.steps.hosts}
        status={status("hosts")}
        isDisabled={!placed || !sized}
        footer={{ ...common, nextButtonText: text.common.next, isNextDisabled: !shown }}
      >
        <HostsStep {...step} />
      </WizardStep>
      <WizardStep
        id="step-review"
        name={words.steps.review}
        isDisabled={!placed || !sized || !shown}
        footer={{
          ...common,
          nextButtonText: words.review.submit,
          nextButtonProps: { isLoading: pending },
          isNextDisabled: pending || !placed || !sized || !shown,
        }}
      >
        <ReviewStep {...step} problem={problem} onRetry={() => void submission.send(requestOf(values))} />
      </WizardStep>
    </Wizard>
  );
}

interface CreatingProps {
  readonly job: Job;
  readonly onCreated: () => void;
  readonly onFailed: () => void;
}

/** Follows the job. If it fails, a link leads back to the wizard with its input. */
function Creating({ job, onCreated, onFailed }: CreatingProps) {
  const { data: now = job } = useQuery(jobQuery(job.id));
  const ended = useCallback(({ state }: Job) => (state === "succeeded" ? onCreated() : onFailed()), [onCreated, onFailed]);
  return (
    <>
      <h2 className="zv-step-title">{words.started}</h2>
      <JobProgress job={now} />
      <p className="zv-below">{text.common.job.goOn}</p>
      <JobNews id={job.id} onEnd={ended} />
    </>
  );
}
