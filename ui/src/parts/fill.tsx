// SPDX-License-Identifier: Apache-2.0
/** A bar that shows how full something is, with its text. */

import { Progress, ProgressMeasureLocation, ProgressSize, ProgressVariant } from "@patternfly/react-core";
import { formatShare } from "../format/bytes";

interface Props {
  readonly label: string;
  readonly part: string | number;
  readonly whole: string | number;
  /** Text next to the bar; by default the share. */
  readonly words?: string;
  /** Percent from which it is orange, or red, as an alert; by default never. */
  readonly warning?: number;
  readonly critical?: number;
}

export function Fill({ label, part, whole, words, warning = Infinity, critical = Infinity }: Props) {
  const percent = Number(whole) > 0 ? (100 * Number(part)) / Number(whole) : 0;
  const variant = percent >= critical ? ProgressVariant.danger : percent >= warning ? ProgressVariant.warning : undefined;
  return (
    <Progress
      aria-label={label}
      value={Math.min(100, Math.round(percent))}
      valueText={words ?? formatShare(Number(part), Number(whole))}
      label={words ?? formatShare(Number(part), Number(whole))}
      size={ProgressSize.sm}
      measureLocation={words === undefined ? ProgressMeasureLocation.outside : ProgressMeasureLocation.top}
      variant={variant}
    />
  );
}
