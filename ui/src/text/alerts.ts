// SPDX-License-Identifier: Apache-2.0
/** Alerts. */

import type { Alert } from "../api/types";

export const alerts = {
  title: "Alerts",
  empty: { title: "No open alerts", body: "The appliance has found no problem." },
  severity: { info: "Information", warning: "Warning", critical: "Critical" } satisfies Record<Alert["severity"], string>,
  remedy: "What to do",
  raised: "Since",
  acknowledge: "Acknowledge",
  acknowledged: (name: string) => `Acknowledged by ${name}`,
  list: "Alerts, newest first",
  show: "Shown alerts",
  open: "Open alerts",
  all: "All alerts",
  cleared: "Ended",
  severityColumn: "Severity",
  subject: "Object",
  by: "Acknowledged by",
  newer: "Newer",
  older: "Older",
  pages: "Pages of alerts",
};
