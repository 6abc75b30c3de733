// SPDX-License-Identifier: Apache-2.0
/** The steps of the wizard for a new datastore. */

import {
  Alert,
  Checkbox,
  EmptyState,
  EmptyStateBody,
  EmptyStateVariant,
  ExpandableSection,
  Form,
  FormGroup,
  FormSelect,
  FormSelectOption,
  Radio,
} from "@patternfly/react-core";
import { useState } from "react";
import type { ApiProblem } from "../../api/problem";
import type { Datastore, Group, Pool } from "../../api/types";
import { formatBytes, formatShare } from "../../format/bytes";
import { Facts } from "../../parts/facts";
import { describedBy, Field, TextField } from "../../parts/field";
import { useFocus } from "../../parts/focus";
import { ProblemAlert } from "../../parts/problem-alert";
import { text } from "../../text";
import { promised } from "./promise";
import { Provisioning } from "./provisioning";
import {
  BLOCK_SIZES,
  clientsOf,
  clientsProblem,
  COMPRESSIONS,
  isTooThick,
  nameProblem,
  RECORD_SIZES,
  sizeOf,
  sizeProblem,
  thresholdProblem,
  type Wanted,
} from "./wanted";

const words = text.datastores.wizard;
const KINDS = ["vmfs", "nfs"] as const;

interface StepProps {
  readonly wanted: Wanted;
  readonly change: (part: Partial<Wanted>) => void;
  readonly pools: readonly Pool[];
  readonly groups: readonly Group[];
  readonly stores: readonly Datastore[];
  /** What the service said of a field. */
  readonly fieldProblem: (name: string) => string | undefined;
}

export function TypeStep({ wanted, change }: Pick<StepProps, "wanted" | "change">) {
  return (
    <Form onSubmit={(event) => event.preventDefault()}>
      <h2 className="zv-step-title">{words.type.title}</h2>
      {KINDS.map((kind) => (
        <Radio
          key={kind}
          id={`type-${kind}`}
          name="type"
          label={words.type[kind].label}
          description={words.type[kind].help}
          isChecked={wanted.kind === kind}
          onChange={() => change({ kind })}
        />
      ))}
    </Form>
  );
}

export function PlaceStep({ wanted, change, pools, stores, fieldProblem }: StepProps) {
  const [left, setLeft] = useState(false);
  useFocus("name");
  const problem = left || wanted.name !== "" ? nameProblem(wanted, stores) : undefined;
  return (
    <Form onSubmit={(event) => event.preventDefault()}>
      <h2 className="zv-step-title">{words.place.title}</h2>
      <TextField
        id="name"
        label={words.place.name}
        help={words.place.nameHelp}
        value={wanted.name}
        onChange={(name) => change({ name })}
        onBlur={() => setLeft(true)}
        problem={problem ?? fieldProblem("name")}
        required
      />
      <Field id="pool" label={words.place.pool} problem={pools.length === 0 ? words.place.noPool : fieldProblem("pool")} required>
        <FormSelect
          id="pool"
          value={wanted.pool}
          aria-describedby={describedBy("pool")}
          onChange={(_event, pool) => change({ pool })}
        >
          {pools.map((pool) => (
            <FormSelectOption key={pool.guid} value={pool.name} label={words.place.poolFree(pool.name, formatBytes(pool.free))} />
          ))}
        </FormSelect>
      </Field>
    </Form>
  );
}

