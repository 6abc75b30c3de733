# SPDX-License-Identifier: Apache-2.0
"""Hazards: writes that a power cut loses, read-only datastores, a certificate or token that ends, a full disk,
a kernel without OpenZFS, portals, links, a clock that is not synchronized, ZED."""

import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from shlex import quote

from appliance.database.models import Token
from appliance.domain.certificate import Certificate
from appliance.domain.datastores import Datastore
from appliance.domain.journal import Finding
from appliance.updates import without_openzfs
from appliance.zfs.model import Pool
from appliance.zfs.names import zvol_link

SYNC, QUEUE, CERTIFICATE, SYSTEM_DISK, TOKENS, KERNEL = "sync", "queue", "certificate", "system-disk", "tokens", "kernel"
PORTALS, LINKS, CLOCK, ZED, READONLY = "portals", "links", "clock", "zed", "readonly"
WARNING_BYTES, CRITICAL_BYTES = 1 << 30, 256 << 20
WARNING_DAYS, CRITICAL_DAYS = 21, 7
"""The appliance renews its certificate 30 days before its end. So an alert means that this failed, or that the certificate is not
the appliance's. certbot renews when a third of the lifetime is left, so short-lived certificates get their alerts later.
"""
TOKEN_DAYS, TOKEN_USED_DAYS = 14, 2
_DAY_S = 86400


def of_certificate(certificate: Certificate | None, now: float) -> list[Finding]:
    if certificate is None:
        return []
    days = (certificate.not_after - now) / _DAY_S
    lifetime = (certificate.not_after - certificate.not_before) / _DAY_S
    if days > min(WARNING_DAYS, lifetime / 4):
        return []
    when = time.strftime("%Y-%m-%d", time.gmtime(certificate.not_after))
    text = f"The certificate of the appliance ended on {when}" if days < 0 else f"The certificate of the appliance ends on {when}"
    remedy = (
        "systemctl reload zvaai-frontend renews it"
        if certificate.self_signed
        else "Upload a new certificate: zvaai certificate upload CHAIN.pem KEY.pem"
    )
    severity = "critical" if days <= min(CRITICAL_DAYS, lifetime / 12) else "warning"
    return [Finding(f"{CERTIFICATE}:ends", severity, "appliance", text, remedy)]


def renewed(certificate: Certificate) -> Finding:
    text = f"The appliance has another certificate, with the SHA-256 fingerprint {certificate.fingerprint}"
    remedy = "Compare it with: journalctl -u zvaai-frontend. Then run zvaai login again on each machine with the command"
    return Finding(f"{CERTIFICATE}:{certificate.fingerprint[:23]}", "info", "appliance", text, remedy)


def of_tokens(tokens: Iterable[Token], owners: Mapping[str, str], now: float) -> list[Finding]:
    """Tokens for a long time that programs use, and that end soon or have ended. `owners`: names of users by id."""
    return [
        Finding(
            f"{TOKENS}:{token.id}",
            "warning",
            owners[token.user_id],
            f"The API token {token.name} of {owners[token.user_id]} {'ends' if token.expires_at > now else 'ended'} on "
            f"{time.strftime('%Y-%m-%d', time.gmtime(token.expires_at))}. Then programs with it are refused, such as Prometheus",
            f"As {owners[token.user_id]}, create another one: zvaai token create NAME --scope {token.scope} --days 365. "
            f"Then run: zvaai token delete {token.id}",
        )
        for token in tokens
        if token.expires_at <= now + TOKEN_DAYS * _DAY_S
        and token.expires_at - token.created_at > 4 * TOKEN_DAYS * _DAY_S
        and (token.used_at or 0) > min(now, token.expires_at) - TOKEN_USED_DAYS * _DAY_S
    ]


def of_system_disk(folder: Path, free: int) -> list[Finding]:
    """`free` bytes are left where the database is. Without space it takes no change, and alerts are not even sent."""
    if free >= WARNING_BYTES:
        return []
    text = f"The file system of {folder} has {free >> 20} MiB left. Without space zvaai can store no change, and send no alert"
    severity = "critical" if free < CRITICAL_BYTES else "warning"
    remedy = f"Find what fills it: df {folder}; journalctl --disk-usage"
    return [Finding(f"{SYSTEM_DISK}:free", severity, "appliance", text, remedy)]


