// SPDX-License-Identifier: Apache-2.0
/** Updates, reboot and shutdown of the server, on the system page. */

const others = (count: number) => `${count} other ${count === 1 ? "package" : "packages"}`;

export const maintenance = {
  updates: {
    title: "Updates",
    list: "Pending updates",
    none: "No updates are pending.",
    pending: (known: number, more: number) =>
      known === 0 ? `Pending: ${others(more)}.` : `Pending: ${known} of zvaai or storage, ${others(more)}.`,
    refreshed: "Package lists of",
    neverRefreshed: "This server has no package lists yet: run apt update.",
    reboot: "The server needs a reboot",
    obstacles: "Do this before an upgrade",
    columns: { name: "Package", installed: "Installed", version: "New", effect: "Effect" },
    notes: "Release notes",
    install: "An upgrade stops the console. Install updates in a shell of the server, as root:",
    copy: "Copy commands",
    again: "Check again",
  },
  power: {
    title: "Reboot and shut down",
    lead: "Hosts have no datastores while the server reboots. Running jobs continue afterwards.",
    iscsi: "iSCSI hosts",
    nfs: "NFS clients",
    users: "Console users",
    jobs: "Jobs",
    unknown: "Unknown: the service does not answer",
    password: "Your password",
    reboot: {
      action: "Reboot",
      title: "Reboot the server?",
      lead: "Shut down the VMs of these hosts first. ESXi waits 140 s for a disk, and a physical server often boots for longer.",
      begun: "The server restarts",
      begunLead: "This page opens the console again when the server answers.",
    },
    off: {
      action: "Shut down",
      title: "Shut the server down?",
      lead: "Hosts lose their datastores until somebody switches the server on. Shut down their VMs first.",
      begun: "The server shuts down",
      begunLead: "Switch the server on to use it again. Then this page opens the console.",
    },
    late: "The server has not answered for 15 minutes. Look at its screen, or at its remote console.",
  },
};
