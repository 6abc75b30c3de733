# SPDX-License-Identifier: Apache-2.0
"""Client of the iSCSI target's control socket (zvol_target/docs/control.md)."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from appliance import decoding
from appliance.dataplane import json_rpc
from appliance.dataplane.target import (
    CHANGING_TOGETHER,
    NOT_FOUND,
    NOT_SERVED,
    TAKEN,
    Access,
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
    TargetUnreachableError,
    UnknownInitiator,
)

_NO_METHOD = -32601


class TargetSocket:
    """The target. Any method raises TargetUnreachableError or TargetRefusedError. Thread-safe: each call has a connection."""

    def __init__(self, control: Path, timeout_s: float = 60) -> None:
        self._path = control
        self._timeout_s = timeout_s

    def _call(self, method: str, **parameters: Any) -> Any:
        try:
            answer = json_rpc.request(self._path, method, parameters, self._timeout_s)
        except (OSError, ValueError) as error:
            raise TargetUnreachableError(f"the iSCSI target does not answer at {self._path}: {error}") from error
        if "error" in answer:
            raise TargetRefusedError(int(answer["error"]["code"]), str(answer["error"]["message"]))
        return answer["result"]

    def _unless_missing(self, method: str, **parameters: Any) -> Any:
        try:
            return self._call(method, **parameters)
        except TargetRefusedError as error:
            if error.code != NOT_FOUND:
                raise
            return None

    def status(self) -> Status:
        response = self._call("status")
        portals = tuple(portal["address"] for portal in response["portals"])
        return decoding.convert({**response, "portals": portals}, Status)

    # --- iSCSI targets and LUNs

    def targets(self) -> list[ServedTarget]:
        return [
            ServedTarget(
                name=target["name"],
                initiators=_access(target["initiators"]),
                luns=tuple(_served(lun) for lun in target["luns"]),
                chap_required=target["accounts"]["required"],
                accounts=tuple(
                    Account(account["name"], _access(account["initiators"])) for account in target["accounts"]["incoming"]
                ),
                mutual=_name(target["accounts"]["mutual"]),
            )
            for target in self._call("targets.list")["targets"]
        ]

    def create_target(self, name: str) -> None:
        """Creates a target that admits no initiator, unless it exists."""
        try:
            self._call("targets.create", name=name)
        except TargetRefusedError as error:
            if error.code != TAKEN:  # it exists, with another access list
                raise

    def delete_target(self, name: str) -> bool | None:
        """Ends its sessions, and removes it with its LUNs. Returns whether their paths are closed; None for a missing target."""
        response = self._unless_missing("targets.delete", name=name)
        return None if response is None else bool(response["closed"])

    def set_access(self, target: str, initiators: Sequence[str], lun: int | None = None) -> None:
        """Sets the initiators that may log in, or that see the LUN. Ends sessions that are no longer admitted."""
        which = {} if lun is None else {"number": lun}
        self._call("access.set", target=target, initiators=list(initiators), **which)

    def create_lun(self, target: str, lun: Lun) -> None:
        """Serves a LUN. Refused if its path cannot be opened."""
        content: dict[str, Any] = {"number": lun.number, "uuid": lun.uuid, "path": lun.path}
        content["initiators"] = "any" if lun.initiators is None else list(lun.initiators)
        if lun.designation is not None:
            content["designation"] = {name: value for name, value in asdict(lun.designation).items() if value is not None}
        for together in CHANGING_TOGETHER:
            content |= {name: value for name in together if (value := _value(lun, name)) is not None}
        self._call("luns.create", target=target, lun=content)

    def change_lun(self, target: str, lun: Lun, fields: Sequence[str]) -> None:
        """Changes an entry of CHANGING_TOGETHER, while hosts use the LUN."""
        self._call("luns.change", target=target, number=lun.number, **{name: _value(lun, name) for name in fields})

    def delete_lun(self, target: str, number: int) -> bool | None:
        """Removes a LUN. Returns whether its path is closed; None (unknown) for a missing LUN."""
        response = self._unless_missing("luns.delete", target=target, number=number)
        return None if response is None else bool(response["closed"])

    def forget_registrations(self, folder: str, uuid: str) -> bool:
        """Removes the registrations of a destroyed LUN from the folder; returns whether there were any."""
        return bool(self._call("reservations.forget", directory=folder, uuid=uuid)["forgotten"])

    def refresh_lun(self, target: str, number: int) -> None:
        """Reads its size again; a missing LUN is not an error."""
        self._unless_missing("luns.refresh", target=target, number=number)

    def lun_space(self, uuid: str) -> LunSpace | None:
        """Counts its blocks, within about a second; None if the daemon cannot."""
        try:
            response = self._call("lun.space", uuid=uuid)
        except TargetRefusedError as error:
            if error.code not in (_NO_METHOD, NOT_FOUND, NOT_SERVED):
                raise
            return None
        return None if response.get("unique_bytes") is None else decoding.convert(response, LunSpace)

    # --- CHAP

    def set_account(self, target: str, name: str, secret: str, initiators: Sequence[str]) -> None:
        """Sets a CHAP account for at least one initiator. The first account makes CHAP required."""
        self._call("accounts.set", target=target, name=name, secret=secret, initiators=list(initiators))

    def delete_account(self, target: str, name: str) -> None:
        """Deletes an account, if it exists."""
        self._unless_missing("accounts.delete", target=target, name=name)

    def require_chap(self, target: str, required: bool) -> None:
        """Sets whether CHAP is required; refused while there are accounts."""
        self._call("accounts.require", target=target, required=required)

    def set_mutual(self, target: str, name: str, secret: str) -> None:
        """Sets the target's own account for mutual CHAP. Refused without an account of a host."""
        self._call("accounts.set", target=target, name=name, secret=secret, mutual=True)

    def delete_mutual(self, target: str, name: str) -> None:
        """Deletes the mutual account, if it exists."""
        self._unless_missing("accounts.delete", target=target, name=name, mutual=True)

    # --- portals, host groups, sessions

    def portals(self) -> list[Portal]:
        """All portals, those that listen first."""
        response = self._call("portals.list")
        return [
            Portal(entry["address"], entry["group_tag"], entry.get("advertised"), str(entry.get("reason", "")))
            for entry in (*response["portals"], *response["failed"])
        ]

    def create_portal(self, portal: Portal) -> None:
        self._call("portals.create", **_portal(portal))

    def change_portal(self, address: str, portal: Portal) -> None:
        """Replaces the portal at an address. Connections stay while their portal group has a portal."""
        self._call("portals.change", address=address, portal=_portal(portal))

    def delete_portal(self, address: str) -> None:
        """Removes a portal. Connections stay while their portal group has a portal."""
        self._call("portals.delete", address=address)

    def host_groups(self) -> list[HostGroup]:
        return [
            HostGroup(group["name"], tuple(group["initiators"]), tuple(group["disabled"]))
            for group in self._call("host_groups.list")["host_groups"]
        ]

    def set_host_group(self, group: HostGroup) -> None:
        self._call("host_groups.set", name=group.name, initiators=list(group.initiators), disabled=list(group.disabled))

    def delete_host_group(self, name: str) -> None:
        """Deletes a host group, if it exists."""
        self._unless_missing("host_groups.delete", name=name)

    def sessions(self) -> list[LoggedIn]:
        """Sessions of hosts with any target."""
        sessions = [session for session in self._call("sessions.list")["sessions"] if session["type"] == "normal"]
        return [decoding.convert({**session, "portal_group": session["portal_group_tag"]}, LoggedIn) for session in sessions]

    def unknown_initiators(self) -> list[UnknownInitiator]:
        """The latest first, 32 at most."""
        return decoding.convert(self._call("unknown_initiators.list")["initiators"], list[UnknownInitiator])

    # --- statistics, space

    def statistics(self, target: str) -> dict[str, Any]:
        response = self._unless_missing("statistics.get", target=target)
        return dict(response) if response else {"luns": [], "hosts": []}

    def set_pool(self, pool: str, soft_threshold: int) -> None:
        """Sets a pool's soft threshold for thin LUNs in percent; its headroom does not change."""
        self._call("space.set_pool", pool=pool, soft_threshold={"percent": soft_threshold})

    def space(self) -> dict[str, Any]:
        return dict(self._call("space.get"))


