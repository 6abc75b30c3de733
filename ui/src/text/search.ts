// SPDX-License-Identifier: Apache-2.0
export const search = {
  open: "Search everything",
  title: "Search everything",
  field: "Name, iSCSI name or address",
  help: "Datastores, snapshots, hosts, pools and jobs. Enter opens the first result. The key / opens this search on each page.",
  results: "Results",
  kinds: { datastore: "Datastore", host: "Host", pool: "Pool", job: "Job", snapshot: "Snapshot" },
  matches: (shown: number, all: number) =>
    all === 0
      ? "Nothing found"
      : shown < all
        ? `The first ${shown} of ${all} results`
        : all === 1
          ? "1 result"
          : `${all} results`,
};
