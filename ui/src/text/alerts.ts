// SPDX-License-Identifier: Apache-2.0
/** Alerts. */

import type { Alert } from "../api/types";

export const alerts = {
  title: "Alerts",
  empty: { title: "No open alerts", body: "All that is watched is as it should be." },
  severity: { info: "News", warning: "Warning", critical: "Critical" } satisfies Record<Alert["severity"], string>,
  remedy: "What to do",
  raised: "Since",
  acknowledge: "Acknowledge",
  acknowledged: (name: string) => `${name} looks after it`,
  list: "Open alerts, the newest first",
};
