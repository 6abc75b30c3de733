# SPDX-License-Identifier: Apache-2.0
"""The iSCSI target in memory, for tests of the API and of the console: it serves nobody."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from appliance.dataplane.target import (
    NOT_SERVED,
    NOT_THERE,
    TAKEN,
    Account,
    HostGroup,
    LoggedIn,
    Lun,
    LunSpace,
    Portal,
    Registrations,
    ServedLun,
    ServedTarget,
    Status,
    TargetControl,
    TargetRefusedError,
)


class TargetSimulator(TargetControl):
    """Keeps what it is told, and refuses what the daemon would."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._targets: dict[str, ServedTarget] = {}
        self._groups: dict[str, HostGroup] = {}
        self.listening: list[Portal] = [Portal("0.0.0.0:3260")]
        """What `portals` tells."""
        self.mutual: dict[str, str] = {}
        """Secrets of mutual accounts, by name."""
        self.logged_in: list[LoggedIn] = []
        """What `sessions` tells, for tests to set."""
        self.registered: dict[str, Registrations] = {}
        """By UUID, for tests to set."""
        self.forgotten: list[tuple[str, str]] = []
        """What `forget_registrations` was told, folder and UUID."""
        self.pools: list[dict[str, Any]] = []
        """What `space` tells of pools, for tests to set."""
        self.busy: set[str] = set()
        """UUIDs of LUNs whose commands do not end in time, for tests to set."""
        self.spaces: dict[str, LunSpace] = {}
        """What `lun_space` tells by UUID, for tests to set."""
        self.guid_at: Callable[[str], int | None] = lambda _path: None
        """Of the dataset at a path, for tests to set; None where nobody looks."""

    def _opened(self, lun: Lun) -> ServedLun:
        """As the daemon has it after opening its path."""
        kept, found = lun.designation, self.guid_at(lun.path)
        naa = next((name for name in _names(lun) if name.startswith("naa.")), "")
        served = ServedLun(lun, "serving", "", 0, naa, kept.serial_number if kept else uuid.UUID(lun.uuid).hex)
        if lun.guid is None or found in (None, lun.guid):
            return served
        reason = f"{lun.path}: it has the GUID {found}, and the LUN is of the dataset with the GUID {lun.guid}"
        return replace(served, state="failed", reason=reason, size=None, found_guid=found)

    def restart(self) -> None:
        """All paths are opened anew."""
        with self._lock:
            for name, target in self._targets.items():
                self._targets[name] = replace(target, luns=tuple(self._opened(served.lun) for served in target.luns))

    def _target(self, name: str) -> ServedTarget:
        if name not in self._targets:
            raise TargetRefusedError(NOT_THERE, f"there is no target {name}")
        return self._targets[name]

    def status(self) -> Status:
        """What runs."""
        with self._lock:
            luns = sum(len(target.luns) for target in self._targets.values())
            addresses = tuple(portal.address for portal in self.listening)
            return Status("simulator", 0, addresses, luns, 0, len(self.logged_in))

    def targets(self) -> list[ServedTarget]:
        """All."""
        with self._lock:
            return list(self._targets.values())

    def create_target(self, name: str) -> None:
        """One that admits nobody."""
        with self._lock:
            self._targets.setdefault(name, ServedTarget(name, ()))

    def set_access(self, target: str, initiators: Sequence[str], lun: int | None = None) -> None:
        """Who may log in, or sees the LUN."""
        with self._lock:
            found = self._target(target)
            if lun is None:
                self._targets[target] = replace(found, initiators=tuple(initiators))
                return
            if all(served.lun.number != lun for served in found.luns):
                raise TargetRefusedError(NOT_THERE, f"there is no LUN {lun}")
            luns = tuple(
                replace(served, lun=replace(served.lun, initiators=tuple(initiators))) if served.lun.number == lun else served
                for served in found.luns
            )
            self._targets[target] = replace(found, luns=luns)

    def create_lun(self, target: str, lun: Lun) -> None:
        """Serves it."""
        with self._lock:
            found = self._target(target)
            for served in found.luns:
                if served.lun.number == lun.number or served.lun.uuid == lun.uuid:
                    if served.lun == lun:
                        return
                    raise TargetRefusedError(TAKEN, f"LUN {served.lun.number} is there")
            if any(set(_names(lun)) & set(served.lun.designation.designators) for served in found.luns if served.lun.designation):
                raise TargetRefusedError(-32602, "designation: it is another unit's")
            opened = self._opened(lun)
            if opened.state == "failed":
                raise TargetRefusedError(NOT_SERVED, opened.reason)
            self._targets[target] = replace(found, luns=(*found.luns, opened))

    def change_lun(self, target: str, lun: Lun, fields: Sequence[str]) -> None:
        """What is named."""
        with self._lock:
            found = self._target(target)
            changed: dict[str, Any] = {name: getattr(lun, name) for name in fields}
            luns = tuple(
                self._opened(replace(served.lun, **changed)) if served.lun.number == lun.number else served
                for served in found.luns
            )
            self._targets[target] = replace(found, luns=luns)

    def delete_lun(self, target: str, number: int) -> bool | None:
        """Closed at once, unless a test says otherwise. Registrations that survive come back with the LUN."""
        with self._lock:
            found = self._targets.get(target)
            gone = next((served.lun for served in found.luns if served.lun.number == number), None) if found else None
            if found is None or gone is None:
                return None
            self._targets[target] = replace(found, luns=tuple(served for served in found.luns if served.lun.number != number))
            if gone.uuid in self.registered and not (self.registered[gone.uuid].survive and gone.reservations):
                del self.registered[gone.uuid]
            return gone.uuid not in self.busy

    def registrations(self, target: str, number: int) -> Registrations:
        """What a test says."""
        with self._lock:
            luns = self._targets[target].luns if target in self._targets else ()
            uuids = [served.lun.uuid for served in luns if served.lun.number == number]
            return self.registered.get(uuids[0] if uuids else "", Registrations((), survive=True))

    def forget_registrations(self, folder: str, uuid: str) -> bool:
        """Kept by UUID alone here."""
        with self._lock:
            if any(served.lun.uuid == uuid for target in self._targets.values() for served in target.luns):
                raise TargetRefusedError(-32602, f"uuid: {uuid} is a LUN that is there")
            self.forgotten.append((folder, uuid))
            return self.registered.pop(uuid, None) is not None

    def refresh_lun(self, target: str, number: int) -> None:
        """Nothing to look at."""

    def lun_space(self, uuid: str) -> LunSpace | None:
        """What a test says."""
        return self.spaces.get(uuid)

    def set_account(self, target: str, name: str, secret: str, initiators: Sequence[str]) -> None:
        """A CHAP account."""
        with self._lock:
            if not initiators:
                raise TargetRefusedError(-32602, "initiators: has 1 to 64 names")
            found = self._target(target)
            others = tuple(account for account in found.accounts if account.name != name)
            self._targets[target] = replace(
                found, chap_required=True, accounts=(*others, Account(name, tuple(sorted(initiators))))
            )

    def delete_account(self, target: str, name: str) -> None:
        """One that is not there is well."""
        with self._lock:
            found = self._target(target)
            self._targets[target] = replace(found, accounts=tuple(account for account in found.accounts if account.name != name))

    def require_chap(self, target: str, required: bool) -> None:
        """Whether CHAP is."""
        with self._lock:
            found = self._target(target)
            if not required and (found.accounts or found.mutual):
                raise TargetRefusedError(-32602, "required: there are accounts")
            self._targets[target] = replace(found, chap_required=required)

    def set_mutual(self, target: str, name: str, secret: str) -> None:
        """Refused without an account of a host."""
        with self._lock:
            found = self._target(target)
            if not found.accounts:
                raise TargetRefusedError(-32602, "mutual: it needs an account of an initiator beside it")
            self._targets[target], self.mutual = replace(found, mutual=name), {name: secret}

    def delete_mutual(self, target: str, name: str) -> None:
        """One that is not there is well."""
        with self._lock:
            self._targets[target] = replace(self._target(target), mutual=None)
            self.mutual.pop(name, None)

    def portals(self) -> tuple[list[Portal], bool]:
        """All."""
        with self._lock:
            return list(self.listening), False

    def create_portal(self, portal: Portal) -> None:
        """Refused at an address that a portal has, or beside every address."""
        with self._lock:
            wildcards = {f"0.0.0.0:{portal.address.rpartition(':')[2]}", portal.address}
            if portal in self.listening:
                return
            if any(one.address in wildcards for one in self.listening):
                raise TargetRefusedError(-32007, f"{portal.address}: the address is in use")
            self.listening.append(portal)

    def change_portal(self, address: str, portal: Portal) -> None:
        """In its place."""
        with self._lock:
            self._portal(address)
            self.listening = [portal if one.address == address else one for one in self.listening]

    def delete_portal(self, address: str) -> None:
        """One of them."""
        with self._lock:
            self.listening.remove(self._portal(address))

    def _portal(self, address: str) -> Portal:
        for one in self.listening:
            if one.address == address:
                return one
        raise TargetRefusedError(NOT_THERE, f"there is no portal {address}")

    def host_groups(self) -> list[HostGroup]:
        """All."""
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
        """One that is not there is well."""
        with self._lock:
            self._groups.pop(name, None)

    def sessions(self, target: str) -> list[LoggedIn]:
        """What a test says."""
        return [session for session in self.logged_in if session.target == target]

    def statistics(self, target: str) -> dict[str, Any]:
        """None."""
        return {"luns": [], "sessions": [], "hosts": []}

    def set_pool(self, pool: str, soft_threshold: int, headroom_bytes: int | None) -> None:
        """Of one that a test has put there."""
        with self._lock:
            told = next(one for one in self.pools if one["pool"] == pool)
            told["soft_threshold"] = {"percent": soft_threshold}
            told["headroom_bytes"] = headroom_bytes or min(max(told["total_bytes"] // 64, 64 << 20), 4 << 30)

    def space(self) -> dict[str, Any]:
        """Of the pools that a test has put there."""
        with self._lock:
            return {"pools": [dict(one) for one in self.pools], "luns": []}


def _names(lun: Lun) -> tuple[str, ...]:
    return lun.designation.designators if lun.designation else (f"naa.6{uuid.UUID(lun.uuid).hex[:31]}",)
