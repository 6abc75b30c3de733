// SPDX-License-Identifier: Apache-2.0
/** Words of an NFS datastore's files. */

export const files = {
  lead: "VMDK data files. Descriptor files are not listed. Unique bytes are shared with nothing else in the pool. “At most” marks an upper bound.",
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
  unmeasuredHelp: "The measurement took too long. Refresh in a moment.",
  incomplete: {
    title: "Some files are not listed",
    body: "These files lie in very deep folders, are too many, or have names that are not text. Hosts see them.",
  },
  empty: {
    title: "No VMDK files",
    body: "Hosts create them with their VMs. Files of the last seconds may be missing.",
  },
  refresh: "Refresh",
  pages: "Pages of files",
  previous: "Previous",
  next: "Next",
  clone: {
    action: "Clone",
    actionOf: (path: string) => `Clone ${path}`,
    title: (path: string) => `Clone ${path}`,
    lead: "A point-in-time copy. It is refused if the source is written meanwhile. The file appears only when it is complete. The descriptor is not cloned. Create the VM on the host, or copy the descriptor and change its name.",
    destination: "Path of the clone",
    destinationHelp: "A new name in an existing folder of this datastore, for example vm2/disk-flat.vmdk",
    how: "Method",
    full: "Full clone: share blocks if possible, copy the others",
    fullHelp: "Also if blocks can't be shared. The result shows the shared and the copied bytes.",
    fast: "Fast clone: share all blocks",
    fastHelp: "Takes seconds to minutes: no data is copied. Refused if blocks can't be shared.",
    submit: "Clone",
  },
  clones: {
    title: "Clones",
    columns: { destination: "Clone", state: "State", result: "Result" },
    shared: (bytes: string) => `${bytes} shared`,
    copied: (bytes: string) => `${bytes} copied`,
    because: (reasons: string) => `(${reasons})`,
    holes: (bytes: string) => `${bytes} holes`,
    nothing: "The file is empty",
  },
};
