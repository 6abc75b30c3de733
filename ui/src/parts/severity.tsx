// SPDX-License-Identifier: Apache-2.0
import { Label } from "@patternfly/react-core";
import type { Alert } from "../api/types";
import { text } from "../text";

const STATUS = { info: "info", warning: "warning", critical: "danger" } as const;

export function Severity({ of }: { readonly of: Alert }) {
  return <Label status={STATUS[of.severity]}>{text.alerts.severity[of.severity]}</Label>;
}