def _access(value: Any) -> Access:
    return None if value == "any" else tuple(value)


def _value(lun: Lun, name: str) -> Any:
    if name == "soft_threshold":
        return None if lun.soft_threshold is None else {"percent": lun.soft_threshold}
    if name == "guid":
        return None if lun.guid is None else str(lun.guid)
    return getattr(lun, name)


def _portal(portal: Portal) -> dict[str, Any]:
    more = {} if portal.advertised is None else {"advertised": portal.advertised}
    return {"address": portal.address, "group_tag": portal.group_tag, **more}


def _name(response: Any) -> str | None:
    return response.get("name") if isinstance(response, dict) else response


def _served(response: dict[str, Any]) -> ServedLun:
    threshold = response.get("soft_threshold")
    lun = {
        **response,
        "initiators": _access(response["initiators"]),
        "soft_threshold": threshold["percent"] if threshold else None,
        "provisioning": response.get("provisioning", ""),
        "guid": _guid(response.get("guid")),
    }
    return ServedLun(
        lun=decoding.convert(lun, Lun),
        state=response["state"],
        reason=response.get("reason", ""),
        size=response.get("size_bytes"),
        naa=response["naa"] or "",
        serial_number=response["serial_number"],
        dataset_guid=_guid(response.get("dataset_guid")),
        write_through=response.get("write_through", False),
    )


def _guid(response: str | None) -> int | None:
    return None if response is None else int(response)
