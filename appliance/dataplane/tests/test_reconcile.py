# SPDX-License-Identifier: Apache-2.0
"""The reconciler gets from any state to any other, and never grants too much access in between."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulators.target import TargetSimulator

from appliance.dataplane.reconcile import DesiredAccount, DesiredState, differences, reconcile
from appliance.dataplane.target import Account, HostGroup, Lun, TargetRefusedError

NAME = "iqn.2026-11.zvaai:test"
IQNS = [f"iqn.1998-01.com.vmware:esx{number}" for number in range(4)]
UUIDS = [str(uuid.UUID(int=number)) for number in range(1, 6)]


@st.composite
def desired_states(draw: st.DrawFn) -> DesiredState:
    chosen = draw(
        st.lists(
            st.tuples(st.integers(0, 6), st.sampled_from(UUIDS)),
            unique_by=(lambda pair: pair[0], lambda pair: pair[1]),
            max_size=5,
        )
    )
    some = st.lists(st.sampled_from(IQNS), unique=True, max_size=4)
    luns = {
        number: Lun(
            number,
            name,
            f"/volumes/{draw(st.integers(0, 1))}-{name}",
            tuple(sorted(draw(some))),
            draw(st.sampled_from([None, 80])),
            provisioning=draw(st.sampled_from(["automatic", "thin", "thick"])),
            reservations=draw(st.sampled_from([None, "/reservations"])),
            guid=draw(st.sampled_from([None, 7])),
        )
        for number, name in chosen
    }
    members = draw(st.lists(st.sampled_from([None, "zvaai:a", "zvaai:b"]), min_size=4, max_size=4))
    groups = {}
    for name in ("zvaai:a", "zvaai:b"):
        initiators = tuple(iqn for iqn, group in zip(IQNS, members, strict=True) if group == name)
        if draw(st.booleans()):
            groups[name] = HostGroup(
                name, initiators, tuple(sorted(draw(st.sets(st.sampled_from(["unmap", "token"]), min_size=1))))
            )
    chap = draw(st.booleans())
    accounts = draw(st.lists(st.sampled_from(["one", "two"]), unique=True)) if chap else []
    return DesiredState(
        target=NAME,
        luns=luns,
        groups=groups,
        chap_required=chap,
        accounts={name: DesiredAccount(name, f"{name} is a secret", tuple(IQNS[:2])) for name in accounts},
        initiators=tuple(sorted({iqn for lun in luns.values() for iqn in lun.initiators or ()})),
    )


class Watched(TargetSimulator):
    """Records the access after each step."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[set[tuple[str, str]]] = []

    def access(self) -> set[tuple[str, str]]:
        """Pairs of initiator and readable volume."""
        return {
            (iqn, served.lun.uuid)
            for target in self.targets()
            for served in target.luns
            for iqn in served.lun.initiators or ()
            if iqn in (target.initiators or ())
        }

    def set_access(self, target: str, initiators: Sequence[str], lun: int | None = None) -> None:
        super().set_access(target, initiators, lun)
        self.shown.append(self.access())

    def create_lun(self, target: str, lun: Lun) -> None:
        super().create_lun(target, lun)
        self.shown.append(self.access())

    def delete_lun(self, target: str, number: int) -> bool | None:
        closed = super().delete_lun(target, number)
        self.shown.append(self.access())
        return closed


def pairs(state: DesiredState) -> set[tuple[str, str]]:
    return {(iqn, lun.uuid) for lun in state.luns.values() for iqn in lun.initiators or ()}


@settings(max_examples=150)
@given(before=desired_states(), after=desired_states())
def test_from_anything_to_anything(before: DesiredState, after: DesiredState) -> None:
    target = Watched()
    assert not reconcile(target, before).failures
    target.shown.clear()
    outcome = reconcile(target, after)
    assert not outcome.failures
    assert target.access() == pairs(after)
    # In between no initiator had access that neither state grants.
    for shown in target.shown:
        assert shown <= pairs(before) | pairs(after)
    served = target.targets()[0]
    assert {served_lun.lun.number: served_lun.lun for served_lun in served.luns} == dict(after.luns)
    assert {account.name for account in served.accounts} == set(after.accounts) and served.chap_required == after.chap_required
    assert {group.name: (set(group.initiators), set(group.disabled)) for group in target.host_groups()} == {
        name: (set(group.initiators), set(group.disabled)) for name, group in after.groups.items()
    }
    assert reconcile(target, after).differences == ()


def test_others_are_left_alone() -> None:
    target = TargetSimulator()
    target.create_target("iqn.2026-11.somebody:else")
    target.set_host_group(HostGroup("by hand", (IQNS[0],), ("unmap",)))
    reconcile(target, DesiredState(NAME, {}, {}))
    assert {served.name for served in target.targets()} == {NAME, "iqn.2026-11.somebody:else"}
    assert [group.name for group in target.host_groups()] == ["by hand"]


def test_one_refusal_does_not_prevent_the_rest() -> None:
    class Refusing(TargetSimulator):
        def create_lun(self, target: str, lun: Lun) -> None:
            if lun.number == 1:
                raise TargetRefusedError(-32003, f"{lun.path}: there is no such file")
            super().create_lun(target, lun)

    target = Refusing()
    luns = {number: Lun(number, UUIDS[number], f"/volumes/{number}") for number in range(3)}
    outcome = reconcile(target, DesiredState(NAME, luns, {}))
    assert [failure.subject for failure in outcome.failures] == [UUIDS[1]]
    assert [served.lun.number for served in target.targets()[0].luns] == [0, 2]


