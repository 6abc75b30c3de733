# SPDX-License-Identifier: Apache-2.0
"""Reconciles the iSCSI target: compares the desired with the served state, and applies the difference.

    iSCSI target                one, by the desired name; one with a name of another database is removed, others never change
      access                    every initiator that sees a LUN, or will after the end of a job that took it away
      CHAP accounts             one per host with an account, while CHAP is required
      LUN number                the datastore's, by its UUID and GUID, so that a number can move; writable;
                                one whose UUID is served from a volume with another GUID does not change
        access                  initiators of its host groups
    host groups "zvaai:NAME"    with their disabled offloads

It removes access before it grants access, so that a later failure leaves no host with too much. A second run changes nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from operator import methodcaller
from typing import Concatenate

from appliance.config import is_made_target_name
from appliance.dataplane.target import CHANGING_TOGETHER, HostGroup, Lun, ServedTarget, TargetRefusedError
from appliance.dataplane.target_socket import TargetSocket

GROUP_PREFIX = "zvaai:"
MUTUAL = "mutual CHAP"
"""Subject of failures of the target's own CHAP account."""
Step = Callable[[TargetSocket], None]


@dataclass(frozen=True)
class DesiredAccount:
    """A CHAP account. `stale`: the target has an older secret."""

    name: str
    secret: str = field(repr=False)
    initiators: tuple[str, ...]
    stale: bool = False


@dataclass(frozen=True)
class DesiredState:
    target: str
    luns: Mapping[int, Lun]
    groups: Mapping[str, HostGroup]
    chap_required: bool = False
    accounts: Mapping[str, DesiredAccount] = field(default_factory=dict)
    mutual: DesiredAccount | None = None
    """The target's own account for mutual CHAP; requires an account of a host."""
    initiators: tuple[str, ...] = ()
    unknown: frozenset[str] = frozenset()
    """UUIDs of LUNs whose volumes are unavailable or ambiguous: the LUNs and their access do not change."""
    copies: frozenset[str] = frozenset()
    """Paths of copies. An unknown LUN at such a path stays only if the target checks the GUID of its volume."""
    retained_accounts: frozenset[str] = frozenset()
    """Accounts with unreadable secrets: they do not change."""


@dataclass(frozen=True)
class Difference[Control]:
    text: str
    apply: Callable[[Control], None]
    subject: str = ""


Differences = list[Difference[TargetSocket]]


def step[Control, **P](
    method: Callable[Concatenate[Control, P], object], *arguments: P.args, **named: P.kwargs
) -> Callable[[Control], None]:
    return methodcaller(method.__name__, *arguments, **named)


@dataclass(frozen=True)
class Failure:
    subject: str
    text: str
    still_open: bool = False
    """The LUN is removed, but running commands have not ended."""
    remedy: str = ""


class _StillOpenError(TargetRefusedError):
    """A removed LUN still has its volume open."""


@dataclass(frozen=True)
class Outcome:
    differences: tuple[str, ...]
    failures: tuple[Failure, ...]


def elsewhere(desired: DesiredState, served: ServedTarget | None) -> dict[str, Lun]:
    """Desired LUNs whose UUID the target has with a volume of another GUID, by UUID.

    Both volumes claim to be the datastore, and the target knows which one hosts have written to. The other becomes visible alone
    while the pool of that one is away: hosts would read old data. Only an adoption changes that, and removes the LUN first.
    """
    known = [current.lun for current in served.luns] if served else []
    luns = desired.luns.values()
    return {lun.uuid: lun for lun in luns if any(other.is_other_volume(lun.uuid, lun.guid) for other in known)}


