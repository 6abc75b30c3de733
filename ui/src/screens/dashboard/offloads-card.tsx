// SPDX-License-Identifier: Apache-2.0
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { datastoresQuery, offloadsQuery } from "../../api/queries";
import type { Offloads } from "../../api/types";
import { formatWhole } from "../../format/number";
import { formatDuration } from "../../format/time";
import { Meter } from "../../measures/meter";
import {
  estimatedSavedSeconds,
  exportsOf,
  offloadOf,
  lunsOf,
  refusalsOf,
  totalsOf,
  type ExportCounters,
  type Totals,
} from "../../measures/statistics";
import { Fallbacks, Figure } from "../../parts/offloads";
import { Panel } from "../../parts/panel";
import { QueryBoundary } from "../../parts/states";
import { Bytes } from "../../parts/values";
import { text } from "../../text";

const words = text.dashboard.offloads;
const BLOCK = ["cloned", "copied", "zeroed", "reclaimed"] as const;
const NAS = ["cloned", "copied", "reserved"] as const;
/** Rates of all LUNs and of all exports, retained while the page is loaded. */
const block = new Meter(BLOCK);
const nas = new Meter(NAS);

export function OffloadsCard() {
  const query = useQuery(offloadsQuery);
  const { data: stores } = useQuery(datastoresQuery);
  const hasNfs = stores?.some((store) => store.kind === "nfs") ?? false;
  return (
    <Panel title={words.title} lead={words.lead}>
      <QueryBoundary query={query} what={words.title} lines={4}>
        {(offloads) => <Offloaded offloads={offloads} at={query.dataUpdatedAt / 1000} hasNfs={hasNfs} />}
      </QueryBoundary>
    </Panel>
  );
}

interface Props {
  readonly offloads: Offloads;
  /** Time of loading, in seconds since 1970. */
  readonly at: number;
  readonly hasNfs: boolean;
}

function Offloaded({ offloads, at, hasNfs }: Props) {
  // Totals include deleted LUNs and exports; the rows do not.
  const totals = totalsOf(lunsOf({ luns: [{ offload: offloads.totals["luns"] ?? {} }] }));
  const total = offloads.totals["exports"];
  const served = exportsOf(offloads);
  const exports = (served ?? total) && { ...offloadOf(total), ...(served && { operations: served.operations }) };
  const problem = offloads.nfs_problem ?? null;
  block.take({ at, counts: totals });
  if (exports !== undefined) nas.take({ at, counts: exports });
  const saved = estimatedSavedSeconds(totals) + estimatedSavedSeconds({ cloned: 0, copied: 0, ...exports, zeroed: 0 });
  return (
    <>
      <Block totals={totals} />
      {(hasNfs || problem !== null || exports !== undefined) && <Nas counters={exports} problem={problem} />}
      <p className="zv-total">{saved > 0 ? words.saved(formatDuration(saved * 1000)) : words.none}</p>
      {saved > 0 && <p className="zv-lead">{words.savedHelp}</p>}
    </>
  );
}

function Section({ title, children }: { readonly title: string; readonly children: ReactNode }) {
  return (
    <section className="zv-offloads" aria-label={title}>
      <h3>{title}</h3>
      {children}
    </section>
  );
}

function Block({ totals }: { readonly totals: Totals }) {
  return (
    <Section title={words.iscsi}>
      <dl className="zv-figures zv-figures-wide">
        {BLOCK.map((kind) => (
          <Figure key={kind} name={words[kind]} help={words[`${kind}Help`]} rate={block.rate(kind)}>
            <Bytes value={totals[kind]} />
          </Figure>
        ))}
      </dl>
      <Reasons fallbacks={totals.fallbacks} reasons={text.datastores.detail.vaai.reasons} />
    </Section>
  );
}

function Nas({ counters, problem }: { readonly counters: ExportCounters | undefined; readonly problem: string | null }) {
  return (
    <Section title={words.nfs}>
      {problem !== null ? (
        <p>{words.nasUnavailable(problem)}</p>
      ) : counters === undefined ? (
        <p>{words.nasNothing}</p>
      ) : (
        <>
          <dl className="zv-figures zv-figures-wide">
            {NAS.map((kind) => (
              <Figure key={kind} name={words[kind]} help={words[`${kind}Help`]} rate={nas.rate(kind)}>
                <Bytes value={counters[kind]} />
              </Figure>
            ))}
            <Figure name={words.refused} help={words.refusedHelp}>
              {formatWhole(refusalsOf(counters))}
            </Figure>
          </dl>
          <Reasons fallbacks={counters.fallbacks} reasons={text.datastores.detail.vaai.nas.reasons} />
        </>
      )}
    </Section>
  );
}

type ReasonsProps = Pick<Parameters<typeof Fallbacks>[0], "fallbacks" | "reasons">;

/** Empty if everything was cloned. Each datastore's page shows remedies. */
function Reasons({ fallbacks, reasons }: ReasonsProps) {
  if (fallbacks.size === 0) return null;
  return (
    <>
      <p className="zv-lead">{words.fallbacks}</p>
      <Fallbacks fallbacks={fallbacks} reasons={reasons} brief />
    </>
  );
}
