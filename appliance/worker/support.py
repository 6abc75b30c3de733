# SPDX-License-Identifier: Apache-2.0
"""The support bundle: data for troubleshooting in a file, without secrets."""

import io
import json
import logging
import os
import platform
import re
import sqlite3
import sys
import tarfile
import time
import traceback
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import get_args
from urllib.parse import urlsplit

from sqlalchemy import select

from appliance import __version__
from appliance.database.models import Alert, AuditEntry, Base, Delivery, Event, Host, Job, Receiver
from appliance.domain import configuration, requests, support
from appliance.domain.jobs import Plan, Result
from appliance.domain.receivers import url_of
from appliance.domain.secrets import SealedError
from appliance.worker import server_log
from appliance.worker.context import Context
from appliance.worker.steps import Advance, Operation, by_kind
from appliance.zfs.errors import ZfsError

NEWEST = {Job: 2000, Alert: 2000, AuditEntry: 5000, Event: 5000, Delivery: 500}
LOG_ENTRIES = 5000
"""Of each unit."""
LARGEST_MEMBER = 32 << 20
_SHORTEST = 4
"""Shorter strings occur in any text."""
_PATTERNS = (
    r"zvaai_[0-9a-f]{32}_[A-Za-z0-9_-]{43}",  # API tokens
    r"\$argon2id\$[^\"'\s\\]+",
    r"gAAAA[A-Za-z0-9_-]{40,}={0,2}",  # secrets sealed with the installation's key
    r"whsec_[A-Za-z0-9+/]{20,}={0,2}",
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----",
)
_SECRET = re.compile("|".join(_PATTERNS), re.DOTALL)
_log = logging.getLogger(__name__)
Reader = Callable[[], object]


