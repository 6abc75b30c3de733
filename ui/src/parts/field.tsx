// SPDX-License-Identifier: Apache-2.0
/** A field of a form, with help and problem. Both are linked to it for screen readers. */

import {
  FormGroup,
  FormHelperText,
  FormSelect,
  FormSelectOption,
  HelperText,
  HelperTextItem,
  TextArea,
  TextInput,
  type TextInputProps,
} from "@patternfly/react-core";
import type { ReactNode } from "react";

/** Characters that the service requires. */
export const SHORTEST_PASSWORD = 12;

interface FrameProps {
  readonly id: string;
  readonly label: string;
  readonly help?: string;
  readonly problem?: string;
  readonly required?: boolean;
  readonly children: ReactNode;
}

/** IDs of a field's help and problem, for its `aria-describedby`. */
export function describedBy(id: string): string {
  return `${id}-help`;
}

export function Field({ id, label, help, problem, required = false, children }: FrameProps) {
  const words = problem ?? help;
  return (
    <FormGroup label={label} fieldId={id} isRequired={required}>
      {children}
      <FormHelperText>
        <HelperText id={describedBy(id)} isLiveRegion>
          {words !== undefined && <HelperTextItem variant={problem === undefined ? "default" : "error"}>{words}</HelperTextItem>}
        </HelperText>
      </FormHelperText>
    </FormGroup>
  );
}

interface TextFieldProps extends Omit<FrameProps, "children"> {
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly type?: TextInputProps["type"];
  readonly autoComplete?: string;
  readonly onBlur?: () => void;
}

export function TextField({ value, onChange, type = "text", autoComplete = "off", onBlur, ...frame }: TextFieldProps) {
  const { id, problem, required } = frame;
  return (
    <Field {...frame}>
      <TextInput
        id={id}
        name={id}
        type={type}
        value={value}
        isRequired={required}
        autoComplete={autoComplete}
        spellCheck={false}
        validated={problem === undefined ? "default" : "error"}
        aria-describedby={describedBy(id)}
        aria-invalid={problem !== undefined}
        onChange={(_event, typed) => onChange(typed)}
        onBlur={onBlur}
      />
    </Field>
  );
}

interface LinesFieldProps extends Omit<FrameProps, "children"> {
  readonly value: string;
  readonly onChange: (value: string) => void;
}

/** Several values, one on each line. */
export function LinesField({ value, onChange, ...frame }: LinesFieldProps) {
  const { id, problem, required } = frame;
  return (
    <Field {...frame}>
      <TextArea
        id={id}
        name={id}
        value={value}
        isRequired={required}
        rows={3}
        resizeOrientation="vertical"
        spellCheck={false}
        validated={problem === undefined ? "default" : "error"}
        aria-describedby={describedBy(id)}
        aria-invalid={problem !== undefined}
        onChange={(_event, typed) => onChange(typed)}
      />
    </Field>
  );
}

interface ChoiceFieldProps extends Omit<FrameProps, "children"> {
  readonly value: string;
  readonly options: readonly (readonly [value: string, name: string])[];
  readonly onChange: (value: string) => void;
}

/** Choice of a few values. */
export function ChoiceField({ value, options, onChange, ...frame }: ChoiceFieldProps) {
  const { id, problem } = frame;
  return (
    <Field {...frame}>
      <FormSelect
        id={id}
        value={value}
        validated={problem === undefined ? "default" : "error"}
        aria-describedby={describedBy(id)}
        aria-invalid={problem !== undefined}
        onChange={(_event, chosen) => onChange(chosen)}
      >
        {options.map(([option, name]) => (
          <FormSelectOption key={option} value={option} label={name} />
        ))}
      </FormSelect>
    </Field>
  );
}
