# SPDX-License-Identifier: Apache-2.0
"""Hosts and host groups: their names and addresses, their datastores, and their offloads."""

import contextlib
import ipaddress
import re
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field
from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from appliance.database.generation import TARGET
from appliance.database.models import ExportGroup, Host, HostGroup, HostInitiator, PresentationGroup, Setting
from appliance.domain import rows
from appliance.domain.errors import ConflictError, InvalidError
from appliance.domain.fields import ASCII, Identifier, Model, Name
from appliance.domain.secrets import Seal, SealedError

MUTUAL_SETTING = "iscsi-target-chap"
"""The setting with name and sealed secret by which the target proves itself, the number of changes, and the number that the
target has.
"""
_SEEN_SETTING = "hosts_seen"
"""The setting with the time at which each host was last seen, by identifier. An observation, not configuration."""
_SEEN_STEP_S = 30
"""A smaller step is not stored. The worker notes hosts once a minute, and after each change."""
HOSTS = 4096
GROUPS = 256
_IQN = re.compile(
    r"iqn\.[0-9]{4}-(?:0[1-9]|1[0-2])\.[a-z0-9.-]+(:[a-z0-9._:-]+)?|eui\.[0-9a-f]{16}|naa\.[0-9a-f]{16}([0-9a-f]{16})?"
)
"""No more than the target accepts, which refuses a whole access list for one such name."""

Offload = Literal["extended_copy", "write_same", "unmap", "token"]
"""XCOPY, WRITE SAME, UNMAP and ODX, by the target's names: what can be disabled for a group.

ATS cannot: VMFS that was formatted with ATS has no other lock. Without ATS, hosts do not mount it after a rescan, and VMs fail
(Broadcom KB 319797, 313040). To isolate a fault, a host has its own setting /VMFS3/HardwareAcceleratedLocking.
"""


def check_offloads(names: Sequence[str]) -> None:
    """Checks that these can be disabled. Raises InvalidError."""
    allowed = get_args(Offload)
    if refused := sorted(set(names).difference(allowed)):
        raise InvalidError("disabled_offloads", f"{', '.join(refused)} cannot be disabled for a host group", ", ".join(allowed))


def group(session: Session, group_id: str) -> HostGroup:
    return rows.existing(session, HostGroup, group_id, "host group")


def _check_group(session: Session, group_id: str) -> None:
    """Checks that the group exists. Raises InvalidError."""
    if session.get(HostGroup, group_id) is None:
        raise InvalidError("group", f"there is no host group {group_id!r}", "an ID from host-groups")


def add_group(session: Session, name: str, disabled: Sequence[str]) -> HostGroup:
    rows.check_name(session, HostGroup, name)
    if (session.scalar(select(func.count()).select_from(HostGroup)) or 0) >= GROUPS:
        raise ConflictError(f"there are {GROUPS} host groups already")
    added = HostGroup(id=str(uuid.uuid4()), name=name, disabled=sorted(set(disabled)), created_at=time.time())
    session.add(added)
    session.flush()
    return added


def change_group(session: Session, group_id: str, *, name: str | None, disabled: Sequence[str] | None) -> HostGroup:
    changed = group(session, group_id)
    if name is not None:
        rows.check_name(session, HostGroup, name, group_id)
        changed.name = name
    if disabled is not None:
        changed.disabled = sorted(set(disabled))
    return changed


def delete_group(session: Session, group_id: str) -> None:
    """Refused while it has hosts or datastores."""
    deleted = group(session, group_id)
    hosts = session.scalars(select(Host.name).where(Host.group_id == group_id).order_by(Host.name)).all()
    if hosts:
        raise ConflictError("hosts are in this group", hosts)
    datastores = [
        datastore
        for table in (PresentationGroup, ExportGroup)
        for datastore in session.scalars(select(table.datastore).where(table.group_id == group_id))
    ]
    if datastores:
        raise ConflictError("datastores are shown to this group (zvaai datastore show ID)", datastores)
    session.delete(deleted)


