// SPDX-License-Identifier: Apache-2.0
/** Readiness. */

export const readiness = {
  title: "Readiness",
  lead: "Checks of everything that VAAI offloads need.",
  result: { ok: "OK", warning: "Warning", failed: "Failed", unknown: "Unknown" },
  all: (count: number) => (count === 1 ? "The check passed" : `All ${count} checks passed`),
  some: (failed: number, count: number) =>
    failed === 1 ? `1 of ${count} checks needs attention` : `${failed} of ${count} checks need attention`,
  columns: { check: "Check", about: "Object", result: "Result", evidence: "Finding", remedy: "What to do" },
  list: "Checks",
  esxcli: {
    title: "On each ESXi host, once",
    lead: "Run these commands on every host, over SSH or in the ESXi shell. $HBA becomes the software iSCSI adapter.",
    copyAll: "Copy all lines",
  },
  again: "Check again",
};