def test_hosts_are_permitted_before_their_lun_exists() -> None:
    class Reading(TargetSimulator):
        def create_lun(self, target: str, lun: Lun) -> None:
            assert set(lun.initiators or ()) <= set(self.targets()[0].initiators or ()), "who sees the LUN can't log in"
            super().create_lun(target, lun)

    target = Reading()
    luns = {number: Lun(number, UUIDS[number], f"/volumes/{number}", (IQNS[number],)) for number in range(2)}
    assert not reconcile(target, DesiredState(NAME, luns, {}, initiators=tuple(IQNS[:2]))).failures
    assert target.targets()[0].initiators == tuple(IQNS[:2]) and len(target.targets()[0].luns) == 2


def test_a_changed_secret_is_set_again() -> None:
    target = TargetSimulator()
    account: dict[str, Any] = {"name": "one", "secret": "one is a secret", "initiators": (IQNS[1], IQNS[0])}
    reconcile(target, DesiredState(NAME, {}, {}, True, {"one": DesiredAccount(**account)}))
    assert target.targets()[0].accounts == (Account("one", (IQNS[0], IQNS[1])),)
    assert not differences(DesiredState(NAME, {}, {}, True, {"one": DesiredAccount(**account)}), target.targets()[0], [])
    fewer = DesiredState(NAME, {}, {}, True, {"one": DesiredAccount(**{**account, "initiators": (IQNS[0],)})})
    assert [step.text for step in differences(fewer, target.targets()[0], [])] == ["CHAP account one is another one"]
    stale = DesiredState(NAME, {}, {}, True, {"one": DesiredAccount(**account, stale=True)})
    assert [step.text for step in differences(stale, target.targets()[0], [])] == ["CHAP account one is another one"]


@pytest.mark.parametrize(
    "by_hand",
    [
        {"read_only": True},
        {"provisioning": "thin"},
        {"reservations": "/elsewhere"},
        {"soft_threshold": 0},
        {"guid": None},
    ],
    ids=lambda change: next(iter(change)),
)
def test_manual_changes_are_reverted(by_hand: dict[str, Any]) -> None:
    target = TargetSimulator()
    lun = Lun(0, UUIDS[0], "/volumes/0", provisioning="thick", reservations="/reservations", guid=7)
    reconcile(target, DesiredState(NAME, {0: lun}, {}))
    target.change_lun(NAME, replace(lun, **by_hand), list(by_hand))
    outcome = reconcile(target, DesiredState(NAME, {0: lun}, {}))
    assert outcome.differences == (f"LUN 0 has another {next(iter(by_hand))}",)
    assert target.targets()[0].luns[0].lun == lun


def test_a_missing_lun_does_not_count_as_closed() -> None:
    """Only the first of two responses reports that commands have not ended."""
    target = TargetSimulator()
    reconcile(target, DesiredState(NAME, {0: Lun(0, UUIDS[0], "/volumes/0")}, {}))
    target.busy.add(UUIDS[0])
    outcome = reconcile(target, DesiredState(NAME, {}, {}))
    assert [(failure.subject, failure.still_open) for failure in outcome.failures] == [(UUIDS[0], True)]
    assert target.delete_lun(NAME, 0) is None


def test_a_lun_does_not_change_to_other_data() -> None:
    """Of two volumes with one identity that of the hosts is away. They do not get the other, also not by another number."""
    target = TargetSimulator()
    lun, other = Lun(0, UUIDS[0], "/volumes/0", guid=7), Lun(1, UUIDS[1], "/volumes/1", guid=9)
    reconcile(target, DesiredState(NAME, {0: lun}, {}))
    for number in (0, 2):
        twin = replace(lun, number=number, path="/volumes/twin", guid=8)
        outcome = reconcile(target, DesiredState(NAME, {number: twin, 1: other}, {}))
        assert [failure.subject for failure in outcome.failures] == [UUIDS[0]]
        assert [served.lun.guid for served in target.targets()[0].luns] == [7, 9]
    target.delete_lun(NAME, 0)
    outcome = reconcile(target, DesiredState(NAME, {0: replace(lun, guid=8)}, {}))
    assert outcome.differences[-1] == "LUN 0 is not served" and not outcome.failures
    assert target.targets()[0].luns[0].lun.guid == 8


@pytest.mark.parametrize("guid", [None, 7])
def test_an_unknown_lun_does_not_stay_on_a_copy(guid: int | None) -> None:
    """If the target checks the GUID itself, the LUN keeps its place for the volume's return."""
    target = TargetSimulator()
    reconcile(target, DesiredState(NAME, {0: Lun(0, UUIDS[0], "/volumes/0", guid=guid)}, {}))
    doubt = DesiredState(NAME, {}, {}, unknown=frozenset(UUIDS[:1]))
    assert reconcile(target, doubt).differences == ()
    outcome = reconcile(target, replace(doubt, copies=frozenset(["/volumes/0"])))
    assert outcome.differences == (() if guid else ("LUN 0 should not be served",))
    assert [served.lun.guid for served in target.targets()[0].luns] == ([7] if guid else [])