def host(session: Session, host_id: str) -> Host:
    return rows.existing(session, Host, host_id, "host")


def initiators(session: Session, host_id: str) -> list[str]:
    return list(session.scalars(select(HostInitiator.iqn).where(HostInitiator.host_id == host_id).order_by(HostInitiator.iqn)))


def all_initiators(session: Session) -> dict[str, list[str]]:
    by_host: dict[str, list[str]] = {}
    for host_id, iqn in session.execute(select(HostInitiator.host_id, HostInitiator.iqn).order_by(HostInitiator.iqn)):
        by_host.setdefault(host_id, []).append(iqn)
    return by_host


def last_seen(session: Session) -> dict[str, float]:
    """When each host was last logged in or used NFS, by identifier. A host that never was is absent."""
    setting = session.get(Setting, _SEEN_SETTING)
    return dict(setting.value) if setting else {}


def note_seen(session: Session, seen: Mapping[str, float]) -> None:
    """Stores when hosts were seen; `seen` has times by iSCSI name and address. Forgets deleted hosts."""
    iqns, before, after = all_initiators(session), last_seen(session), {}
    for host_ in session.scalars(select(Host)):
        names = (*iqns.get(host_.id, ()), *host_.addresses)
        after[host_.id] = max([before.get(host_.id, 0.0), *(seen[name] for name in names if name in seen)])
    if any(at - before.get(host_id, 0.0) > _SEEN_STEP_S for host_id, at in after.items()):
        session.merge(Setting(name=_SEEN_SETTING, value={host_id: at for host_id, at in after.items() if at}))


def check_iqns(names: Sequence[str]) -> None:
    """Checks that the names are iSCSI names. Raises InvalidError."""
    for name in names:
        if len(name) > 223 or not _IQN.fullmatch(name):
            raise InvalidError(
                "iqns",
                f"{name!r} is not an iSCSI name",
                "iqn.YYYY-MM.DOMAIN[:NAME], eui.16HEX or naa.16HEX, 223 characters at most",
            )


def _set_initiators(session: Session, host_id: str, names: Sequence[str]) -> None:
    lowercase = sorted({name.lower() for name in names})
    check_iqns(lowercase)
    for name in lowercase:
        other = session.get(HostInitiator, name)
        if other is not None and other.host_id != host_id:
            raise ConflictError(f"{name} is of another host", [host(session, other.host_id).name])
    session.execute(delete(HostInitiator).where(HostInitiator.host_id == host_id))
    session.add_all(HostInitiator(iqn=name, host_id=host_id) for name in lowercase)


def check_addresses(addresses: Sequence[str]) -> list[str]:
    """Addresses in canonical form. Raises InvalidError."""
    try:
        if any("%" in address for address in addresses):
            raise ValueError("an address with a scope is one of the host's own network only")
        return sorted({str(ipaddress.ip_address(address)) for address in addresses})
    except ValueError as error:
        raise InvalidError("addresses", str(error), "IPv4 or IPv6 addresses") from error


def check_chap(name: str, secret: str, field_name: str = "secret") -> None:
    """RFC 7143, 9.2.1: 96 bits at least. The target refuses the others too; here the error can name the field."""
    if not 12 <= len(secret.encode()) <= 255 or len(set(secret)) < 5:
        raise InvalidError(field_name, "it is too weak", "12 to 255 bytes, at least 5 different")
    if secret == name:
        raise InvalidError(field_name, "it is the name", "something else")


class ChapCreate(Model):
    """CHAP name and secret of a host. The secret is never returned."""

    name: Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[!-~]+$")]
    secret: Annotated[str, Field(min_length=12, max_length=255, pattern=ASCII)]


def _checked(check: Callable[[list[str]], object]) -> AfterValidator:
    """By the domain's rule, so that one refusal names all fields that are wrong."""

    def validate(values: list[str]) -> list[str]:
        try:
            check(values)
        except InvalidError as error:
            raise ValueError(f"{error.reason}; allowed: {error.allowed}") from error
        return values

    return AfterValidator(validate)


