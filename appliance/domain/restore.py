# SPDX-License-Identifier: Apache-2.0
"""Applies a backup to the configuration: checked whole first, then done in one transaction. Returns the differences."""

from __future__ import annotations

import ssl
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from appliance.database.models import (
    Export,
    ExportGroup,
    Host,
    HostGroup,
    HostInitiator,
    LoginSession,
    Presentation,
    PresentationGroup,
    Receiver,
    Schedule,
    Setting,
    User,
)
from appliance.domain import backup, exports, hosts, jobs, receivers, schedules
from appliance.domain.backup import Content, Secrets
from appliance.domain.errors import ConflictError, DomainError, InvalidError
from appliance.domain.secrets import Seal, SealedError


@dataclass(frozen=True)
class Using:
    """Who uses datastores at the moment: iSCSI names that are logged in, addresses and networks that use NFS datastores."""

    iqns: Collection[str]
    addresses: Collection[str]
    registered: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Of what gets another LUN number (`renumbered`): the ports whose persistent reservations end then."""


def check(content: Content, secrets: Secrets, plain_allowed: bool) -> None:
    """That all of it fits together. Raises InvalidError, which names the place."""
    groups = {group.id for group in content.host_groups}
    for what, values in (
        ("users.name", [row.name for row in content.users]),
        ("users.id", [row.id for row in content.users]),
        ("host_groups.id", [row.id for row in content.host_groups]),
        ("host_groups.name", [row.name for row in content.host_groups]),
        ("hosts.id", [row.id for row in content.hosts]),
        ("hosts.name", [row.name for row in content.hosts]),
        ("hosts.iqns", [iqn.lower() for row in content.hosts for iqn in row.iqns]),
        ("hosts.chap_name", [row.chap_name for row in content.hosts if row.chap_name is not None]),
        ("presentations.datastore", [row.datastore for row in content.presentations]),
        ("presentations.lun", [row.lun for row in content.presentations]),
        ("exports.datastore", [row.datastore for row in content.exports]),
        ("exports.number", [row.number for row in content.exports]),
        ("exports.share", [row.share for row in content.exports]),
        ("schedules.id", [row.id for row in content.schedules]),
        ("schedules.name", [row.name for row in content.schedules]),
        ("receivers.id", [row.id for row in content.receivers]),
        ("receivers.name", [row.name for row in content.receivers]),
    ):
        twice = [value for value, count in Counter(values).items() if count > 1]
        if twice:
            raise InvalidError("backup", f"{what}: {twice[0]!r} is there twice")
    named = [("hosts", row.name, [row.group_id] if row.group_id else []) for row in content.hosts]
    named += [("presentations", row.datastore, row.groups) for row in content.presentations]
    named += [("exports", row.datastore, row.groups) for row in content.exports]
    for what, whose, references in named:
        if unknown := set(references) - groups:
            raise InvalidError("backup", f"{what}: {whose} names the group {min(unknown)}, which is not in it")
        if len(set(references)) != len(references):
            raise InvalidError("backup", f"{what}: {whose} names a group twice")
    for what, ids, known in (
        ("password_hashes", {row.id for row in content.users}, secrets.password_hashes),
        ("chap", {row.id for row in content.hosts if row.chap_name is not None}, secrets.chap),
        ("receivers", {row.id for row in content.receivers}, secrets.receivers),
    ):
        if ids != known.keys():
            raise InvalidError("backup", f"{what}: its secrets are not those of what is in it")
    _check_values(content, secrets, plain_allowed)


def _check_values(content: Content, secrets: Secrets, plain_allowed: bool) -> None:
    """By the rules that hold for what somebody makes."""
    what = ""
    try:
        for host in content.hosts:
            what = f"hosts: {host.name}"
            hosts.check_iqns([iqn.lower() for iqn in host.iqns])
            hosts.check_chap(host.chap_name, secrets.chap.get(host.id))
            hosts.check_addresses(host.addresses)
        for export in content.exports:
            what = f"exports: {export.share}"
            exports.check_clients(export.clients)
        for receiver in content.receivers:
            what = f"receivers: {receiver.name}"
            own = secrets.receivers[receiver.id]
            receivers.check_url(own.url, plain_allowed)
            receivers.check_mail(own.url, receiver.sender, receiver.recipients, receiver.user, own.secret)
            receivers.check_secret(own.url, own.secret)
            if receiver.certificate is not None:
                ssl.create_default_context(cadata=receiver.certificate)
    except (DomainError, ValueError, ssl.SSLError) as error:
        raise InvalidError("backup", f"{what}: {error}") from error


def apply(
    session: Session, seal: Seal, content: Content, secrets: Secrets, *, caller: str, using: Using, force: bool
) -> list[str]:
    """In the caller's transaction; what is changed, in words. Raises ConflictError, and then nothing may be committed.

    What is not in the backup goes, but users: they stay, and so does how datastores are shown that the backup does not know. Who
    restores it keeps role and password. Hosts that use datastores keep them, unless forced.
    """
    under_way = [job.id for job in jobs.active(session)]
    if under_way:
        raise ConflictError("jobs are under way; restore it when they have ended", under_way)
    before, sees = _summary(session, seal), _access(session, using)
    ends = {uuid: using.registered.get(uuid) for uuid in renumbered(session, content)}
    _shown(session, content)
    _hosts(session, seal, content, secrets)
    _people(session, content, secrets, caller)
    _rest(session, seal, content, secrets)
    session.flush()
    if not force and (unasked := [uuid for uuid, ports in ends.items() if ports is None]):
        raise ConflictError("LUN numbers have changed meanwhile; do it again", unasked)
    lost = _lost(sees, _access(session, using), using)
    lost += [f"{port}: persistent reservations of {uuid}" for uuid, ports in ends.items() for port in ports or ()]
    if lost and not force:
        raise ConflictError("hosts use what they would no longer see", lost, can_force=True)
    return _differences(before, _summary(session, seal)) + [f"taken from hosts that use it: {one}" for one in lost]


def renumbered(session: Session, content: Content) -> list[str]:
    """Datastores whose LUNs get another number: what hosts have registered with them may end."""
    luns = {row.datastore: row.lun for row in content.presentations}
    return [row.datastore for row in session.scalars(select(Presentation)) if luns.get(row.datastore, row.lun) != row.lun]


def _shown(session: Session, content: Content) -> None:
    """Empties what is shown, but for what the backup does not know; that keeps its number, and its groups that stay."""
    groups = {group.id for group in content.host_groups}
    luns = {row.datastore: row.lun for row in content.presentations}
    numbers = {row.datastore: (row.number, row.share) for row in content.exports}
    for lun in session.scalars(select(Presentation)).all():
        if lun.datastore not in luns and lun.lun in luns.values():
            raise ConflictError(f"LUN {lun.lun} is by now another datastore's; give that another number", [lun.datastore])
    for export in session.scalars(select(Export)).all():
        taken = [number for number, share in numbers.values() if number == export.number or share == export.share]
        if export.datastore not in numbers and taken:
            raise ConflictError(f"the export {export.share} is by now another datastore's", [export.datastore])
    for table, known in ((PresentationGroup, luns.keys()), (ExportGroup, numbers.keys())):
        rows: Sequence[Any] = session.scalars(select(table)).all()
        for row in rows:
            if row.datastore in known or row.group_id not in groups:
                session.delete(row)
    session.flush()
    session.execute(delete(Presentation).where(Presentation.datastore.in_(luns)))
    session.execute(delete(Export).where(Export.datastore.in_(numbers)))


def _hosts(session: Session, seal: Seal, content: Content, secrets: Secrets) -> None:
    """Hosts and groups anew, and what they are shown. The target is given each CHAP secret again."""
    revisions = {host.id: host.chap_revision for host in session.scalars(select(Host))}
    group_ids = {group.id for group in content.host_groups}
    session.execute(delete(HostInitiator))
    session.execute(delete(Host))
    session.execute(delete(HostGroup).where(HostGroup.id.not_in(group_ids)))
    for number, group in enumerate(session.scalars(select(HostGroup)).all()):
        group.name = f"\0{number}"  # names that change places
    session.flush()
    session.expunge_all()
    for row in content.host_groups:
        session.merge(HostGroup(**row.model_dump()))
    session.flush()
    for host in content.hosts:
        secret = secrets.chap.get(host.id)
        session.add(
            Host(
                **host.model_dump(exclude={"iqns", "addresses"}), addresses=hosts.check_addresses(host.addresses),
                chap_secret=seal.seal(secret) if secret is not None else None,
                chap_revision=revisions.get(host.id, 0) + 1, chap_applied=0,
            )
        )  # fmt: skip
    session.flush()
    session.add_all(HostInitiator(iqn=iqn.lower(), host_id=host.id) for host in content.hosts for iqn in host.iqns)
    session.add_all(Presentation(datastore=row.datastore, lun=row.lun) for row in content.presentations)
    session.add_all(
        Export(**row.model_dump(exclude={"groups", "clients"}), clients=exports.check_clients(row.clients))
        for row in content.exports
    )
    session.flush()
    session.add_all(
        PresentationGroup(datastore=row.datastore, group_id=one) for row in content.presentations for one in row.groups
    )
    session.add_all(ExportGroup(datastore=row.datastore, group_id=one) for row in content.exports for one in row.groups)
    session.flush()


def _people(session: Session, content: Content, secrets: Secrets, caller: str) -> None:
    """By name: who is there stays who it is, with the role and password of the backup; sessions end where those change."""
    by_name = {user.name: user for user in session.scalars(select(User))}
    ids = {user.id for user in by_name.values()}
    for row in content.users:
        found = by_name.get(row.name)
        values = {"role": row.role, "disabled": row.disabled, "password_hash": secrets.password_hashes[row.id]}
        if found is None:
            if row.id in ids:
                raise ConflictError("a user of the backup has another name by now", [row.name])
            session.add(User(id=row.id, name=row.name, created_at=row.created_at, **values))
        elif found.id != caller:
            if found.password_hash != values["password_hash"] or row.disabled:
                session.execute(delete(LoginSession).where(LoginSession.user_id == found.id))
            for name, value in values.items():
                setattr(found, name, value)
    session.flush()


def _rest(session: Session, seal: Seal, content: Content, secrets: Secrets) -> None:
    session.merge(Setting(name="iscsi", value=content.iscsi.model_dump()))
    ran = {one.id: (one.last_at, one.attempted_at) for one in session.scalars(select(Schedule))}
    now = time.time()
    session.flush()
    session.execute(delete(Schedule))
    session.expunge_all()
    # One that comes back takes its next snapshot when it is due, not all of them at once.
    for one in content.schedules:
        last_at, attempted_at = ran.get(one.id, (None, now))
        restored = Schedule(**one.model_dump(), last_at=last_at, attempted_at=attempted_at)
        schedules.settings(restored).check()
        session.add(restored)
    session.execute(delete(Receiver).where(Receiver.id.not_in({row.id for row in content.receivers})))
    for number, receiver in enumerate(session.scalars(select(Receiver)).all()):
        receiver.name = f"\0{number}"
    session.flush()
    session.expunge_all()
    for row in content.receivers:
        own = secrets.receivers[row.id]
        session.merge(Receiver(**row.model_dump(), url=seal.seal(own.url), secret=seal.seal(own.secret)))


# --- who sees what


def _access(session: Session, using: Using) -> dict[str, set[str]]:
    """What each initiator, and each address and network that uses something, sees, and as whom, in words."""
    sees: dict[str, set[str]] = {}
    luns = session.execute(
        select(HostInitiator.iqn, Presentation.lun, Presentation.datastore)
        .join(Host, Host.id == HostInitiator.host_id)
        .join(PresentationGroup, PresentationGroup.group_id == Host.group_id)
        .join(Presentation, Presentation.datastore == PresentationGroup.datastore)
    )
    for iqn, lun, datastore in luns:
        sees.setdefault(iqn, set()).add(f"LUN {lun} ({datastore})")
    groups: dict[str, list[str]] = {}
    for datastore, group_id in session.execute(select(ExportGroup.datastore, ExportGroup.group_id)):
        groups.setdefault(datastore, []).append(group_id)
    for export in session.scalars(select(Export)):
        hosts_of = exports.addresses(session, groups.get(export.datastore, ()))
        for who in using.addresses:
            if who in hosts_of or exports.is_within(who, export.clients):
                sees.setdefault(who, set()).update(_rights(export))
    return sees


def _rights(export: Export) -> set[str]:
    """What a client has of it; each of these may be taken away."""
    whole = f"{export.share}, export {export.number} ({export.datastore})"
    squashed = {"none": ("root", "each user"), "root": ("each user",)}.get(export.squash, ())
    return {whole, *(f"{whole} by NFSv{version}" for version in export.versions), *(f"{whole} as {who}" for who in squashed)}


def _lost(before: Mapping[str, set[str]], after: Mapping[str, set[str]], using: Using) -> list[str]:
    found = []
    for who in sorted({*using.iqns, *using.addresses}):
        gone = before.get(who, set()) - after.get(who, set())
        found += [f"{who}: {what}" for what in sorted(gone) if not any(what.startswith(f"{other} ") for other in gone)]
    return found


# --- what is changed


_KINDS = (
    ("user", "users", "name"), ("host group", "host_groups", "name"), ("host", "hosts", "name"), ("LUN", "presentations", "lun"),
    ("export", "exports", "share"), ("schedule", "schedules", "name"), ("receiver", "receivers", "name"),
)  # fmt: skip
"""What it is called, where a backup has it, and by which of its fields it is known."""


def _summary(session: Session, seal: Seal) -> dict[str, dict[str, dict[str, Any]]]:
    """All that a backup is about, by kind and name; of secrets that they are others, not what."""
    session.flush()
    content = backup.content(session).model_dump()
    names = {group["id"]: group["name"] for group in content["host_groups"]}
    hashes = {user.id: user.password_hash for user in session.scalars(select(User))}
    urls = {receiver.id: _url(seal, receiver) for receiver in session.scalars(select(Receiver))}
    for user in content["users"]:
        user["password_hash"] = hashes[user["id"]]
    for receiver in content["receivers"]:
        receiver["url"] = urls[receiver["id"]]
    for host in content["hosts"]:
        host["group"] = names.get(host.pop("group_id"))
    for shown in (*content["presentations"], *content["exports"]):
        shown["groups"] = [names[one] for one in shown["groups"]]
    return {"settings": {"iscsi": content["iscsi"]}} | {
        kind: {
            str(row[key]): {name: value for name, value in row.items() if name not in ("id", "created_at", key)}
            for row in content[part]
        }
        for kind, part, key in _KINDS
    }


def _url(seal: Seal, receiver: Receiver) -> str | None:
    try:
        return receivers.url_of(seal, receiver)
    except SealedError:
        return None


_SECRET = {"password_hash", "url", "certificate"}


def _differences(before: Mapping[str, Mapping[str, Any]], after: Mapping[str, Mapping[str, Any]]) -> list[str]:
    found: list[str] = []
    for kind, desired in after.items():
        had = before[kind]
        found += [f"{kind} {name}: removed" for name in sorted(had.keys() - desired.keys())]
        found += [f"{kind} {name}: added" for name in sorted(desired.keys() - had.keys())]
        for name in sorted(desired.keys() & had.keys()):
            found += [
                f"{kind} {name}: {_change(field, had[name][field], value)}" for field, value in _changed(had[name], desired[name])
            ]
    return found


def _changed(had: Mapping[str, Any], desired: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    return [(field, value) for field, value in desired.items() if had[field] != value]


def _change(field: str, had: Any, desired: Any) -> str:
    return f"another {field.replace('_', ' ')}" if field in _SECRET else f"{field} from {had!r} to {desired!r}"