export function SizeStep({ wanted, change, pools, stores, fieldProblem }: StepProps) {
  const [left, setLeft] = useState(false);
  useFocus("size");
  const [open, setOpen] = useState(false);
  const pool = pools.find((one) => one.name === wanted.pool);
  const bytes = sizeOf(wanted);
  const share =
    pool === undefined || bytes === null ? null : formatShare(promised(pool.name, stores) + Number(bytes), Number(pool.size));
  return (
    <Form onSubmit={(event) => event.preventDefault()}>
      <h2 className="zv-step-title">{words.size.title}</h2>
      <TextField
        id="size"
        label={wanted.kind === "nfs" ? words.size.quota : words.size.size}
        help={words.size.sizeHelp}
        value={wanted.size}
        onChange={(size) => change({ size })}
        onBlur={() => setLeft(true)}
        problem={(left ? sizeProblem(wanted) : undefined) ?? fieldProblem("size")}
        required
      />
      <Provisioning thick={wanted.thick} onChange={(thick) => change({ thick })} />
      {isTooThick(wanted, pool) && (
        <Alert variant="warning" isInline isPlain title={words.size.tooThick(formatBytes(pool?.free ?? 0))} />
      )}
      {!wanted.thick && share !== null && <p className="zv-lead">{words.size.overcommit(share)}</p>}
      <ExpandableSection toggleText={words.size.more} isExpanded={open} onToggle={(_event, expanded) => setOpen(expanded)}>
        <MoreSettings wanted={wanted} change={change} problem={thresholdProblem(wanted) ?? fieldProblem("soft_threshold")} />
      </ExpandableSection>
    </Form>
  );
}

interface MoreProps {
  readonly wanted: Wanted;
  readonly change: (part: Partial<Wanted>) => void;
  readonly problem: string | undefined;
}

function MoreSettings({ wanted, change, problem }: MoreProps) {
  return (
    <div className="zv-wide-choices">
      <Field id="compression" label={words.size.compression} help={words.size.compressionHelp}>
        <FormSelect
          id="compression"
          value={wanted.compression}
          aria-describedby={describedBy("compression")}
          onChange={(_event, chosen) => change({ compression: COMPRESSIONS.find((one) => one === chosen) ?? "lz4" })}
        >
          {COMPRESSIONS.map((one) => (
            <FormSelectOption key={one} value={one} label={one} />
          ))}
        </FormSelect>
      </Field>
      {wanted.kind === "nfs" ? (
        <Field id="record-size" label={words.size.recordSize} help={words.size.recordSizeHelp}>
          <FormSelect
            id="record-size"
            value={wanted.recordSize}
            aria-describedby={describedBy("record-size")}
            onChange={(_event, chosen) => change({ recordSize: RECORD_SIZES.find((one) => String(one) === chosen) ?? 65536 })}
          >
            {RECORD_SIZES.map((one) => (
              <FormSelectOption key={one} value={one} label={formatBytes(one)} />
            ))}
          </FormSelect>
        </Field>
      ) : (
        <>
          <Field id="block-size" label={words.size.blockSize} help={words.size.blockSizeHelp}>
            <FormSelect
              id="block-size"
              value={wanted.blockSize}
              aria-describedby={describedBy("block-size")}
              onChange={(_event, chosen) => change({ blockSize: BLOCK_SIZES.find((one) => String(one) === chosen) ?? 65536 })}
            >
              {BLOCK_SIZES.map((one) => (
                <FormSelectOption key={one} value={one} label={formatBytes(one)} />
              ))}
            </FormSelect>
          </Field>
          <TextField
            id="threshold"
            label={words.size.threshold}
            help={words.size.thresholdHelp}
            value={wanted.threshold}
            onChange={(threshold) => change({ threshold: threshold.trim() })}
            problem={problem}
          />
        </>
      )}
    </div>
  );
}

export function HostsStep({ wanted, change, groups, fieldProblem }: StepProps) {
  const problem = fieldProblem("host_groups");
  return (
    <Form onSubmit={(event) => event.preventDefault()}>
      <h2 className="zv-step-title">{words.hosts.title}</h2>
      <p>{words.hosts.lead}</p>
      {problem !== undefined && <Alert variant="danger" isInline isPlain title={problem} />}
      {groups.length === 0 ? (
        <EmptyState titleText={words.hosts.none.title} headingLevel="h3" variant={EmptyStateVariant.sm}>
          <EmptyStateBody>{words.hosts.none.body}</EmptyStateBody>
        </EmptyState>
      ) : (
        <FormGroup role="group" label={words.hosts.groups} fieldId="groups">
          {groups.map((group) => (
            <Checkbox
              key={group.id}
              id={`group-${group.id}`}
              label={group.name}
              description={words.hosts.count(group.hosts.length)}
              isChecked={wanted.groups.includes(group.id)}
              onChange={(_event, chosen) =>
                change({ groups: chosen ? [...wanted.groups, group.id] : wanted.groups.filter((id) => id !== group.id) })
              }
            />
          ))}
        </FormGroup>
      )}
      {wanted.kind === "nfs" && (
        <TextField
          id="clients"
          label={words.hosts.clients}
          help={words.hosts.clientsHelp}
          value={wanted.clients}
          onChange={(clients) => change({ clients })}
          problem={clientsProblem(wanted) ?? fieldProblem("clients")}
        />
      )}
    </Form>
  );
}