Iqns = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=223)]],
    Field(max_length=32),
    _checked(lambda names: check_iqns([name.lower() for name in names])),
]
Addresses = Annotated[list[Annotated[str, Field(min_length=2, max_length=45)]], Field(max_length=32), _checked(check_addresses)]


class HostCreate(Model):
    """A new host."""

    name: Name
    group: Identifier | None = None
    iqns: Iqns = []
    addresses: Addresses = []
    chap: ChapCreate | None = None


def add_host(session: Session, seal: Seal, new: HostCreate) -> Host:
    rows.check_name(session, Host, new.name)
    if new.group is not None:
        _check_group(session, new.group)
    if (session.scalar(select(func.count()).select_from(Host)) or 0) >= HOSTS:
        raise ConflictError(f"there are {HOSTS} hosts already")
    addresses = check_addresses(new.addresses)
    added = Host(id=str(uuid.uuid4()), name=new.name, group_id=new.group, addresses=addresses, created_at=time.time())
    session.add(added)
    session.flush()
    _set_initiators(session, added.id, new.iqns)
    if new.chap is not None:
        set_chap(session, seal, added.id, (new.chap.name, new.chap.secret), "chap.secret")
    session.flush()
    return added


def set_chap(session: Session, seal: Seal, host_id: str, chap: tuple[str, str] | None, field_name: str = "secret") -> None:
    """The name and secret the host proves itself with; None takes them away. The secret is never shown again. `field_name` is
    that of the secret in the request.

    Raises InvalidError; ConflictError for the name of another host, and for the secret of the target.
    """
    changed = host(session, host_id)
    if chap is not None:
        check_chap(*chap, field_name)
        same = session.scalar(select(Host).where(Host.chap_name == chap[0], Host.id != host_id))
        if same is not None:
            raise ConflictError(f"the CHAP name {chap[0]!r} is another host's", [same.name])
        mutual = session.get(Setting, MUTUAL_SETTING)
        with contextlib.suppress(SealedError):
            if mutual is not None and seal.open(mutual.value["secret"]) == chap[1]:
                raise ConflictError("the target proves itself by this secret, and the host could pretend to be it. Use another")
    changed.chap_name, changed.chap_secret = (chap[0], seal.seal(chap[1])) if chap else (None, None)
    changed.chap_revision += 1


def target_name(session: Session) -> str:
    """The name that the installation made for its iSCSI target."""
    return str(session.get_one(Setting, TARGET).value["name"])


def mutual_name(session: Session) -> str | None:
    setting = session.get(Setting, MUTUAL_SETTING)
    return str(setting.value["name"]) if setting else None


def mutual_revision(session: Session) -> int:
    setting = session.get(Setting, MUTUAL_SETTING)
    return int(setting.value["revision"]) if setting else 0


def mutual_applied(session: Session, revision: int) -> None:
    if setting := session.get(Setting, MUTUAL_SETTING):
        setting.value = {**setting.value, "applied": revision}


def set_mutual(session: Session, seal: Seal, chap: tuple[str, str] | None) -> None:
    """Sets the name and secret by which the target proves itself to hosts that request it; None removes them. Raises
    InvalidError; ConflictError for the secret of a host, which could then pretend to be the target.
    """
    setting = session.get(Setting, MUTUAL_SETTING)
    if chap is None:
        if setting is not None:
            session.delete(setting)
        return
    check_chap(*chap)
    for host_ in session.scalars(select(Host).where(Host.chap_secret.is_not(None))):
        with contextlib.suppress(SealedError):
            if host_.chap_secret is not None and seal.open(host_.chap_secret) == chap[1]:
                raise ConflictError("the target needs a secret that no host has", [host_.name], field_name="secret")
    revision = (setting.value["revision"] if setting else 0) + 1
    value = {"name": chap[0], "secret": seal.seal(chap[1]), "revision": revision, "applied": 0}
    session.merge(Setting(name=MUTUAL_SETTING, value=value))