def differences(desired: DesiredState, served: ServedTarget | None, groups: list[HostGroup]) -> Differences:
    """Steps from the served to the desired state, in an order that never grants too much access."""
    steps: Differences = []
    name = desired.target
    if served is None:
        steps.append(Difference(f"target {name} is missing", lambda control: control.create_target(name)))
        served = ServedTarget(name, ())
    retained = {iqn for current in served.luns if current.lun.uuid in desired.unknown for iqn in current.lun.initiators or ()}
    desired = replace(desired, initiators=tuple(sorted({*desired.initiators, *retained})))
    steps += _removals(desired, served)
    steps += _groups(desired, groups)
    steps += _accounts(desired, served)
    # Before the LUNs: an initiator that gets "target not found" (0203) should not retry (RFC 7143, 11.13.5).
    if served.initiators is None or set(served.initiators) != set(desired.initiators):
        steps.append(
            Difference(f"target {name} has another access list", lambda control: control.set_access(name, desired.initiators))
        )
    return steps + _luns(desired, served)


def is_ours(name: str, ours: str) -> bool:
    """Whether a target has our name, or a name that another database made."""
    return name == ours or is_made_target_name(name)


def _removal(what: str, remove: Callable[[TargetSocket], bool | None]) -> Step:
    """`remove` returns False while a volume is still open."""

    def step(control: TargetSocket) -> None:
        if remove(control) is False:
            raise _StillOpenError(-32008, f"{what} is removed, but running commands have not ended: a volume is still open")

    return step


def _delete_lun(target: str, number: int) -> Step:
    return _removal(f"LUN {number}", lambda control: control.delete_lun(target, number))


def _removals(desired: DesiredState, served: ServedTarget) -> Differences:
    steps: Differences = []
    masks: Differences = []
    admitted = set(desired.initiators)
    if served.initiators is None or not set(served.initiators) <= admitted:
        fewer = tuple(sorted(admitted if served.initiators is None else admitted & set(served.initiators)))
        steps.append(Difference("the target admits other initiators", lambda control: control.set_access(served.name, fewer)))
    for current in served.luns:
        right = desired.luns.get(current.lun.number)
        if right is not None and right.is_unit_of(current.lun):
            allowed = set(right.initiators or ())
            if current.lun.initiators is not None and not set(current.lun.initiators) <= allowed:
                fewer_hosts = replace(right, initiators=tuple(sorted(allowed & set(current.lun.initiators))))
                masks.append(
                    Difference(
                        f"LUN {current.lun.number} is shown to other hosts", _show_lun(served.name, fewer_hosts), right.uuid
                    )
                )
        elif current.lun.uuid not in desired.unknown or (current.lun.guid is None and current.lun.path in desired.copies):
            text = f"LUN {current.lun.number} should not be served"
            steps.append(Difference(text, _delete_lun(served.name, current.lun.number), current.lun.uuid))
    return masks + steps  # a mask is immediate, a removed LUN waits for its commands


def _groups(desired: DesiredState, groups: list[HostGroup]) -> Differences:
    steps = []
    current = {group.name: group for group in groups if group.name.startswith(GROUP_PREFIX)}
    for name in current.keys() - desired.groups.keys():
        steps.append(Difference(f"host group {name} should not exist", step(TargetSocket.delete_host_group, name)))
    changed = [group for name, group in desired.groups.items() if _group_key(current.get(name)) != _group_key(group)]
    for group in changed:
        old = current.get(group.name)
        staying = tuple(name for name in old.initiators if name in group.initiators) if old else ()
        if old and len(staying) < len(
            old.initiators
        ):  # a host that moves leaves its old group first, because it can be in one group only
            steps.append(
                Difference(
                    f"host group {group.name} has too many hosts",
                    step(TargetSocket.set_host_group, replace(old, initiators=staying)),
                )
            )
    steps += [
        Difference(f"host group {group.name} is another one", step(TargetSocket.set_host_group, group)) for group in changed
    ]
    return steps


def _group_key(group: HostGroup | None) -> tuple[frozenset[str], frozenset[str]] | None:
    return (frozenset(group.initiators), frozenset(group.disabled)) if group else None


