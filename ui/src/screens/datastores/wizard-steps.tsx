// SPDX-License-Identifier: Apache-2.0
/** The steps of the wizard for a new datastore. */

import { Checkbox, EmptyState, EmptyStateBody, EmptyStateVariant, ExpandableSection, Form, Radio } from "@patternfly/react-core";
import { useState } from "react";
import type { ApiProblem } from "../../api/problem";
import type { Datastore, Group, Pool } from "../../api/types";
import { formatBytes } from "../../format/bytes";
import { formatWhole } from "../../format/number";
import { Facts } from "../../parts/facts";
import { ChoiceField, Field, TextField } from "../../parts/field";
import { useFocus } from "../../parts/focus";
import { Alert } from "../../parts/patternfly";
import { ProblemAlert } from "../../parts/problem-alert";
import { text } from "../../text";
import { Clients, Groups } from "./host-groups";
import { Provisioning } from "./provisioning";
import {
  BLOCK_SIZES,
  clientsOf,
  COMPRESSIONS,
  isTooThick,
  lunProblem,
  nameProblem,
  RECORD_SIZES,
  recordSizeOf,
  sizeOf,
  sizeProblem,
  SYNCS,
  thresholdProblem,
  type FormValues,
} from "./form-values";

const words = text.datastores.wizard;
const KINDS = ["vmfs", "nfs"] as const;

interface StepProps {
  readonly values: FormValues;
  readonly change: (part: Partial<FormValues>) => void;
  readonly pools: readonly Pool[];
  readonly groups: readonly Group[];
  readonly stores: readonly Datastore[];
  /** Problem of a field, from the service. */
  readonly fieldProblem: (name: string) => string | undefined;
}

export function TypeStep({ values, change }: Pick<StepProps, "values" | "change">) {
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
          isChecked={values.kind === kind}
          onChange={() => change({ kind })}
        />
      ))}
    </Form>
  );
}

export function PlaceStep({ values, change, pools, stores, fieldProblem }: StepProps) {
  const [left, setLeft] = useState(false);
  useFocus("name");
  const problem = left || values.name !== "" ? nameProblem(values, stores) : undefined;
  return (
    <Form onSubmit={(event) => event.preventDefault()}>
      <h2 className="zv-step-title">{words.place.title}</h2>
      <TextField
        id="name"
        label={words.place.name}
        help={words.place.nameHelp}
        value={values.name}
        onChange={(name) => change({ name })}
        onBlur={() => setLeft(true)}
        problem={problem ?? fieldProblem("name")}
        required
      />
      <ChoiceField
        id="pool"
        label={words.place.pool}
        value={values.pool}
        options={pools.map(({ name, available }) => [
          name,
          available == null ? name : words.place.poolAvailable(name, formatBytes(available)),
        ])}
        onChange={(pool) => change({ pool })}
        problem={pools.length === 0 ? words.place.noPool : fieldProblem("pool")}
        required
      />
    </Form>
  );
}

export function SizeStep({ values, change, pools, fieldProblem }: StepProps) {
  const [left, setLeft] = useState(false);
  useFocus("size");
  const [open, setOpen] = useState(false);
  const pool = pools.find((candidate) => candidate.name === values.pool);
  return (
    <Form onSubmit={(event) => event.preventDefault()}>
      <h2 className="zv-step-title">{words.size.title}</h2>
      <TextField
        id="size"
        label={values.kind === "nfs" ? words.size.quota : words.size.size}
        help={words.size.sizeHelp}
        value={values.size}
        onChange={(size) => change({ size })}
        onBlur={() => setLeft(true)}
        problem={(left ? sizeProblem(values) : undefined) ?? fieldProblem("size")}
        required
      />
      <Provisioning thick={values.thick} onChange={(thick) => change({ thick })} />
      {isTooThick(values, pool) && (
        <Alert variant="warning" isInline isPlain title={words.size.tooThick(formatBytes(pool?.available ?? 0))} />
      )}
      <ExpandableSection
        toggleText={text.common.moreSettings}
        isExpanded={open}
        onToggle={(_event, expanded) => setOpen(expanded)}
      >
        <MoreSettings values={values} change={change} fieldProblem={fieldProblem} />
      </ExpandableSection>
    </Form>
  );
}

interface MoreProps {
  readonly values: FormValues;
  readonly change: (part: Partial<FormValues>) => void;
  readonly fieldProblem: (name: string) => string | undefined;
}

