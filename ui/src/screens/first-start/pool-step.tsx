// SPDX-License-Identifier: Apache-2.0
import {
  ActionGroup,
  Button,
  Checkbox,
  CodeBlock,
  CodeBlockCode,
  EmptyState,
  EmptyStateActions,
  EmptyStateBody,
  EmptyStateFooter,
  EmptyStateVariant,
  Form,
  FormGroup,
  Radio,
} from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useQuery } from "@tanstack/react-query";
import { useCallback, useState, type FormEvent } from "react";
import { api, idempotent, unwrap } from "../../api/client";
import { disksQuery } from "../../api/queries";
import type { Disk } from "../../api/types";
import { answerTo, type Answered } from "../../parts/answered";
import { TextField } from "../../parts/field";
import { JobNews } from "../../parts/job";
import { Alert } from "../../parts/patternfly";
import { ProblemAlert } from "../../parts/problem-alert";
import { QueryBoundary } from "../../parts/states";
import { useSubmission } from "../../parts/use-submission";
import { Bytes } from "../../parts/values";
import { text } from "../../text";
import { FEWEST, LAYOUTS, vdevsOf, wrongLayout, type Layout } from "./layout";

const words = text.session.setup.pool;

export function PoolStep({ onLater }: { readonly onLater: () => void }) {
  const query = useQuery(disksQuery);
  return (
    <>
      <h2 className="zv-step-title">{words.title}</h2>
      <p>{words.lead}</p>
      <QueryBoundary query={query} what={words.disks}>
        {(disks) => {
          const free = disks.filter((disk) => disk.used_by == null);
          return free.length === 0 ? (
            <NoDisks onRefresh={() => void query.refetch()} onLater={onLater} />
          ) : (
            <PoolForm disks={free} onLater={onLater} />
          );
        }}
      </QueryBoundary>
    </>
  );
}

function NoDisks({ onRefresh, onLater }: { readonly onRefresh: () => void; readonly onLater: () => void }) {
  return (
    <EmptyState titleText={words.noDisks.title} headingLevel="h3" variant={EmptyStateVariant.sm}>
      <EmptyStateBody>{words.noDisks.body}</EmptyStateBody>
      <EmptyStateFooter>
        <EmptyStateActions>
          <Button onClick={onRefresh}>{words.noDisks.action}</Button>
          <Button variant="link" onClick={onLater}>
            {words.later}
          </Button>
        </EmptyStateActions>
      </EmptyStateFooter>
    </EmptyState>
  );
}