def _accounts(desired: DesiredState, served: ServedTarget) -> Differences:
    steps: Differences = []
    current = {account.name: account for account in served.accounts}
    if desired.chap_required and not served.chap_required:
        steps.append(Difference("CHAP is not required", lambda control: control.require_chap(served.name, True)))
    mutual, current_mutual = desired.mutual, served.mutual
    if current_mutual is not None and (mutual is None or mutual.name != current_mutual):
        steps.append(
            Difference(
                f"target CHAP account {current_mutual} should not exist",
                step(TargetSocket.delete_mutual, served.name, current_mutual),
            )
        )
    for name in sorted(current.keys() - desired.accounts.keys() - desired.retained_accounts):
        steps.append(Difference(f"CHAP account {name} should not exist", step(TargetSocket.delete_account, served.name, name)))
    for account in desired.accounts.values():
        existing = current.get(account.name)
        if existing is None or account.stale or set(existing.initiators or ()) != set(account.initiators):
            change = step(TargetSocket.set_account, served.name, account.name, account.secret, account.initiators)
            steps.append(Difference(f"CHAP account {account.name} is another one", change, account.name))
    if mutual is not None and (mutual.name != current_mutual or mutual.stale):
        change = step(TargetSocket.set_mutual, served.name, mutual.name, mutual.secret)
        steps.append(Difference(f"target CHAP account {mutual.name} is missing", change, MUTUAL))
    if not desired.chap_required and served.chap_required:
        steps.append(Difference("CHAP should not be required", lambda control: control.require_chap(served.name, False)))
    return steps


def _luns(desired: DesiredState, served: ServedTarget) -> Differences:
    steps = []
    current = {served_lun.lun.number: served_lun for served_lun in served.luns}
    for number, lun in sorted(desired.luns.items()):
        existing = current.get(number)
        if existing is None or not lun.is_unit_of(existing.lun):
            steps.append(Difference(f"LUN {number} is not served", step(TargetSocket.create_lun, served.name, lun), lun.uuid))
            continue
        for fields in CHANGING_TOGETHER:
            if different := [name for name in fields if getattr(existing.lun, name) != getattr(lun, name)]:
                text = f"LUN {number} has another {' and '.join(different)}"
                steps.append(Difference(text, step(TargetSocket.change_lun, served.name, lun, fields), lun.uuid))
        if existing.lun.initiators is None or set(lun.initiators or ()) - set(existing.lun.initiators):
            steps.append(Difference(f"LUN {number} is not shown to all its hosts", _show_lun(served.name, lun), lun.uuid))
    return steps


def _show_lun(target: str, lun: Lun) -> Step:
    return lambda control: control.set_access(target, lun.initiators or (), lun.number)


def reconcile(control: TargetSocket, desired: DesiredState) -> Outcome:
    """Applies all differences; returns refused steps as failures. Raises TargetUnreachableError."""
    targets = {target.name: target for target in control.targets()}
    # First: they have the volumes of the LUNs open.
    steps = [
        Difference(f"target {name} should not exist", _removal(f"target {name}", methodcaller("delete_target", name)))
        for name in targets
        if name != desired.target and is_ours(name, desired.target)
    ]
    served = targets.get(desired.target)
    others = elsewhere(desired, served)
    luns = {number: lun for number, lun in desired.luns.items() if lun.uuid not in others}
    desired = replace(desired, luns=luns, unknown=desired.unknown.union(others))
    texts: list[str] = []
    failures = [
        Failure(
            uuid,
            f"LUN {lun.number} does not change to {lun.path}: hosts have written to another volume of this identity",
            remedy="Import the pool of that volume; or, if it is lost: zvaai datastore adopt DATASET NAME --keep-identity",
        )
        for uuid, lun in others.items()
    ]
    for difference in steps + differences(desired, served, control.host_groups()):
        texts.append(difference.text)
        try:
            difference.apply(control)
        except TargetRefusedError as error:
            failures.append(Failure(difference.subject, f"{difference.text}: {error}", isinstance(error, _StillOpenError)))
    return Outcome(tuple(texts), tuple(failures))
