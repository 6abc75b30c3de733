# SPDX-License-Identifier: Apache-2.0
"""What jobs do with holds on snapshots."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from appliance.domain import datastores as domain
from appliance.domain import holds
from appliance.domain.errors import NotFoundError
from appliance.worker.context import Context
from appliance.worker.errors import as_domain_errors
from appliance.worker.steps import Advance, Operation, Parameters, Plan
from appliance.zfs import errors as zfs


def listed(context: Context, asked: Mapping[str, Any], newest: float = 0) -> list[dict[str, Any]]:
    """Holds of a snapshot by their tags, `newest` as of Context.look. Raises NotFoundError, UnavailableError."""
    store = domain.find(context.datastores(newest), asked["id"])
    with as_domain_errors():
        try:
            found = context.engine.holds(f"{store.dataset}@{asked['snapshot']}")
        except (zfs.NoSuchSnapshot, zfs.InvalidName) as error:
            raise NotFoundError("snapshot", asked["snapshot"]) from error
    return [{"tag": one.tag, "created_at": one.created, "of": holds.owner(one.tag)} for one in found]


class _OfSnapshot(Operation):
    """Of one snapshot, by one tag."""

    states: tuple[str, ...]

    def plan(self, context: Context, asked: Parameters) -> Plan:
        """By the tags that are there."""
        store = domain.find(context.datastores(), asked["id"], *self.states)
        there = [one["tag"] for one in listed(context, asked, newest=60)]
        self.check(asked["tag"], there)
        name = f"{store.dataset}@{asked['snapshot']}"
        return Plan(f"{store.id}@{asked['snapshot']}", {"name": name, "tag": asked["tag"], "about": [store.id]})

    @abstractmethod
    def check(self, tag: str, there: list[str]) -> None:
        """Raises DomainError."""

    def run(self, context: Context, decided: Parameters, job_id: str, advance: Advance) -> Parameters:
        """What is so already is well: a job that is taken up again has done it."""
        advance("asking OpenZFS", 10)
        with contextlib.suppress(zfs.HoldExists, zfs.NoSuchHold):
            self.change(context, decided["name"], decided["tag"])
        context.look()
        return {"snapshot": decided["name"], "tag": decided["tag"]}

    @abstractmethod
    def change(self, context: Context, name: str, tag: str) -> None:
        """Raises ZfsError."""


class Hold(_OfSnapshot):
    """A snapshot can't be destroyed from then on: by users, schedules, a rollback, or with its datastore."""

    kind = "snapshot.hold"
    states = ("active",)

    def check(self, tag: str, there: list[str]) -> None:
        """See holds.check_new."""
        holds.check_new(tag, there)

    def change(self, context: Context, name: str, tag: str) -> None:
        """See ZfsEngine.hold."""
        context.engine.hold([name], tag)


class Release(_OfSnapshot):
    """Of a deleted datastore too, which could not be purged else."""

    kind = "snapshot.release"
    states = ("active", "deleted")

    def check(self, tag: str, there: list[str]) -> None:
        """See holds.check_release."""
        holds.check_release(tag, there)

    def change(self, context: Context, name: str, tag: str) -> None:
        """See ZfsEngine.release."""
        context.engine.release([name], tag)


OPERATIONS: Mapping[str, Operation] = {operation.kind: operation for operation in (Hold(), Release())}
