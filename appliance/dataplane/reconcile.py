# SPDX-License-Identifier: Apache-2.0
"""Makes the iSCSI target serve what it should: looks at what is wanted and at what is, and does the difference.

    iSCSI target                one, by the configured name; others are somebody else's and left alone
      access                    every initiator that sees a LUN, or will again when a job that took it away has ended
      CHAP accounts             one for each host that has one, while CHAP is required
      LUN number                the datastore's, by its UUID and GUID, so that a number can move; no write cache, writable
        access                  initiators of the host groups it is presented to
    host groups "zvaai:NAME"    with the offloads their hosts are not offered

It takes away before it gives: who should not see something sees it no longer, whatever fails after. Run again it does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from appliance.dataplane.target import (
    CHANGING_TOGETHER,
    HostGroup,
    Lun,
    ServedTarget,
    TargetControl,
    TargetRefusedError,
)

GROUP_PREFIX = "zvaai:"
Step = Callable[[TargetControl], None]


@dataclass(frozen=True)
class WantedAccount:
    """A CHAP account. `stale` says that the target has an older secret."""

    name: str
    secret: str = field(repr=False)
    initiators: tuple[str, ...]
    """Who may use it: the names of one host."""
    stale: bool = False


@dataclass(frozen=True)
class Wanted:
    """What is to be served."""

    target: str
    luns: Mapping[int, Lun]
    groups: Mapping[str, HostGroup]
    chap_required: bool = False
    accounts: Mapping[str, WantedAccount] = field(default_factory=dict)
    initiators: tuple[str, ...] = ()
    unknown: frozenset[str] = frozenset()
    """LUNs, by UUID, whose volumes can't be seen now or are in doubt: they stay as they are, and who sees them too."""
    copies: frozenset[str] = frozenset()
    """Paths at which copies are. An unknown LUN there stays only if the target itself looks whether the volume is its own."""
    kept_accounts: frozenset[str] = frozenset()
    """Accounts whose secrets can't be had: they stay as they are."""


@dataclass(frozen=True)
class Difference:
    """One step, and in words what was not as it should be."""

    text: str
    apply: Step
    subject: str = ""


@dataclass(frozen=True)
class Failure:
    """A step that was refused."""

    subject: str
    text: str
    still_open: bool = False
    """The LUN is taken away, but commands under way have not ended."""
    remedy: str = ""


class _StillOpenError(TargetRefusedError):
    """A LUN that is taken away has its volume open."""


@dataclass(frozen=True)
class Outcome:
    """What a round found and did."""

    differences: tuple[str, ...]
    failures: tuple[Failure, ...]


def differences(wanted: Wanted, served: ServedTarget | None, groups: list[HostGroup]) -> list[Difference]:
    """The steps from what is to what is wanted, in an order that never shows too much."""
    steps: list[Difference] = []
    name = wanted.target
    if served is None:
        steps.append(Difference(f"target {name} is missing", lambda control: control.create_target(name)))
        served = ServedTarget(name, ())
    kept = {iqn for found in served.luns if found.lun.uuid in wanted.unknown for iqn in found.lun.initiators or ()}
    wanted = replace(wanted, initiators=tuple(sorted({*wanted.initiators, *kept})))
    steps += _taken_away(wanted, served)
    steps += _groups(wanted, groups)
    steps += _accounts(wanted, served)
    # Before their LUNs: who is told that there is no such target (0203) should not ask again (RFC 7143, 11.13.5).
    if served.initiators is None or set(served.initiators) != set(wanted.initiators):
        steps.append(
            Difference(f"target {name} has another access list", lambda control: control.set_access(name, wanted.initiators))
        )
    return steps + _luns(wanted, served)


def _delete_lun(target: str, number: int) -> Step:
    def step(control: TargetControl) -> None:
        if control.delete_lun(target, number) is False:
            raise _StillOpenError(
                -32008, f"LUN {number} is taken away, but commands under way have not ended: its volume is still open"
            )

    return step


def _taken_away(wanted: Wanted, served: ServedTarget) -> list[Difference]:
    steps: list[Difference] = []
    masks: list[Difference] = []
    admitted = set(wanted.initiators)
    if served.initiators is None or not set(served.initiators) <= admitted:
        fewer = tuple(sorted(admitted if served.initiators is None else admitted & set(served.initiators)))
        steps.append(Difference("the target admits who it should not", lambda control: control.set_access(served.name, fewer)))
    for found in served.luns:
        right = wanted.luns.get(found.lun.number)
        if right is not None and right.is_unit_of(found.lun):
            allowed = set(right.initiators or ())
            if found.lun.initiators is not None and not set(found.lun.initiators) <= allowed:
                fewer_hosts = replace(right, initiators=tuple(sorted(allowed & set(found.lun.initiators))))
                masks.append(
                    Difference(f"LUN {found.lun.number} is shown to other hosts", _show_lun(served.name, fewer_hosts), right.uuid)
                )
        elif found.lun.uuid not in wanted.unknown or (found.lun.guid is None and found.lun.path in wanted.copies):
            text = f"LUN {found.lun.number} should not be served"
            steps.append(Difference(text, _delete_lun(served.name, found.lun.number), found.lun.uuid))
    return masks + steps  # a mask takes no time, a LUN that goes waits for its commands


