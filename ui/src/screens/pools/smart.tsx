// SPDX-License-Identifier: Apache-2.0
/** SMART data of a disk. */

import { Label } from "@patternfly/react-core";
import { Facts, type Fact } from "../../parts/facts";
import { Time } from "../../parts/values";
import { text } from "../../text";
import { verdictOf, type Smart, type Verdict } from "./verdict";
import { formatWhole } from "../../format/number";

const words = text.pools.disks.smart;
const STATUS: Partial<Record<Verdict, "danger" | "warning" | "success">> = {
  critical: "danger",
  warning: "warning",
  passed: "success",
};

export function SmartLabel({ smart }: { readonly smart: Smart | null }) {
  const verdict = verdictOf(smart);
  return (
    <Label isCompact status={STATUS[verdict]}>
      {verdict === "critical" || verdict === "warning" ? text.alerts.severity[verdict] : words[verdict]}
    </Label>
  );
}

export function SmartFacts({ smart }: { readonly smart: Smart | null }) {
  if (smart === null) return <p>{words.unread}</p>;
  const number = (name: string, value: number | null): Fact => (value === null ? null : [name, formatWhole(value)]);
  return (
    <Facts
      columns={2}
      facts={[
        smart.reason === "" ? null : [words.reason, smart.reason],
        smart.passed === false ? [words.assessment, words.failed] : null,
        smart.temperature === null ? null : [words.temperature, words.degrees(smart.temperature, smart.temperature_limit)],
        smart.power_on_hours === null ? null : [words.powerOn, words.hours(smart.power_on_hours)],
        number(words.reallocated, smart.reallocated),
        number(words.pending, smart.pending),
        number(words.uncorrectable, smart.uncorrectable),
        smart.wear === null ? null : [words.wear, words.percent(smart.wear)],
        smart.spare === null ? null : [words.spare, words.spareOf(smart.spare, smart.spare_limit)],
        smart.available ? number(words.critical, smart.critical_warning) : null,
        [words.readAt, <Time key="read" at={smart.read_at} ago />],
      ]}
    />
  );
}