function MoreSettings({ values, change, fieldProblem }: MoreProps) {
  return (
    <div className="zv-wide-choices">
      <Field id="encrypted" label={words.size.encryption} problem={fieldProblem("encrypted")}>
        <Checkbox
          id="encrypted"
          label={words.size.encrypted}
          description={words.size.encryptedHelp}
          isChecked={values.encrypted}
          onChange={(_event, encrypted) => change({ encrypted })}
        />
      </Field>
      <ChoiceField
        id="compression"
        label={words.size.compression}
        help={words.size.compressionHelp}
        value={values.compression}
        options={COMPRESSIONS.map((compression) => [compression, compression])}
        onChange={(chosen) => change({ compression: COMPRESSIONS.find((compression) => compression === chosen) ?? "lz4" })}
      />
      <ChoiceField
        id="sync"
        label={words.size.sync}
        help={words.size.syncHelp}
        value={values.sync}
        options={SYNCS.map((sync) => [sync, words.size.syncs[sync]])}
        onChange={(chosen) => change({ sync: SYNCS.find((sync) => sync === chosen) ?? "standard" })}
      />
      {values.kind === "nfs" ? (
        <ChoiceField
          id="record-size"
          label={words.size.recordSize}
          help={words.size.recordSizeHelp}
          value={String(values.recordSize ?? "")}
          options={[
            ["", words.size.recordSizeDefault],
            ...RECORD_SIZES.map((size) => [String(size), formatBytes(size)] as const),
          ]}
          onChange={(chosen) => change({ recordSize: RECORD_SIZES.find((size) => String(size) === chosen) ?? null })}
          problem={fieldProblem("record_size")}
        />
      ) : (
        <>
          <ChoiceField
            id="block-size"
            label={words.size.blockSize}
            help={words.size.blockSizeHelp}
            value={String(values.blockSize)}
            options={BLOCK_SIZES.map((size) => [String(size), formatBytes(size)])}
            onChange={(chosen) => change({ blockSize: BLOCK_SIZES.find((size) => String(size) === chosen) ?? 65536 })}
          />
          <TextField
            id="threshold"
            label={words.size.threshold}
            help={words.size.thresholdHelp}
            value={values.threshold}
            onChange={(threshold) => change({ threshold: threshold.trim() })}
            problem={thresholdProblem(values.threshold) ?? fieldProblem("soft_threshold")}
          />
          <TextField
            id="lun"
            label={words.size.lun}
            help={words.size.lunHelp}
            value={values.lun}
            onChange={(lun) => change({ lun: lun.trim() })}
            problem={lunProblem(values.lun) ?? fieldProblem("lun")}
          />
        </>
      )}
    </div>
  );
}

export function HostsStep({ values, change, groups, fieldProblem }: StepProps) {
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
        <Groups chosen={values.groups} onChange={(chosen) => change({ groups: chosen })} />
      )}
      {values.kind === "nfs" && <Clients form={values} onChange={change} problem={fieldProblem("clients")} />}
    </Form>
  );
}

interface ReviewProps extends StepProps {
  readonly problem: ApiProblem | null;
  readonly onRetry: () => void;
}

export function ReviewStep({ values, pools, groups, problem, onRetry }: ReviewProps) {
  const { review } = words;
  const pool = pools.find((candidate) => candidate.name === values.pool);
  const seen = groups.filter((group) => values.groups.includes(group.id)).map((group) => group.name);
  return (
    <>
      <h2 className="zv-step-title">{review.title}</h2>
      <p>{review.lead}</p>
      {problem !== null && <ProblemAlert problem={problem} onRetry={onRetry} />}
      {values.kind === "nfs" ? (
        <NfsSettings values={values} pool={pool} seen={seen} />
      ) : (
        <VmfsSettings values={values} seen={seen} />
      )}
    </>
  );
}

interface SettingsProps {
  readonly values: FormValues;
  /** Names of the chosen groups. */
  readonly seen: readonly string[];
}

function VmfsSettings({ values, seen }: SettingsProps) {
  const { review } = words;
  const size = sizeOf(values) ?? 0n;
  return (
    <>
      <h3 className="zv-review">{review.zfs}</h3>
      <Facts
        facts={[
          [review.dataset, <code key="dataset">{review.datasetNew(values.pool, values.name)}</code>],
          [review.volsize, `${formatBytes(size.toString())} (${formatWhole(size)})`],
          [review.volblocksize, formatBytes(values.blockSize)],
          [review.compression, values.compression],
          [review.encryption, values.encrypted ? review.encryptionOn : "off"],
          [review.sync, values.sync],
          [review.refreservation, values.thick ? review.refreservationThick : review.refreservationThin],
        ]}
      />
      <h3 className="zv-review">{review.target}</h3>
      <Facts
        facts={[
          [review.lun, values.lun === "" ? review.lunFree : values.lun],
          [review.identity, review.identityNew],
          [review.threshold, values.threshold === "" ? text.common.none : `${values.threshold} %`],
          [review.hosts, seen.length === 0 ? text.datastores.noHosts : seen.join(", ")],
        ]}
      />
    </>
  );
}

function NfsSettings({ values, pool, seen }: SettingsProps & { readonly pool: Pool | undefined }) {
  const { review } = words;
  const recordSize = recordSizeOf(values, pool);
  const size = sizeOf(values) ?? 0n;
  const clients = clientsOf(values);
  const quota = `${formatBytes(size.toString())} (${formatWhole(size)})`;
  return (
    <>
      <h3 className="zv-review">{review.zfs}</h3>
      <Facts
        facts={[
          [review.filesystem, <code key="dataset">{review.datasetNew(values.pool, values.name)}</code>],
          [review.refquota, values.thick ? review.andSlack(quota) : quota],
          [review.refreservation, values.thick ? review.refreservationThickNfs : text.common.none],
          [review.recordsize, recordSize === null ? words.size.recordSizeDefault : formatBytes(recordSize)],
          [review.compression, values.compression],
          [review.encryption, values.encrypted ? review.encryptionOn : "off"],
          [review.sync, values.sync],
          [review.acltype, "posix"],
          [review.xattr, "sa"],
          [review.atime, "off"],
        ]}
      />
      <h3 className="zv-review">{review.nfsServer}</h3>
      <Facts
        facts={[
          [review.share, review.shareNew(values.name)],
          [review.hosts, seen.length === 0 ? text.common.none : review.hostAddresses(seen.join(", "))],
          [review.clients, clients.length === 0 ? text.common.none : clients.join(", ")],
        ]}
      />
    </>
  );
}
