// SPDX-License-Identifier: Apache-2.0
/** Choice of a value, for filters and fields. */

import { FormSelect, FormSelectOption } from "@patternfly/react-core";

interface Props {
  readonly label: string;
  /** The empty choice, if allowed. */
  readonly all?: string;
  readonly id?: string;
  readonly value: string;
  readonly options: readonly (readonly [value: string, name: string])[];
  readonly onChange: (value: string) => void;
}

export function Choice({ label, all, id, value, options, onChange }: Props) {
  return (
    <FormSelect id={id} aria-label={label} value={value} onChange={(_event, chosen) => onChange(chosen)}>
      {all !== undefined && <FormSelectOption value="" label={all} />}
      {options.map(([option, name]) => (
        <FormSelectOption key={option} value={option} label={name} />
      ))}
    </FormSelect>
  );
}