interface ReviewProps extends StepProps {
  readonly problem: ApiProblem | null;
  readonly onRetry: () => void;
}

export function ReviewStep({ wanted, groups, problem, onRetry }: ReviewProps) {
  const { review } = words;
  const seen = groups.filter((group) => wanted.groups.includes(group.id)).map((group) => group.name);
  return (
    <>
      <h2 className="zv-step-title">{review.title}</h2>
      <p>{review.lead}</p>
      {problem !== null && <ProblemAlert problem={problem} onRetry={onRetry} />}
      {wanted.kind === "nfs" ? <NfsSettings wanted={wanted} seen={seen} /> : <VmfsSettings wanted={wanted} seen={seen} />}
    </>
  );
}

interface SettingsProps {
  readonly wanted: Wanted;
  /** Names of the chosen groups. */
  readonly seen: readonly string[];
}

function VmfsSettings({ wanted, seen }: SettingsProps) {
  const { review } = words;
  const size = sizeOf(wanted) ?? 0n;
  return (
    <>
      <h3 className="zv-review">{review.zfs}</h3>
      <Facts
        facts={[
          [review.dataset, <code key="dataset">{review.datasetNew(wanted.pool, wanted.name)}</code>],
          [review.volsize, `${formatBytes(size.toString())} (${size.toLocaleString()})`],
          [review.volblocksize, formatBytes(wanted.blockSize)],
          [review.compression, wanted.compression],
          [review.sync, "standard"],
          [review.refreservation, wanted.thick ? review.refreservationThick : review.refreservationThin],
        ]}
      />
      <h3 className="zv-review">{review.target}</h3>
      <Facts
        facts={[
          [review.lun, review.lunFree],
          [review.identity, review.identityNew],
          [review.threshold, wanted.threshold === "" ? text.common.none : `${wanted.threshold} %`],
          [review.hosts, seen.length === 0 ? text.datastores.noHosts : seen.join(", ")],
        ]}
      />
    </>
  );
}

function NfsSettings({ wanted, seen }: SettingsProps) {
  const { review } = words;
  const size = sizeOf(wanted) ?? 0n;
  const clients = clientsOf(wanted);
  const quota = `${formatBytes(size.toString())} (${size.toLocaleString()})`;
  return (
    <>
      <h3 className="zv-review">{review.zfs}</h3>
      <Facts
        facts={[
          [review.filesystem, <code key="dataset">{review.datasetNew(wanted.pool, wanted.name)}</code>],
          [review.refquota, wanted.thick ? review.andSlack(quota) : quota],
          [review.refreservation, wanted.thick ? review.refreservationThickNfs : text.common.none],
          [review.recordsize, formatBytes(wanted.recordSize)],
          [review.compression, wanted.compression],
          [review.sync, "standard"],
          [review.acltype, "posix"],
          [review.xattr, "sa"],
          [review.atime, "off"],
        ]}
      />
      <h3 className="zv-review">{review.nfsServer}</h3>
      <Facts
        facts={[
          [review.share, review.shareNew(wanted.name)],
          [review.versions, "3, 4"],
          [review.squash, review.squashNobody],
          [review.hosts, seen.length === 0 ? text.common.none : review.hostAddresses(seen.join(", "))],
          [review.clients, clients.length === 0 ? text.common.none : clients.join(", ")],
        ]}
      />
    </>
  );
}
