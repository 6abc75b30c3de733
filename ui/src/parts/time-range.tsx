// SPDX-License-Identifier: Apache-2.0
/** Two fields of a toolbar: entries from a time on, and up to a time. */

import { TextInput, ToolbarItem } from "@patternfly/react-core";
import { NAMES, type Times } from "../format/times";

interface Props {
  readonly id: string;
  readonly words: Times;
  readonly times: Times;
  readonly onChange: (part: Partial<Times>) => void;
}

export function TimeRange({ id, words, times, onChange }: Props) {
  return NAMES.map((name) => (
    <ToolbarItem key={name}>
      <label htmlFor={`${id}-${name}`}>{words[name]}</label>
      <TextInput
        id={`${id}-${name}`}
        type="datetime-local"
        value={times[name]}
        onChange={(_event, value) => onChange({ [name]: value })}
      />
    </ToolbarItem>
  ));
}
