# SPDX-License-Identifier: Apache-2.0
"""An iSCSI target in memory, for tests of the API and the console. It serves no host."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from appliance.dataplane.target import (
    NOT_FOUND,
    NOT_SERVED,
    TAKEN,
    Account,
    HostGroup,
    LoggedIn,
    Lun,
    LunSpace,
    Portal,
    ServedLun,
    ServedTarget,
    Status,
    TargetRefusedError,
    UnknownInitiator,
)
from appliance.dataplane.target_socket import TargetSocket


class TargetSimulator(TargetSocket):
    """Keeps its configuration, and refuses what the daemon refuses."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._targets: dict[str, ServedTarget] = {}
        self._groups: dict[str, HostGroup] = {}
        self.listening: list[Portal] = [Portal("0.0.0.0:3260")]
        """Response of `portals`."""
        self.mutual: dict[str, str] = {}
        """Secrets of mutual accounts, by name."""
        self.logged_in: list[LoggedIn] = []
        self.unknown: list[UnknownInitiator] = []
        """Response of `sessions`, set by tests."""
        self.forgotten: list[tuple[str, str]] = []
        """Requests of `forget_registrations`: folder and UUID."""
        self.pools: list[dict[str, Any]] = []
        """Pools in the response of `space`, set by tests."""
        self.busy: set[str] = set()
        """UUIDs of LUNs whose commands do not end in time, set by tests."""
        self.spaces: dict[str, LunSpace] = {}
        """Responses of `lun_space` by UUID, set by tests."""
        self.write_through: set[str] = set()
        """UUIDs of LUNs whose zvols drop flushes, set by tests."""
        self.guid_at: Callable[[str], int | None] = lambda _path: None
        """GUID of the dataset at a path, set by tests; None: not checked."""

    def _opened(self, lun: Lun) -> ServedLun:
        """The LUN after the daemon opened its path."""
        designation, dataset_guid = lun.designation, self.guid_at(lun.path)
        naa = next((name for name in _names(lun) if name.startswith("naa.")), "")
        served = ServedLun(lun, "serving", "", 0, naa, designation.serial_number if designation else uuid.UUID(lun.uuid).hex)
        if lun.guid is None or dataset_guid in (None, lun.guid):
            return served
        reason = f"{lun.path}: it has the GUID {dataset_guid}, and the LUN needs the dataset with the GUID {lun.guid}"
        return replace(served, state="failed", reason=reason, size=None, dataset_guid=dataset_guid)

    def restart(self) -> None:
        """Reopens all paths."""
        with self._lock:
            for name, target in self._targets.items():
                self._targets[name] = replace(target, luns=tuple(self._opened(served.lun) for served in target.luns))

    def _target(self, name: str) -> ServedTarget:
        if name not in self._targets:
            raise TargetRefusedError(NOT_FOUND, f"there is no target {name}")
        return self._targets[name]

    def status(self) -> Status:
        with self._lock:
            luns = sum(len(target.luns) for target in self._targets.values())
            addresses = tuple(portal.address for portal in self.listening if not portal.problem)
            return Status("simulator", 0, addresses, luns, 0, len(self.logged_in))

    def targets(self) -> list[ServedTarget]:
        with self._lock:
            return [replace(target, luns=tuple(map(self._checked, target.luns))) for target in self._targets.values()]

    def _checked(self, served: ServedLun) -> ServedLun:
        return replace(served, write_through=served.lun.uuid in self.write_through)

    def create_target(self, name: str) -> None:
        with self._lock:
            self._targets.setdefault(name, ServedTarget(name, ()))

    def delete_target(self, name: str) -> bool | None:
        with self._lock:
            gone = self._targets.pop(name, None)
            return None if gone is None else not any(served.lun.uuid in self.busy for served in gone.luns)

    def set_access(self, target: str, initiators: Sequence[str], lun: int | None = None) -> None:
        """Sets the initiators that may log in, or that see the LUN."""
        with self._lock:
            current = self._target(target)
            if lun is None:
                self._targets[target] = replace(current, initiators=tuple(initiators))
                return
            if all(served.lun.number != lun for served in current.luns):
                raise TargetRefusedError(NOT_FOUND, f"there is no LUN {lun}")
            luns = tuple(
                replace(served, lun=replace(served.lun, initiators=tuple(initiators))) if served.lun.number == lun else served
                for served in current.luns
            )
            self._targets[target] = replace(current, luns=luns)

    def create_lun(self, target: str, lun: Lun) -> None:
        with self._lock:
            current = self._target(target)
            for served in current.luns:
                if served.lun.number == lun.number or served.lun.uuid == lun.uuid:
                    if served.lun == lun:
                        return
                    raise TargetRefusedError(TAKEN, f"LUN {served.lun.number} is there")
            adopted = [served.lun.designation for served in current.luns if served.lun.designation]
            if any(set(_names(lun)) & set(designation.designators) for designation in adopted):
                raise TargetRefusedError(-32602, "designation: it belongs to another LUN")
            opened = self._opened(lun)
            if opened.state == "failed":
                raise TargetRefusedError(NOT_SERVED, opened.reason)
            self._targets[target] = replace(current, luns=(*current.luns, opened))

    def change_lun(self, target: str, lun: Lun, fields: Sequence[str]) -> None:
        with self._lock:
            current = self._target(target)
            changed: dict[str, Any] = {name: getattr(lun, name) for name in fields}
            luns = tuple(
                self._opened(replace(served.lun, **changed)) if served.lun.number == lun.number else served
                for served in current.luns
            )
            self._targets[target] = replace(current, luns=luns)

    def delete_lun(self, target: str, number: int) -> bool | None:
        """Closes the LUN immediately, unless it is busy."""
        with self._lock:
            current = self._targets.get(target)
            gone = next((served.lun for served in current.luns if served.lun.number == number), None) if current else None
            if current is None or gone is None:
                return None
            self._targets[target] = replace(current, luns=tuple(served for served in current.luns if served.lun.number != number))
            return gone.uuid not in self.busy

    def forget_registrations(self, folder: str, uuid: str) -> bool:
        with self._lock:
            if any(served.lun.uuid == uuid for target in self._targets.values() for served in target.luns):
                raise TargetRefusedError(-32602, f"uuid: {uuid} is a LUN that is there")
            self.forgotten.append((folder, uuid))
            return True

    def refresh_lun(self, target: str, number: int) -> None: ...

    def lun_space(self, uuid: str) -> LunSpace | None:
        return self.spaces.get(uuid)

    def set_account(self, target: str, name: str, secret: str, initiators: Sequence[str]) -> None:
        with self._lock:
            if not initiators:
                raise TargetRefusedError(-32602, "initiators: has 1 to 64 names")
            current = self._target(target)
            others = tuple(account for account in current.accounts if account.name != name)
            self._targets[target] = replace(
                current, chap_required=True, accounts=(*others, Account(name, tuple(sorted(initiators))))
            )

    def delete_account(self, target: str, name: str) -> None:
        """A missing account is not an error."""
        with self._lock:
            current = self._target(target)
            others = tuple(account for account in current.accounts if account.name != name)
            self._targets[target] = replace(current, accounts=others)

    def require_chap(self, target: str, required: bool) -> None:
        with self._lock:
            current = self._target(target)
            if not required and (current.accounts or current.mutual):
                raise TargetRefusedError(-32602, "required: there are accounts")
            self._targets[target] = replace(current, chap_required=required)

    def set_mutual(self, target: str, name: str, secret: str) -> None:
        """Refused without a host's account."""
        with self._lock:
            current = self._target(target)
            if not current.accounts:
                raise TargetRefusedError(-32602, "mutual: it needs an account of an initiator")
            self._targets[target], self.mutual = replace(current, mutual=name), {name: secret}

    def delete_mutual(self, target: str, name: str) -> None:
        """A missing account is not an error."""
        with self._lock:
            self._targets[target] = replace(self._target(target), mutual=None)
            self.mutual.pop(name, None)

    def portals(self) -> list[Portal]:
        with self._lock:
            return list(self.listening)

    def create_portal(self, portal: Portal) -> None:
        """Refused if the address has a portal, or if a portal listens on all addresses."""
        with self._lock:
            wildcards = {f"0.0.0.0:{portal.address.rpartition(':')[2]}", portal.address}
            if portal in self.listening:
                return
            if any(other.address in wildcards for other in self.listening):
                raise TargetRefusedError(-32007, f"{portal.address}: the address is in use")
            self.listening.append(portal)

    def change_portal(self, address: str, portal: Portal) -> None:
        with self._lock:
            self._portal(address)
            self.listening = [portal if other.address == address else other for other in self.listening]

    def delete_portal(self, address: str) -> None:
        with self._lock:
            self.listening.remove(self._portal(address))

    def _portal(self, address: str) -> Portal:
        for portal in self.listening:
            if portal.address == address:
                return portal
        raise TargetRefusedError(NOT_FOUND, f"there is no portal {address}")

    def host_groups(self) -> list[HostGroup]:
        with self._lock:
            return list(self._groups.values())

    def set_host_group(self, group: HostGroup) -> None:
        """A host is in one group at most."""
        with self._lock:
            for other in self._groups.values():
                if other.name != group.name and set(other.initiators) & set(group.initiators):
                    raise TargetRefusedError(-32602, f"host_groups: a host is in {other.name!r} already")
            self._groups[group.name] = group

    def delete_host_group(self, name: str) -> None:
        """A missing group is not an error."""
        with self._lock:
            self._groups.pop(name, None)

    def sessions(self) -> list[LoggedIn]:
        return [session for session in self.logged_in if session.target in self._targets]

    def unknown_initiators(self) -> list[UnknownInitiator]:
        return list(self.unknown)

    def statistics(self, target: str) -> dict[str, Any]:
        return {"luns": [], "hosts": []}

    def set_pool(self, pool: str, soft_threshold: int) -> None:
        with self._lock:
            settings = next(other for other in self.pools if other["pool"] == pool)
            settings["soft_threshold"] = {"percent": soft_threshold}

    def space(self) -> dict[str, Any]:
        with self._lock:
            return {"pools": [dict(pool) for pool in self.pools], "luns": []}


def _names(lun: Lun) -> tuple[str, ...]:
    return lun.designation.designators if lun.designation else (f"naa.6{uuid.UUID(lun.uuid).hex[:31]}",)
