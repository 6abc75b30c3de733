// SPDX-License-Identifier: Apache-2.0
/** Words of an NFS datastore's files. */

export const files = {
  lead: "VMDK files that hold data, in the order of their paths; their descriptors, which are small texts, are left out. Unique is what nothing else in the pool shares; “at most” where that is not known exactly.",
  list: "VMDK files",
  columns: {
    path: "File",
    total: "Size",
    allocated: "Allocated",
    unique: "Unique",
    snapshot: "Also in a snapshot",
    deduplicated: "Deduplicated",
    asOf: "As of",
  },
  atMost: (bytes: string) => `at most ${bytes}`,
  unmeasured: "not measured",
  unmeasuredHelp: "Not measured in time. Look again in a moment.",
  incomplete: {
    title: "Some files are not told",
    body: "They lie too deep, are too many, or have names that are no text. Hosts see them all the same.",
  },
  empty: {
    title: "No VMDK files",
    body: "Hosts make them with their machines. What they have written in the last seconds may not be told yet.",
  },
  refresh: "Look again",
  pages: "Pages of files",
  previous: "Previous",
  next: "Next",
  clone: {
    action: "Clone",
    actionOf: (path: string) => `Clone ${path}`,
    title: (path: string) => `Clone ${path}`,
    lead: "The NFS server makes the clone, of one moment of the file; it is never half there. A descriptor is not made with it: let the host make the machine, or copy the descriptor and change the name in it.",
    destination: "Path of the clone",
    destinationHelp: "In this datastore, as vm2/disk-flat.vmdk: a new name, in a folder that is there",
    how: "How",
    full: "Share what can be shared, and copy the rest",
    fullHelp: "Always possible; the result says how many bytes went which way",
    fast: "Share all blocks, or be refused",
    fastHelp: "At once, whatever the size; refused where blocks can't be shared",
    submit: "Clone",
  },
  clones: {
    title: "Clones",
    columns: { destination: "Clone", state: "State", result: "How it went" },
    shared: (bytes: string) => `${bytes} shared`,
    copied: (bytes: string) => `${bytes} copied`,
    because: (reasons: string) => `(${reasons})`,
    holes: (bytes: string) => `${bytes} holes`,
    nothing: "The file is empty",
  },
};
