// SPDX-License-Identifier: Apache-2.0
/** The form for a new pool, or for more disks of a pool: choice, dry run with the layout, request. */

import {
  ActionGroup,
  Button,
  Checkbox,
  CodeBlock,
  CodeBlockCode,
  ExpandableSection,
  Form,
  FormGroup,
  List,
  ListItem,
} from "@patternfly/react-core";
import { useCallback, useState, type FormEvent } from "react";
import { api, idempotent, unwrap } from "../../api/client";
import type { Disk, PoolPlan, VdevCreate } from "../../api/types";
import { formatBytes } from "../../format/bytes";
import { answerTo, type Answered } from "../../parts/answered";
import { ChoiceField, TextField } from "../../parts/field";
import { useForm } from "../../parts/form";
import { Panel } from "../../parts/panel";
import { Alert } from "../../parts/patternfly";
import { ProblemAlert } from "../../parts/problem-alert";
import { useSubmission } from "../../parts/use-submission";
import { text } from "../../text";
import { DiskTable } from "./disk-table";
import { firstLayout, LAYOUTS, ROLES, vdevsOf, wrongPart, type Layout, type Part, type Role } from "./layout";

const words = text.pools.build;
const ASHIFTS = [9, 10, 11, 12, 13, 14, 15, 16] as const;

interface PoolBody {
  readonly name: string;
  readonly vdevs: VdevCreate[];
  readonly force: boolean;
}

/** Settings of a new pool; a dry run does not depend on them. */
interface Settings {
  readonly ashift: number;
  readonly autotrim: boolean;
}

interface Props {
  /** The pool that gets the disks; null for a new pool. */
  readonly pool: string | null;
  readonly disks: readonly Disk[];
  /** Whether the started job still runs, if this page follows it. */
  readonly busy?: boolean;
  /** Name of the button for `onCancel`. */
  readonly cancel: string;
  /** Gets the started job. */
  readonly onBegin: (job: string) => void;
  readonly onCancel: () => void;
}

export function Builder({ pool, disks, busy = false, cancel, onBegin, onCancel }: Props) {
  const [name, setName] = useState(pool ?? "tank");
  const [chosen, setParts] = useState<readonly Part[]>(() => [{ role: "data", layout: firstLayout(pool, disks), devices: [] }]);
  const [carrying, setCarrying] = useState(false);
  const [forced, setForced] = useState<string | null>(null);
  const [settings, change] = useForm<Settings>({ ashift: 12, autotrim: false });
  const [result, setResult] = useState<Answered<PoolPlan> | null>(null);
  const [sent, setSent] = useState<string | null>(null);
  const planned = useSubmission(
    useCallback(
      (body: PoolBody, key: string) =>
        unwrap(api.POST("/api/v1/pools/plan", { body: { ...body, extend: pool !== null }, headers: idempotent(key) })),
      [pool],
    ),
  );
  const made = useSubmission(
    useCallback(
      ({ name: called, ashift, autotrim, ...body }: PoolBody & Settings, key: string) =>
        pool === null
          ? unwrap(api.POST("/api/v1/pools", { body: { name: called, ashift, autotrim, ...body }, headers: idempotent(key) }))
          : unwrap(api.POST("/api/v1/pools/{name}/extend", { params: { path: { name: pool } }, body, headers: idempotent(key) })),
      [pool],
    ),
    useCallback((job: { id: string }) => onBegin(job.id), [onBegin]),
  );
  // A chosen disk can leave the list.
  const parts = chosen.map((part) => ({
    ...part,
    devices: part.devices.filter((path) => disks.some((disk) => disk.path === path)),
  }));
  const values = { name, vdevs: parts.flatMap(vdevsOf) };
  const request = JSON.stringify(values);
  // A dry run, its problems and force are valid for the present choice only.
  const plan = answerTo(request, result);
  const force = forced === request;
  const problem = sent === request ? (made.problem ?? planned.problem) : null;
  const devices = parts.flatMap((part) => part.devices);
  // Chosen disks stay visible, even if they turn out to contain data.
  const shown = disks.filter((disk) => carrying || disk.used_by == null || devices.includes(disk.path));
  const pending = planned.pending || made.pending || busy;

  function changed(): void {
    setResult(null);
    setForced(null);
    planned.forget();
    made.forget();
  }

  function setPart(index: number, part: Part): void {
    setParts(parts.map((other, at) => (at === index ? part : other)));
    changed();
  }

  function submitted(event: FormEvent): void {
    event.preventDefault();
    const body: PoolBody = { ...values, force };
    setSent(request);
    if (plan !== null) void made.send({ ...body, ...settings });
    else void planned.send(body).then((answer) => setResult(answer === undefined ? null : { request, answer }));
  }

  return (
    <Form onSubmit={submitted} className="zv-form">
      {pool === null ? (
        <TextField
          id="pool-name"
          label={words.name}
          help={words.nameHelp}
          value={name}
          onChange={(typed) => {
            setName(typed);
            changed();
          }}
          problem={problem?.at("name")}
          required
        />
      ) : (
        <Alert variant="info" isInline isPlain component="p" title={words.permanent} />
      )}
      <Checkbox id="carrying" label={words.carrying} isChecked={carrying} onChange={(_event, on) => setCarrying(on)} />
      {parts.map((part, index) => (
        <PartFields
          // Parts have no identity but their position.
          key={index}
          index={index}
          part={part}
          disks={shown.filter((disk) => part.devices.includes(disk.path) || !devices.includes(disk.path))}
          onChange={(now) => setPart(index, now)}
          onRemove={
            parts.length > 1
              ? () => {
                  setParts(parts.filter((_part, at) => at !== index));
                  changed();
                }
              : null
          }
        />
      ))}
      <div>
        <Button
          variant="secondary"
          onClick={() => {
            setParts([...parts, { role: "spare", layout: "stripe", devices: [] }]);
            changed();
          }}
        >
          {words.add}
        </Button>
      </div>
      {pool === null && <MoreSettings settings={settings} change={change} />}
      {problem !== null && <ProblemAlert problem={problem} knownFields={pool === null ? ["name"] : []} />}
      {problem?.canForce === true && (
        <Checkbox
          id="build-force"
          label={words.force}
          isChecked={force}
          onChange={(_event, on) => setForced(on ? request : null)}
        />
      )}
      {plan !== null && <Plan plan={plan} devices={devices} disks={disks} />}
      <ActionGroup>
        <Button
          type="submit"
          variant={plan === null ? "primary" : "danger"}
          isLoading={pending}
          isDisabled={pending || name === "" || parts.some((part) => wrongPart(part) !== null)}
        >
          {plan === null ? words.preview : pool === null ? text.pools.create.submit : text.pools.extend.submit}
        </Button>
        <Button variant="link" onClick={onCancel}>
          {cancel}
        </Button>
      </ActionGroup>
    </Form>
  );
}