function PoolForm({ disks, onLater }: { readonly disks: readonly Disk[]; readonly onLater: () => void }) {
  const [name, setName] = useState("tank");
  const [layout, setLayout] = useState<Layout>(disks.length >= FEWEST.mirror ? "mirror" : "stripe");
  const [chosen, setChosen] = useState<readonly string[]>([]);
  const values = { name, vdevs: vdevsOf(layout, chosen), force: false };
  const request = JSON.stringify(values);
  const planned = useSubmission(
    useCallback(
      (body: typeof values, key: string) =>
        unwrap(api.POST("/api/v1/pools/plan", { body: { ...body, extend: false }, headers: idempotent(key) })),
      [],
    ),
  );
  const made = useSubmission(
    useCallback((body: typeof values, key: string) => unwrap(api.POST("/api/v1/pools", { body, headers: idempotent(key) })), []),
  );
  const [result, setResult] = useState<Answered<readonly string[]> | null>(null);
  // Valid for the present choice only.
  const plan = answerTo(request, result);
  const [job, setJob] = useState<string | null>(null);
  const wrong = chosen.length > 0 ? wrongLayout(layout, chosen.length) : null;
  const problem = planned.problem ?? made.problem;

  function changed(): void {
    setResult(null);
    planned.forget();
    made.forget();
  }

  function submitted(event: FormEvent): void {
    event.preventDefault();
    if (plan === null)
      void planned.send(values).then((answer) => setResult(answer === undefined ? null : { request, answer: answer.layout }));
    else void made.send(values).then((answer) => setJob(answer?.id ?? null));
  }

  return (
    <Form onSubmit={submitted} className="zv-form">
      <TextField
        id="pool-name"
        label={words.name}
        help={words.nameHelp}
        value={name}
        onChange={(typed) => {
          setName(typed);
          changed();
        }}
        problem={problem?.fields.get("name")}
        required
      />
      <FormGroup role="radiogroup" label={words.layout} fieldId="layout">
        {LAYOUTS.map((option) => (
          <Radio
            key={option}
            id={`layout-${option}`}
            name="layout"
            label={words.layouts[option].label}
            description={words.layouts[option].help}
            isChecked={layout === option}
            isDisabled={disks.length < FEWEST[option]}
            onChange={() => {
              setLayout(option);
              changed();
            }}
          />
        ))}
      </FormGroup>
      <FormGroup label={words.disks} fieldId="disks" role="group">
        <DiskTable
          disks={disks}
          chosen={chosen}
          onChange={(now) => {
            setChosen(now);
            changed();
          }}
        />
      </FormGroup>
      {wrong !== null && <Alert variant="warning" isInline isPlain title={wrong} />}
      {problem !== null && <ProblemAlert problem={problem} knownFields={["name"]} />}
      {plan !== null && (
        <section aria-label={words.review}>
          <h3 className="zv-review">{words.review}</h3>
          <p>{words.reviewLead}</p>
          <CodeBlock>
            <CodeBlockCode>{plan.join("\n")}</CodeBlockCode>
          </CodeBlock>
        </section>
      )}
      {job !== null && <JobNews id={job} onEnd={(ended) => ended.state !== "succeeded" && setJob(null)} />}
      <ActionGroup>
        <Button
          type="submit"
          isLoading={planned.pending || made.pending || job !== null}
          isDisabled={chosen.length === 0 || wrong !== null || planned.pending || made.pending || job !== null}
        >
          {plan === null ? words.preview : words.submit}
        </Button>
        <Button variant="link" onClick={onLater}>
          {words.later}
        </Button>
      </ActionGroup>
    </Form>
  );
}

interface DiskTableProps {
  /** Prefix of IDs, if a form has several tables. */
  readonly prefix?: string;
  readonly disks: readonly Disk[];
  readonly chosen: readonly string[];
  readonly onChange: (chosen: readonly string[]) => void;
}

export function DiskTable({ prefix = "disk", disks, chosen, onChange }: DiskTableProps) {
  const carrying = disks.some((disk) => disk.used_by != null);
  const { usedBy } = text.pools.disks.columns;
  if (disks.length === 0) return <p>{words.noDisks.title}</p>;
  return (
    <Table aria-label={words.disks} variant="compact">
      <Thead>
        <Tr>
          <Th screenReaderText={words.columns.choose} />
          <Th>{words.columns.path}</Th>
          <Th>{words.columns.model}</Th>
          <Th>{words.columns.serial}</Th>
          <Th>{words.columns.kind}</Th>
          <Th>{words.columns.size}</Th>
          {carrying && <Th>{usedBy}</Th>}
        </Tr>
      </Thead>
      <Tbody>
        {disks.map((disk, index) => (
          <Tr key={disk.path}>
            <Td>
              <Checkbox
                id={`${prefix}-${index}`}
                aria-label={words.chooseDisk(disk.path)}
                isChecked={chosen.includes(disk.path)}
                // A disk of an imported pool: force does not help.
                isDisabled={disk.used_by?.startsWith("pool ") ?? false}
                onChange={(_event, checked) =>
                  onChange(checked ? [...chosen, disk.path] : chosen.filter((path) => path !== disk.path))
                }
              />
            </Td>
            <Td dataLabel={words.columns.path} modifier="breakWord">
              {disk.path}
            </Td>
            <Td dataLabel={words.columns.model}>{disk.model || "–"}</Td>
            <Td dataLabel={words.columns.serial}>{disk.serial || "–"}</Td>
            <Td dataLabel={words.columns.kind}>{disk.rotational ? words.rotational : words.solid}</Td>
            <Td dataLabel={words.columns.size}>
              <Bytes value={disk.size} />
            </Td>
            {carrying && <Td dataLabel={usedBy}>{disk.used_by ?? text.pools.disks.free}</Td>}
          </Tr>
        ))}
      </Tbody>
    </Table>
  );
}