def of_kernel(kernel: str) -> list[Finding]:
    """`kernel` of the next boot lacks OpenZFS; "" is none."""
    return [Finding(f"{KERNEL}:next", "critical", "appliance", *without_openzfs(kernel))] if kernel else []


def of_clock(synchronized: bool) -> list[Finding]:
    if synchronized:
        return []
    text = "The clock of this server is not synchronized: schedules, protection of snapshots and one-time codes depend on it"
    remedy = "Check the NTP servers: timedatectl status; chronyc sources. If no program sets the clock: apt install chrony"
    return [Finding(f"{CLOCK}:ntp", "warning", "appliance", text, remedy)]


def of_zed(state: str | None) -> list[Finding]:
    """`state` of its unit, as systemd's ActiveState."""
    if state not in ("inactive", "failed"):
        return []
    text = "ZED does not run: hot spares replace no failed disk, and alerts of pools come up to a minute late"
    return [Finding(f"{ZED}:stopped", "warning", "appliance", text, "systemctl enable --now zfs-zed; journalctl -u zfs-zed")]


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


def of_readonly(stores: Iterable[Datastore], pools: Iterable[Pool]) -> list[Finding]:
    """Findings about datastores that are read-only by their dataset or their pool."""
    readonly = {pool.name for pool in pools if pool.readonly}
    return [
        Finding(
            f"{READONLY}:{store.id}",
            "critical",
            store.id,
            f"{store.name} is read-only: hosts cannot write",
            f"Pool {store.pool} is imported read-only. If it is damaged, copy its data first. Then import it writable: "
            f"zvaai pool export {quote(store.pool)} --wait; zvaai pool import {quote(store.pool)}"
            if store.pool in readonly
            else f"zfs set readonly=off {quote(store.dataset)}",
        )
        for store in stores
        if store.state == "active" and (store.readonly or store.pool in readonly)
    ]


def of_queues(stores: Iterable[Datastore], write_through: Collection[str | None]) -> list[Finding]:
    """Findings about datastores whose zvol's queue is set to write through, by UUID: Linux drops the flushes of hosts.

    With sync=always the intent log has every write, so nothing is lost.
    """
    return [
        Finding(
            f"{QUEUE}:{store.id}",
            "warning",
            store.id,
            f"The zvol of {store.name} is set to write through: a power cut loses writes that hosts believe are stable",
            f'echo "write back" > /sys/block/$(basename $(realpath {zvol_link(store.dataset)}))/queue/write_cache; '
            "if Linux refuses that, export and import the pool",
        )
        for store in stores
        if store.uuid in write_through and store.sync != "always"
    ]


def of_portals(obstacles: Mapping[str, str]) -> list[Finding]:
    """Findings about portals that hosts cannot reach, by address, each with the reason."""
    return [
        Finding(
            f"{PORTALS}:{portal}",
            "warning",
            "appliance",
            f"Hosts do not reach the portal {portal}: {reason}",
            portal_remedy(portal),
        )
        for portal, reason in obstacles.items()
    ]


def portal_remedy(portal: str) -> str:
    name = quote(portal)
    return (
        "If its address or link is away, bring it back: zvaai network show. If a program has the port, stop that: ss -ltnp. "
        f"Or change the portal: zvaai portal change {name} --address ADDRESS:3260. Or: zvaai portal remove {name}"
    )


def of_links(lost: Mapping[str, str]) -> list[Finding]:
    """Findings about network interfaces without a link, by name, each with its use."""
    return [
        Finding(
            f"{LINKS}:{interface}",
            "warning",
            "appliance",
            f"The network interface {interface}, {use}, has no link",
            "Check cable and switch port: zvaai network show. If it is unplugged on purpose, take it out of the bond or remove "
            "its address, or acknowledge this alert",
        )
        for interface, use in lost.items()
    ]