interface MoreProps {
  readonly settings: Settings;
  readonly change: (part: Partial<Settings>) => void;
}

function MoreSettings({ settings, change }: MoreProps) {
  const [open, setOpen] = useState(false);
  return (
    <ExpandableSection toggleText={text.common.moreSettings} isExpanded={open} onToggle={(_event, expanded) => setOpen(expanded)}>
      <div className="zv-wide-choices">
        <ChoiceField
          id="ashift"
          label={words.ashift}
          help={words.ashiftHelp}
          value={String(settings.ashift)}
          options={ASHIFTS.map((ashift) => [String(ashift), `${ashift}: ${formatBytes(2 ** ashift)}`])}
          onChange={(chosen) => change({ ashift: Number(chosen) })}
        />
        <Checkbox
          id="autotrim"
          label={words.autotrim}
          description={words.autotrimHelp}
          isChecked={settings.autotrim}
          onChange={(_event, autotrim) => change({ autotrim })}
        />
      </div>
    </ExpandableSection>
  );
}

interface PlanProps {
  readonly plan: PoolPlan;
  readonly devices: readonly string[];
  readonly disks: readonly Disk[];
}

/** Force applies to all disks: the text says what each contains. */
function Plan({ plan, devices, disks }: PlanProps) {
  return (
    <section aria-label={words.review}>
      <h2 className="zv-step-title">{words.review}</h2>
      <p role="status">{words.dryRun}</p>
      <CodeBlock>
        <CodeBlockCode>{plan.layout.join("\n")}</CodeBlockCode>
      </CodeBlock>
      {plan.warnings.map((warning) => (
        <Alert key={warning} variant="warning" isInline isPlain component="p" title={warning} />
      ))}
      <p className="zv-below">{words.reviewLead(devices.length)}</p>
      <List>
        {devices.map((path) => (
          <ListItem key={path}>{words.carries(path, disks.find((disk) => disk.path === path)?.used_by ?? null)}</ListItem>
        ))}
      </List>
    </section>
  );
}

interface PartProps {
  readonly index: number;
  readonly part: Part;
  readonly disks: readonly Disk[];
  readonly onChange: (part: Part) => void;
  readonly onRemove: (() => void) | null;
}

function PartFields({ index, part, disks, onChange, onRemove }: PartProps) {
  const wrong = part.devices.length > 0 ? wrongPart(part) : null;
  const id = `part-${index}`;
  function setRole(chosen: string): void {
    const role: Role = ROLES.find((role) => role === chosen) ?? "data";
    onChange({ ...part, role, layout: LAYOUTS[role].includes(part.layout) ? part.layout : "stripe" });
  }
  function setLayout(chosen: string): void {
    const layout: Layout = LAYOUTS[part.role].find((layout) => layout === chosen) ?? "stripe";
    onChange({ ...part, layout });
  }
  return (
    <Panel title={words.part(index + 1)}>
      <div className="zv-wide-choices">
        <ChoiceField
          id={`${id}-role`}
          label={words.role}
          help={words.roleHelp[part.role]}
          value={part.role}
          options={ROLES.map((role) => [role, words.roles[role]])}
          onChange={setRole}
        />
        <ChoiceField
          id={`${id}-layout`}
          label={words.layout}
          value={part.layout}
          options={LAYOUTS[part.role].map((layout) => [layout, words.layouts[layout]])}
          onChange={setLayout}
        />
        <FormGroup label={words.disks} fieldId={`${id}-disks`} role="group">
          <DiskTable
            prefix={`${id}-disk`}
            disks={disks}
            chosen={part.devices}
            onChange={(devices) => onChange({ ...part, devices })}
          />
        </FormGroup>
        {wrong !== null && <Alert variant="warning" isInline isPlain component="p" title={wrong} />}
        {onRemove !== null && (
          <div>
            <Button variant="link" isInline onClick={onRemove}>
              {words.remove(index + 1)}
            </Button>
          </div>
        )}
      </div>
    </Panel>
  );
}