def _by_iqn(session: Session) -> dict[str, Host]:
    joined = select(HostInitiator.iqn, Host).join(Host, HostInitiator.host_id == Host.id)
    return dict(session.execute(joined).tuples().all())


def check_not_locked_out(session: Session, logged_in: Sequence[str], force: bool) -> None:
    """Before CHAP is required: names hosts that are logged in and have no secret. Raises ConflictError."""
    by_iqn = _by_iqn(session)
    names = {
        (by_iqn[iqn].name if iqn in by_iqn else iqn) for iqn in logged_in if getattr(by_iqn.get(iqn), "chap_name", None) is None
    }
    if names and not force:
        reason = "hosts without a CHAP secret are logged in, and could not log in again; zvaai host chap sets a secret"
        raise ConflictError(reason, sorted(names), can_force=True)


def check_not_by_chap(session: Session, logged_in: Sequence[str], force: bool) -> None:
    """Before CHAP is not required any more: names hosts that are logged in by CHAP. `logged_in`: their iSCSI names.

    Without CHAP the target has no accounts, and refuses a login that offers only CHAP. Raises ConflictError.
    """
    by_iqn = _by_iqn(session)
    if logged_in and not force:
        reason = "hosts are logged in by CHAP. A host that offers only CHAP, or requests mutual CHAP, could not log in again"
        names = {by_iqn[iqn].name if iqn in by_iqn else iqn for iqn in logged_in}
        raise ConflictError(reason, sorted(names), can_force=True)


def check_chap_unused(session: Session, host_id: str, logged_in: Sequence[str], force: bool) -> None:
    """Before the secret of a host changes while CHAP is required: it is refused while the host is logged in by it.

    Raises ConflictError.
    """
    iqns, account = initiators(session, host_id), host(session, host_id)
    required = bool((setting := session.get(Setting, "iscsi")) and setting.value.get("chap_required"))
    if required and account.chap_name is not None and not force and set(iqns) & set(logged_in):
        reason = "the host is logged in by its CHAP secret, and could not log in again before the new one is set on it"
        raise ConflictError(reason, [account.name], can_force=True)


def change_host(
    session: Session, host_id: str, *, name: str | None, iqns: Sequence[str] | None, addresses: Sequence[str] | None
) -> Host:
    changed = host(session, host_id)
    if name is not None:
        rows.check_name(session, Host, name, host_id)
        changed.name = name
    if addresses is not None:
        changed.addresses = check_addresses(addresses)
    if iqns is not None:
        _set_initiators(session, host_id, iqns)
    session.flush()
    return changed


def move_host(session: Session, host_id: str, group_id: str | None) -> Host:
    moved = host(session, host_id)
    if group_id is not None:
        _check_group(session, group_id)
    moved.group_id = group_id
    session.flush()
    return moved


def delete_host(session: Session, host_id: str) -> None:
    """With its initiators: it can't log in any more."""
    session.delete(host(session, host_id))


def sees_all_of(session: Session, group_id: str | None, other: str | None) -> bool:
    """Whether the hosts of a group see each datastore that those of another group see."""

    def seen(group_id: str | None) -> set[str]:
        tables = (PresentationGroup, ExportGroup)
        return {uuid for table in tables for uuid in session.scalars(select(table.datastore).where(table.group_id == group_id))}

    return seen(other) <= seen(group_id)


def check_unused(session: Session, host_id: str, logged_in: set[str], force: bool) -> None:
    """Refused while the host uses datastores, unless forced. `logged_in` has iSCSI names, and addresses of NFS clients."""
    names = {*initiators(session, host_id), *host(session, host_id).addresses}
    used = sorted(names & logged_in)
    if used and not force:
        raise ConflictError("the host is logged in or has mounted, and would lose its datastores", used, can_force=True)
