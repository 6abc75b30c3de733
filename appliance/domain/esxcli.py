# SPDX-License-Identifier: Apache-2.0
"""What an admin types on ESXi hosts."""

from __future__ import annotations

from collections.abc import Sequence


def esxcli_lines(target_name: str, portals: list[str], naas: list[str]) -> list[str]:
    """What an admin types on each host, once. Vendor and product are what the target's INQUIRY has."""
    lines = [
        'esxcli storage nmp satp rule add -s VMW_SATP_ALUA -V ZVAAI -P VMW_PSP_RR -O "policy=iops;iops=1" -c tpgs_on',
        'esxcli storage core claimrule add -r 914 -t vendor -V ZVAAI -M "*" -P VAAI_FILTER -c Filter',
        'esxcli storage core claimrule add -r 914 -t vendor -V ZVAAI -M "*" -P VMW_VAAIP_T10 -c VAAI -a -s -m 16',
        "esxcli storage core claimrule load -c Filter",
        "esxcli storage core claimrule load -c VAAI",
        "esxcli system settings advanced set -o /DataMover/HardwareAcceleratedMove -i 1",
        "esxcli system settings advanced set -o /DataMover/HardwareAcceleratedInit -i 1",
        "esxcli system settings advanced set -o /VMFS3/HardwareAcceleratedLocking -i 1",
        "esxcli system settings advanced set -o /DataMover/MaxHWTransferSize -i 16384",
    ]
    lines += [f"esxcli iscsi adapter discovery sendtarget add -A vmhba64 -a {portal}" for portal in portals]
    lines.append("esxcli storage core adapter rescan --all")
    lines += [f"esxcli storage core device vaai status get -d {naa}" for naa in naas]
    return lines


def nfs_lines(server: str, share: str, name: str, versions: Sequence[str]) -> list[str]:
    """How a host mounts an NFS datastore: by NFSv3, or by v4.1. Never by both: they lock in different ways."""
    if "3" in versions:
        return [f"esxcli storage nfs add -H {server} -s {share} -v {name}", "esxcli storage nfs list"]
    return [f"esxcli storage nfs41 add -H {server} -s {share} -v {name} -a SEC_SYS", "esxcli storage nfs41 list"]
