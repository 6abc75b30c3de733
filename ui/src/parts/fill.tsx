// SPDX-License-Identifier: Apache-2.0
/** A bar that shows how full something is, with its text. */

import { Progress, ProgressMeasureLocation, ProgressSize, ProgressVariant } from "@patternfly/react-core";
import { formatShare } from "../format/bytes";

const WARNING = 0.8;
const CRITICAL = 0.9;

interface Props {
  readonly label: string;
  readonly part: string | number;
  readonly whole: string | number;
  /** Text next to the bar; by default the share. */
  readonly words?: string;
}

export function Fill({ label, part, whole, words }: Props) {
  const share = Number(whole) > 0 ? Number(part) / Number(whole) : 0;
  const variant = share >= CRITICAL ? ProgressVariant.danger : share >= WARNING ? ProgressVariant.warning : undefined;
  return (
    <Progress
      aria-label={label}
      value={Math.min(100, Math.round(100 * share))}
      valueText={words ?? formatShare(Number(part), Number(whole))}
      label={words ?? formatShare(Number(part), Number(whole))}
      size={ProgressSize.sm}
      measureLocation={words === undefined ? ProgressMeasureLocation.outside : ProgressMeasureLocation.top}
      variant={variant}
    />
  );
}
