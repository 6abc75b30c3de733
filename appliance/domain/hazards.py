# SPDX-License-Identifier: Apache-2.0
"""Hazards: datastores that lose writes in a power cut, a certificate that ends, and a full system disk."""

import time
from collections.abc import Collection, Iterable
from pathlib import Path
from shlex import quote

from appliance.domain.certificate import Certificate
from appliance.domain.datastores import Datastore
from appliance.domain.journal import Finding

SYNC, QUEUE, CERTIFICATE, SYSTEM_DISK = "sync", "queue", "certificate", "system-disk"
WARNING_BYTES, CRITICAL_BYTES = 1 << 30, 256 << 20
WARNING_DAYS, CRITICAL_DAYS = 21, 7
"""The appliance renews its certificate 30 days before its end. So an alert means that this failed, or that the certificate is not
the appliance's.
"""
_DAY_S = 86400


def of_certificate(certificate: Certificate | None, now: float) -> list[Finding]:
    if certificate is None:
        return []
    days = (certificate.not_after - now) / _DAY_S
    if days > WARNING_DAYS:
        return []
    when = time.strftime("%Y-%m-%d", time.gmtime(certificate.not_after))
    text = f"The certificate of the appliance ended on {when}" if days < 0 else f"The certificate of the appliance ends on {when}"
    remedy = (
        "systemctl reload zvaai-frontend renews it"
        if certificate.self_signed
        else "Upload a new certificate: zvaai certificate upload CHAIN.pem KEY.pem"
    )
    severity = "critical" if days <= CRITICAL_DAYS else "warning"
    return [Finding(f"{CERTIFICATE}:ends", severity, "appliance", text, remedy)]


def renewed(certificate: Certificate) -> Finding:
    text = f"The appliance has another certificate, with the SHA-256 fingerprint {certificate.fingerprint}"
    remedy = "Compare it with: journalctl -u zvaai-frontend. Then run zvaai login again on each machine with the command"
    return Finding(f"{CERTIFICATE}:{certificate.fingerprint[:23]}", "info", "appliance", text, remedy)


def of_system_disk(folder: Path, free: int) -> list[Finding]:
    """`free` bytes are left where the database is. Without space it takes no change, and alerts are not even sent."""
    if free >= WARNING_BYTES:
        return []
    text = f"The file system of {folder} has {free >> 20} MiB left. Without space zvaai can store no change, and send no alert"
    severity = "critical" if free < CRITICAL_BYTES else "warning"
    remedy = f"Find what fills it: df {folder}; journalctl --disk-usage"
    return [Finding(f"{SYSTEM_DISK}:free", severity, "appliance", text, remedy)]


def of_datastores(stores: Iterable[Datastore]) -> list[Finding]:
    """Findings about datastores with sync=disabled: a power cut loses completed writes."""
    return [
        Finding(
            f"{SYNC}:{store.id}",
            "warning",
            store.id,
            f"{store.name} has sync=disabled: a power cut loses writes that hosts believe are stable, and can damage VMFS",
            f"zfs set sync=standard {quote(store.dataset)}",
        )
        for store in stores
        if store.state == "active" and store.sync == "disabled"
    ]


def of_queues(stores: Iterable[Datastore], write_through: Collection[str | None]) -> list[Finding]:
    """Findings about datastores whose zvol's queue is set to write through, by UUID: Linux drops the flushes of hosts."""
    return [
        Finding(
            f"{QUEUE}:{store.id}",
            "warning",
            store.id,
            f"The zvol of {store.name} is set to write through: a power cut loses writes that hosts believe are stable",
            f'echo "write back" > /sys/block/$(basename $(realpath /dev/zvol/{store.dataset}))/queue/write_cache; '
            "if Linux refuses that, export and import the pool",
        )
        for store in stores
        if store.uuid in write_through
    ]
