// SPDX-License-Identifier: Apache-2.0
/** Readiness. */

export const readiness = {
  title: "Readiness",
  lead: "Each thing that keeps offloads from working in the field, looked at now.",
  result: { ok: "OK", warning: "Warning", failed: "Failed", unknown: "Not known" },
  all: (count: number) => `All ${count} checks passed`,
  some: (failed: number, count: number) => `${failed} of ${count} checks need somebody`,
  columns: { check: "Check", about: "About", result: "Result", evidence: "What was seen", remedy: "What to do" },
  list: "Checks",
  esxcli: {
    title: "On each ESXi host, once",
    lead: "Paste these on every host, over SSH or in the ESXi shell. $HBA becomes the software iSCSI adapter.",
    copyAll: "Copy all lines",
  },
  again: "Look again",
};
