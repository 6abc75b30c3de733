// SPDX-License-Identifier: Apache-2.0
/** Which section of the user guide, or of the reference, explains a page. */

/** The longest beginning of the address counts. A star is one part of it. */
export const SECTIONS: Readonly<Record<string, string>> = {
  "/": "guide.html",
  "/datastores": "guide.html#create-a-vmfs-datastore",
  "/datastores/*/files": "appliance.html#files-of-nfs-datastores",
  "/datastores/*/capacity": "guide.html#grow-a-datastore",
  "/datastores/*/history": "appliance.html#history",
  "/datastores/*/snapshots": "guide.html#restore",
  "/datastores/*/hosts": "guide.html#connect-an-esxi-host",
  "/datastores/*/events": "guide.html#find-the-cause-of-a-problem",
  "/hosts": "guide.html#connect-an-esxi-host",
  "/pools": "guide.html#replace-a-disk",
  "/pools/-new": "guide.html#create-a-pool",
  "/pools/*/extend": "guide.html#handle-a-full-pool",
  "/network": "appliance.html#network",
  "/schedules": "guide.html#take-snapshots",
  "/jobs": "guide.html#find-the-cause-of-a-problem",
  "/alerts": "guide.html#find-the-cause-of-a-problem",
  "/readiness": "guide.html#connect-an-esxi-host",
  "/audit": "appliance.html#logs-and-support",
  "/logs": "appliance.html#logs-and-support",
  "/users": "appliance.html#users-and-two-factor-login",
  "/system": "guide.html#back-up-the-configuration",
};

const partsOf = (path: string) => path.split("/").filter((part) => part !== "");

export function sectionOf(pathname: string): string {
  const parts = partsOf(pathname);
  const matches = Object.entries(SECTIONS).filter(([path]) =>
    partsOf(path).every((part, place) => (part === "*" ? place in parts : part === parts[place])),
  );
  const [longest] = matches.toSorted(([first], [other]) => partsOf(other).length - partsOf(first).length);
  return longest?.[1] ?? "guide.html";
}