def _groups(wanted: Wanted, groups: list[HostGroup]) -> list[Difference]:
    steps = []
    there = {group.name: group for group in groups if group.name.startswith(GROUP_PREFIX)}
    for name in there.keys() - wanted.groups.keys():
        steps.append(Difference(f"host group {name} should not be there", _delete_group(name)))
    changed = [group for name, group in wanted.groups.items() if _group_key(there.get(name)) != _group_key(group)]
    for group in changed:
        old = there.get(group.name)
        staying = tuple(name for name in old.initiators if name in group.initiators) if old else ()
        if old and len(staying) < len(old.initiators):  # a host that moves leaves its old group first: it is in one at most
            steps.append(Difference(f"host group {group.name} has hosts too many", _set_group(replace(old, initiators=staying))))
    steps += [Difference(f"host group {group.name} is another one", _set_group(group)) for group in changed]
    return steps


def _group_key(group: HostGroup | None) -> tuple[frozenset[str], frozenset[str]] | None:
    return (frozenset(group.initiators), frozenset(group.disabled)) if group else None


def _set_group(group: HostGroup) -> Step:
    return lambda control: control.set_host_group(group)


def _delete_group(name: str) -> Step:
    return lambda control: control.delete_host_group(name)


def _accounts(wanted: Wanted, served: ServedTarget) -> list[Difference]:
    steps: list[Difference] = []
    there = {account.name: account for account in served.accounts}
    if wanted.chap_required and not served.chap_required:
        steps.append(Difference("CHAP is not required", lambda control: control.require_chap(served.name, True)))
    for name in sorted(there.keys() - wanted.accounts.keys() - wanted.kept_accounts):
        steps.append(Difference(f"CHAP account {name} should not be there", _delete_account(served.name, name)))
    for account in wanted.accounts.values():
        found = there.get(account.name)
        if found is None or account.stale or set(found.initiators or ()) != set(account.initiators):
            steps.append(
                Difference(f"CHAP account {account.name} is another one", _set_account(served.name, account), account.name)
            )
    if not wanted.chap_required and served.chap_required:
        steps.append(Difference("CHAP should not be required", lambda control: control.require_chap(served.name, False)))
    return steps


def _set_account(target: str, account: WantedAccount) -> Step:
    return lambda control: control.set_account(target, account.name, account.secret, account.initiators)


def _delete_account(target: str, name: str) -> Step:
    return lambda control: control.delete_account(target, name)


def _luns(wanted: Wanted, served: ServedTarget) -> list[Difference]:
    steps = []
    there = {found.lun.number: found for found in served.luns}
    for number, lun in sorted(wanted.luns.items()):
        found = there.get(number)
        if found is None or not lun.is_unit_of(found.lun):
            steps.append(Difference(f"LUN {number} is not served", _create_lun(served.name, lun), lun.uuid))
            continue
        for fields in CHANGING_TOGETHER:
            if different := [name for name in fields if getattr(found.lun, name) != getattr(lun, name)]:
                text = f"LUN {number} has another {' and '.join(different)}"
                steps.append(Difference(text, _change_lun(served.name, lun, fields), lun.uuid))
        if found.lun.initiators is None or set(lun.initiators or ()) - set(found.lun.initiators):
            steps.append(Difference(f"LUN {number} is not shown to all its hosts", _show_lun(served.name, lun), lun.uuid))
    return steps


def _create_lun(target: str, lun: Lun) -> Step:
    return lambda control: control.create_lun(target, lun)


def _change_lun(target: str, lun: Lun, fields: tuple[str, ...]) -> Step:
    return lambda control: control.change_lun(target, lun, fields)


def _show_lun(target: str, lun: Lun) -> Step:
    return lambda control: control.set_access(target, lun.initiators or (), lun.number)


def reconcile(control: TargetControl, wanted: Wanted) -> Outcome:
    """One round. What is refused is told, and the rest is done. Raises TargetUnreachableError."""
    served = next((target for target in control.targets() if target.name == wanted.target), None)
    found: list[str] = []
    failures: list[Failure] = []
    for step in differences(wanted, served, control.host_groups()):
        found.append(step.text)
        try:
            step.apply(control)
        except TargetRefusedError as error:
            failures.append(Failure(step.subject, f"{step.text}: {error}", isinstance(error, _StillOpenError)))
    return Outcome(tuple(found), tuple(failures))
