// SPDX-License-Identifier: Apache-2.0
/** The server's journal. */

export const logs = {
  title: "Logs",
  lead: "The server's journal: units of zvaai, the NFS server, and what the kernel says of OpenZFS.",
  list: "Entries of the journal, newest first",
  columns: { at: "When", unit: "Unit", priority: "Priority", text: "Entry" },
  filter: {
    text: "Text",
    unit: "Unit",
    anyUnit: "All units",
    priority: "Priority",
    anyPriority: "All priorities",
    since: "From",
    until: "To",
  },
  kernel: "Kernel: OpenZFS",
  priority: { critical: "Critical", error: "Error", warning: "Warning", info: "Info", debug: "Debug" },
  atLeast: {
    critical: "Critical",
    error: "Error and above",
    warning: "Warning and above",
    info: "Info and above",
    debug: "Debug and above",
  },
  newer: "Newer",
  older: "Older",
  pages: "Pages of the journal",
  noMatch: { title: "No entry matches", body: "Change the filters." },
};