class Redaction:
    """Removes secrets from a text: the installation's by value, others by pattern."""

    def __init__(self, known: Iterable[str]) -> None:
        forms: set[str] = set()
        for secret in known:
            once = json.dumps(secret)[1:-1]
            forms |= {secret, once, json.dumps(once)[1:-1]} if len(secret) >= _SHORTEST else set()
        self._known = sorted(forms, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for secret in self._known:
            text = text.replace(secret, "(secret)")
        return _SECRET.sub("(secret)", text)


def known_secrets(context: Context) -> Iterator[str]:
    """Secrets that could appear in a log or a job. Passwords and tokens are stored only as hashes."""
    with context.store.reading() as session:
        sealed = [secret for secret in session.scalars(select(Host.chap_secret)) if secret]
        receivers = list(session.scalars(select(Receiver)))
    for text in [*sealed, *(receiver.secret for receiver in receivers)]:
        with suppress(SealedError):
            yield context.seal.open(text)
    for receiver in receivers:
        url = ""
        with suppress(SealedError):
            url = url_of(context.seal, receiver)
        parts = urlsplit(url)  # it may have a token in it
        yield url
        yield from (part for part in re.split("[/=&?]", f"{parts.path}?{parts.query}") if len(part) >= 2 * _SHORTEST)
    with suppress(OSError):
        yield context.configuration.setup_code.read_text().strip()


class BundlePlan(Plan, frozen=True, kw_only=True):
    bundle: str


class BundleResult(Result, frozen=True, kw_only=True):
    """`size` in bytes."""

    bundle: str
    size: int


class Bundle(Operation[requests.CreateBundle, BundlePlan]):
    """Creates a bundle, and deletes all but the newest ones."""

    kind = "support.bundle"

    def plan(self, context: Context, request: requests.CreateBundle) -> BundlePlan:
        return BundlePlan(subject="support bundle", pools=(), bundle=str(uuid.uuid4()))

    def run(self, context: Context, plan: BundlePlan, job_id: str, advance: Advance) -> BundleResult:
        """Unavailable parts contain the reason. The file gets its name when it is complete."""
        folder = context.configuration.support_directory
        folder.mkdir(mode=0o700, exist_ok=True)
        file = support.file_of(folder, plan.bundle)
        new = file.with_suffix(".new")
        new.unlink(missing_ok=True)
        redact = Redaction(known_secrets(context))
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as written:
            with tarfile.open(fileobj=written, mode="w:gz") as archive:
                parts = list(_parts(context).items())
                for place, (name, read) in enumerate(parts):
                    advance(name, 10 + 85 * place // len(parts))
                    _add(archive, name, redact(_content(name, read)))
            written.flush()
            os.fsync(written.fileno())
        new.rename(file)
        support.forget_old(folder)
        return BundleResult(bundle=plan.bundle, size=file.stat().st_size)

    def undo(self, context: Context, plan: BundlePlan) -> bool:
        support.file_of(context.configuration.support_directory, plan.bundle).with_suffix(".new").unlink(missing_ok=True)
        return True


def _content(name: str, read: Reader) -> str:
    try:
        content = read()
    except Exception as error:  # any error may be the reason for the bundle
        _log.warning("%s: %s", name, error)
        return json.dumps({"unavailable": traceback.format_exception(error)}, indent=1)
    return content if isinstance(content, str) else json.dumps(content, indent=1, default=str)


def _add(archive: tarfile.TarFile, name: str, text: str) -> None:
    data = text.encode()[:LARGEST_MEMBER]
    member = tarfile.TarInfo(f"zvaai-support/{name}")
    member.size, member.mtime, member.mode = len(data), int(time.time()), 0o600
    archive.addfile(member, io.BytesIO(data))


def _parts(context: Context) -> Mapping[str, Reader]:
    def rows(table: type[Base]) -> Reader:
        return lambda: _newest(context, table)

    return {
        "versions.json": lambda: _versions(context),
        "appliance.json": lambda: context.configuration.model_dump(mode="json"),
        "configuration.json": lambda: _configuration(context),
        "pools.json": lambda: [asdict(pool) for pool in context.scan().pools],
        "zpool-status.txt": lambda: _zpool_status(context),
        "datastores.json": lambda: [asdict(store) for store in context.datastores()],
        "snapshots.json": lambda: [asdict(snapshot) for snapshot in context.scan(60).snapshots],
        "disks.json": lambda: [asdict(report) for report in context.disk_reports()],
        "target.json": lambda: _target(context),
        "statistics.json": lambda: context.target.statistics(context.target_name),
        "space.json": lambda: context.target.space(),
        "nfs-statistics.json": lambda: context.files.counters(),
        "nfs-exports.json": lambda: [asdict(export) for export in context.nfs.served()],
        "jobs.jsonl": rows(Job),
        "alerts.jsonl": rows(Alert),
        "audit.jsonl": rows(AuditEntry),
        "events.jsonl": rows(Event),
        "receiver-deliveries.jsonl": rows(Delivery),
        **{f"logs/{unit}.jsonl": partial(_log_of, unit) for unit in get_args(server_log.Unit)},
    }


def _configuration(context: Context) -> object:
    with context.store.reading() as session:
        return configuration.without_secrets(session)


def _newest(context: Context, table: type[Base]) -> str:
    """Newest first, as LARGEST_MEMBER cuts off the end."""
    order = table.__table__.c["sequence" if table is Job else "id"]
    with context.store.reading() as session:
        rows = session.execute(select(table.__table__).order_by(order.desc()).limit(NEWEST[table])).mappings().all()
    return "".join(json.dumps(dict(row), default=str) + "\n" for row in rows)


def _zpool_status(context: Context) -> str:
    """Status of each pool, or the error that prevented reading it."""
    outputs = []
    names = [pool.name for pool in context.engine.pools()]
    for name in names:
        try:
            outputs.append(context.engine.zpool_status(name))
        except ZfsError as error:
            outputs.append(f"  pool: {name}\n(unavailable: {error})\n")
    return "\n".join(outputs)


def _log_of(unit: server_log.Unit) -> str:
    """The newest entries, oldest first. Raises UnavailableError."""
    entries = server_log.newest(server_log.Filter(unit=unit), LOG_ENTRIES)
    return "".join(json.dumps(asdict(entry)) + "\n" for entry in reversed(entries))


def _target(context: Context) -> object:
    return {
        "status": asdict(context.target.status()),
        "targets": [asdict(target) for target in context.target.targets()],
        "host_groups": [asdict(host_group) for host_group in context.target.host_groups()],
        "sessions": [asdict(session) for session in context.target.sessions()],
    }


def _versions(context: Context) -> object:
    def first_of(path: str) -> str | None:
        with suppress(OSError):
            return Path(path).read_text().strip()
        return None

    return {
        "appliance": __version__,
        "python": sys.version,
        "sqlite": sqlite3.sqlite_version,
        "system": platform.platform(),
        "debian": first_of("/etc/debian_version"),
        "openzfs_module": first_of("/sys/module/zfs/version"),
        "zvol_clone_module": first_of("/sys/module/zvol_clone/version"),
        "reconciled_at": context.reconciling.at,
        "reconcile_problem": context.reconciling.problem,
        "at": time.time(),
    }


OPERATIONS = by_kind(Bundle())
