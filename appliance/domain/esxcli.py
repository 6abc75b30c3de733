# SPDX-License-Identifier: Apache-2.0
"""Commands for ESXi hosts, ready to paste into their shell: every address, name and device in them is this appliance's own."""

from collections.abc import Iterable, Sequence
from shlex import quote

ADAPTER = "HBA=$(esxcli iscsi adapter list | awk '/iscsi_vmk/ {print $1; exit}')"
"""The software iSCSI adapter, whose number differs between hosts. `iscsi_vmk` is its driver."""
ENABLE = "esxcli iscsi software set --enabled=true"
"""Without it the host has no software iSCSI adapter. It changes nothing where it was run."""


VENDOR = "ZVAAI"
"""Of the target's INQUIRY, but for LUNs that retain the names of another target."""


def esxcli_lines(target_name: str, portals: Sequence[str], naas: Sequence[str], vendors: Iterable[str] = ()) -> list[str]:
    """For each host, once. `portals` are addresses that hosts reach, `vendors` those of INQUIRY other than ours."""
    lines = ["# Enter these before the host sees a LUN: the rules apply to new devices. Reboot a host that sees one already"]
    for rule, vendor in enumerate([VENDOR, *sorted(set(vendors) - {VENDOR})], 914):
        by_vendor = f"-V {quote(vendor)}"
        lines += [
            f'esxcli storage nmp satp rule add -s VMW_SATP_ALUA {by_vendor} -P VMW_PSP_RR -O "policy=iops;iops=1" -c tpgs_on',
            f'esxcli storage core claimrule add -r {rule} -t vendor {by_vendor} -M "*" -P VAAI_FILTER -c Filter',
            f'esxcli storage core claimrule add -r {rule} -t vendor {by_vendor} -M "*" -P VMW_VAAIP_T10 -c VAAI -a -s -m 16',
        ]
    lines += [
        "esxcli storage core claimrule load -c Filter",
        "esxcli storage core claimrule load -c VAAI",
        "esxcli storage core claimrule run -c Filter",
        "esxcli system settings advanced set -o /DataMover/HardwareAcceleratedMove -i 1",
        "esxcli system settings advanced set -o /DataMover/HardwareAcceleratedInit -i 1",
        "esxcli system settings advanced set -o /VMFS3/HardwareAcceleratedLocking -i 1",
        "esxcli system settings advanced set -o /DataMover/MaxHWTransferSize -i 16384",
    ]
    if portals:
        lines += [ENABLE, ADAPTER]
        lines += [f"esxcli iscsi adapter discovery sendtarget add -A $HBA -a {portal}" for portal in portals]
        lines += [f"esxcli iscsi adapter discovery statictarget add -A $HBA -a {portal} -n {target_name}" for portal in portals]
    lines.append("esxcli storage core adapter rescan --all")
    lines += [f"esxcli storage core device vaai status get -d {naa}" for naa in naas]
    return lines


def host_lines(iqns: Sequence[str], chap_name: str | None) -> list[str]:
    """Commands for one host that check the registered name of its adapter and the CHAP name. They only enable software iSCSI."""
    if not iqns:
        return []
    names = f"({'|'.join(name.replace('.', '\\.') for name in iqns)})[[:space:]]*$"  # not the beginning of a longer name
    registered = f"This host is registered as {iqns[0]}"
    lines = [f"{ENABLE}; {ADAPTER}; esxcli iscsi adapter get -A $HBA | grep -Ei {quote(names)} || echo {quote(registered)}"]
    if chap_name is not None:
        lines.append(
            f"# CHAP is required: set the name {chap_name} and its secret in the properties of the iSCSI adapter."
            ' Select "Use unidirectional CHAP unless prohibited by target": discovery has no CHAP'
        )
    return lines


def nfs_lines(server: str, share: str, name: str) -> list[str]:
    """Commands that mount an NFS datastore by NFSv3. Never by NFSv4.1 on other hosts: the two lock in different ways."""
    return [f"esxcli storage nfs add -H {server} -s {share} -v {name}", "esxcli storage nfs list"]
