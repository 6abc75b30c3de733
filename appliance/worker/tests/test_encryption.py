# SPDX-License-Identifier: Apache-2.0
"""Encrypted datastores: their key is created, stored, loaded before they are served, and exported until it is confirmed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from simulators.appliance import GIB, PASSWORD, Appliance
from simulators.target import TargetSimulator

from appliance.domain.access import Role
from appliance.worker import reservations
from appliance.zfs.keys import StoredKeys
from appliance.zfs.model import KeyStatus

ROOT = "tank/zvaai-encrypted"


def served(appliance: Appliance) -> set[str]:
    return {lun.lun.uuid for target in appliance.target.targets() for lun in target.luns}


def key(appliance: Appliance) -> Any:
    (response,) = appliance.get("/encryption-keys")["items"]
    return response


def lock(appliance: Appliance) -> None:
    """Like a restart of the server: no key is loaded and nothing is served."""
    assert isinstance(appliance.target, TargetSimulator)
    for target in appliance.target.targets():
        for lun in target.luns:
            appliance.target.delete_lun(target.name, lun.lun.number)
    appliance.simulator.unload_key(ROOT)


def test_all_operations_with_one_key(appliance: Appliance) -> None:
    assert appliance.get("/encryption-keys")["items"] == []
    plain = appliance.datastore("plain")
    store = appliance.datastore("secret", encrypted=True)
    response = appliance.get(f"/datastores/{store}")
    assert response["dataset"].startswith(f"{ROOT}/secret-")
    assert (response["encryption"], response["key_status"]) == ("aes-256-gcm", "available")
    assert appliance.get(f"/datastores/{plain}")["encryption"] is None
    never = {"exported_at": None, "confirmed_at": None}
    assert key(appliance) | {"pool": "tank", "stored": True, "key_status": "available", **never} == key(appliance)
    # A second datastore has the same root, and so has a clone.
    assert appliance.request("POST", "/encryption-keys/tank/export", {"password": PASSWORD}).status_code == 200
    appliance.datastore("more", encrypted=True)
    clone = appliance.job("POST", f"/datastores/{store}/clone", {"name": "clone"})["result"]["datastore"]
    appliance.job("DELETE", f"/datastores/{clone}")
    appliance.job("POST", f"/datastores/{clone}/restore", {})
    assert {volume.encryption.root for volume in appliance.simulator.volumes(ROOT) if volume.encryption} == {ROOT}
    appliance.job("DELETE", f"/datastores/{clone}")
    appliance.job("POST", f"/datastores/{clone}/purge")
    assert len(appliance.simulator.volumes(ROOT)) == 2


def test_a_pools_root_file_system_with_an_identity_is_no_obstacle(appliance: Appliance) -> None:
    """As after `zfs receive -F` of a datastore with its properties into a pool."""
    appliance.simulator.set_properties("tank", {"zvaai:uuid": "5b0f2a3e-9c1d-4c51-8a6e-2f2f6c1c0d11", "zvaai:name": "odd"})
    appliance.request("POST", "/reconcile")
    assert [each["dataset"] for each in appliance.get("/datastores")["items"]] == ["tank"]
    appliance.datastore("secret", encrypted=True)


def test_reservations_need_no_key_of_the_pools_root(appliance: Appliance) -> None:
    root = appliance.simulator.pool_state("tank").datasets[""]
    root.algorithm, root.key_loaded = "aes-256-gcm", True
    appliance.datastore("first")
    appliance.simulator.export_pool("tank")
    appliance.simulator.import_pool("tank")
    locked = appliance.simulator.filesystem("tank").encryption
    assert locked is not None and locked.key_status == KeyStatus.UNAVAILABLE
    filesystem = appliance.simulator.filesystem(f"tank/{reservations.DATASET}")
    reservations.ensure(appliance.simulator, appliance.simulator.pool("tank"), filesystem, first=False)
    assert filesystem.encryption is None and appliance.simulator.filesystem(filesystem.name).mounted


def test_an_adopted_datastore_stays_below_the_root_of_its_key(appliance: Appliance) -> None:
    engine = appliance.simulator
    engine.create_filesystem("tank/secret", key=bytes(32))
    engine.create_volume("tank/secret/vm", GIB)
    store = appliance.job("POST", "/volumes/adopt", {"dataset": "tank/secret/vm", "name": "vm"})["result"]["datastore"]
    appliance.job("DELETE", f"/datastores/{store}")
    appliance.job("POST", f"/datastores/{store}/restore", {})
    assert appliance.get(f"/datastores/{store}")["dataset"] == "tank/secret/vm"
    clone = appliance.job("POST", f"/datastores/{store}/clone", {"name": "clone"})["result"]["datastore"]
    assert appliance.get(f"/datastores/{clone}")["dataset"].startswith("tank/secret/clone-")
    appliance.datastore("plain", encrypted=True)
    answer = appliance.request("POST", "/volumes/adopt", {"dataset": ROOT, "name": "odd"})
    assert answer.status_code == 422 and "belongs to" in answer.text


@pytest.mark.parametrize("kind", ["vmfs", "nfs"])
def test_an_encryption_root_is_cloned_only_below_another_root(kind: str, appliance: Appliance) -> None:
    """OpenZFS gives a clone its origin's encryption root, so nothing could load the key of a clone elsewhere, or delete it."""
    engine = appliance.simulator
    appliance.datastore("plain", encrypted=True)
    if kind == "vmfs":
        engine.create_volume("tank/vm", GIB)
        volume = engine.pool_state("tank").datasets["vm"]
        volume.algorithm, volume.key_loaded = "aes-256-gcm", True
    else:
        engine.create_filesystem("tank/vm", key=bytes(32))
    store = appliance.job("POST", "/volumes/adopt", {"dataset": "tank/vm", "name": "vm"})["result"]["datastore"]
    snapshots = engine.snapshots()
    refused = appliance.request("POST", f"/datastores/{store}/clone", {"name": "clone"})
    assert refused.status_code == 409 and f"zfs rename tank/vm {ROOT}/vm; zfs change-key -i {ROOT}/vm" in refused.text
    assert engine.snapshots() == snapshots
    # It can be deleted and restored.
    appliance.job("DELETE", f"/datastores/{store}")
    appliance.job("POST", f"/datastores/{store}/restore", {})
    # A clone by hand has the same root, and is refused too.
    dataset = appliance.get(f"/datastores/{store}")["dataset"]
    engine.snapshot([f"{dataset}@one"])
    engine.clone(f"{dataset}@one", "tank/twin")
    twin = appliance.job("POST", "/volumes/adopt", {"dataset": "tank/twin", "name": "twin"})["result"]["datastore"]
    assert appliance.request("POST", f"/datastores/{twin}/clone", {"name": "clone"}).status_code == 409
    # After the remedy.
    pool = engine.pool_state("tank")
    pool.datasets["zvaai-encrypted/vm"] = pool.datasets.pop("vm")
    pool.datasets["zvaai-encrypted/vm"].algorithm = None  # zfs change-key -i
    engine.changed(pool)
    appliance.request("POST", "/reconcile")
    for each in (store, twin):
        clone = appliance.job("POST", f"/datastores/{each}/clone", {"name": "clone"})["result"]["datastore"]
        assert appliance.get(f"/datastores/{clone}")["dataset"].startswith(f"{ROOT}/clone-")
        appliance.job("DELETE", f"/datastores/{clone}")


def test_without_the_key_of_another_root_the_remedy_loads_a_raw_key_too(appliance: Appliance) -> None:
    """`zfs load-key` takes no hexadecimal digits: a raw replica has the key that zvaai exported."""
    appliance.simulator.create_filesystem("tank/replica", properties={"mountpoint": "none"}, key=bytes(32))
    appliance.simulator.create_volume("tank/replica/vm", GIB)
    store = appliance.job("POST", "/volumes/adopt", {"dataset": "tank/replica/vm", "name": "vm"})["result"]["datastore"]
    for target in appliance.target.targets():
        for lun in target.luns:
            appliance.target.delete_lun(target.name, lun.lun.number)
    appliance.simulator.unload_key("tank/replica")
    appliance.request("POST", "/reconcile")
    (alert,) = [alert for alert in appliance.get("/alerts")["items"] if store in alert["key"]]
    assert alert["remedy"].startswith("zfs load-key tank/replica; ")
    assert alert["remedy"].endswith(" xxd -r -p | zfs load-key tank/replica")


def test_keys_are_loaded_before_their_datastores_are_served(appliance: Appliance) -> None:
    plain, store = appliance.datastore("plain"), appliance.datastore("secret", encrypted=True)
    lock(appliance)
    appliance.request("POST", "/reconcile")
    assert served(appliance) == {plain, store} and key(appliance)["key_status"] == "available"
    # It is restored with its pool too.
    appliance.job("POST", "/pools/tank/export", None)
    appliance.job("POST", "/pools/import", {"pool": "tank", "force": False})
    assert served(appliance) == {plain, store} and key(appliance)["key_status"] == "available"


def test_an_nfs_datastore_too(appliance: Appliance) -> None:
    store = appliance.datastore("secret", kind="nfs", encrypted=True)
    dataset = appliance.get(f"/datastores/{store}")["dataset"]
    assert dataset.startswith(f"{ROOT}/secret-")
    appliance.simulator.unmount(dataset)
    appliance.simulator.unload_key(ROOT)
    appliance.request("POST", "/reconcile")
    assert appliance.simulator.filesystem(dataset).mounted and key(appliance)["key_status"] == "available"
    appliance.job("DELETE", f"/datastores/{store}")
    # The restore mounts it: its key is loaded after an import, also if no other datastore needs it.
    appliance.simulator.unload_key(ROOT)
    appliance.request("POST", "/reconcile")
    appliance.job("POST", f"/datastores/{store}/restore", {})
    appliance.job("DELETE", f"/datastores/{store}")
    # Without its key a deleted one raises no alert.
    next((appliance.configuration.state_directory / "keys").glob("*.key")).unlink()
    appliance.simulator.unload_key(ROOT)
    appliance.request("POST", "/reconcile")
    assert not [alert for alert in appliance.get("/alerts")["items"] if store in alert["key"]]
    appliance.job("POST", f"/datastores/{store}/purge")
    assert appliance.get("/filesystems")["items"] == []


def test_without_its_key_it_is_not_served_and_an_alert_is_raised(appliance: Appliance) -> None:
    plain, store = appliance.datastore("plain"), appliance.datastore("secret", encrypted=True)
    secret = appliance.request("POST", "/encryption-keys/tank/export", {"password": PASSWORD}).json
    assert secret is not None and secret["pool"] == "tank"
    stored = appliance.configuration.state_directory / "keys"
    (file,) = stored.glob("*.key")
    file.unlink()
    lock(appliance)
    appliance.request("POST", "/reconcile")
    assert served(appliance) == {plain}
    assert appliance.get(f"/datastores/{store}")["key_status"] == "unavailable" and not key(appliance)["stored"]
    (alert,) = [alert for alert in appliance.get("/alerts")["items"] if store in alert["key"]]
    assert alert["text"].startswith("Datastore secret is not served") and alert["remedy"] == "zvaai key enter tank"
    refused = appliance.job("POST", "/datastores", {"name": "new", "pool": "tank", "size": str(GIB), "encrypted": True}, "failed")
    assert "key" in refused["problem"]["text"]
    # A wrong key opens nothing and is not stored; with the right one, all is served.
    wrong = appliance.request("PUT", "/encryption-keys/tank", {"secret": "00" * 32})
    assert wrong.status_code == 422 and not list(stored.glob("*.key"))
    assert appliance.request("PUT", "/encryption-keys/tank", {"secret": secret["secret"]}).status_code == 200
    appliance.request("POST", "/reconcile")
    assert served(appliance) == {plain, store}
    assert not [alert for alert in appliance.get("/alerts")["items"] if store in alert["key"]]


def test_the_key_of_a_replica_without_properties_is_entered(appliance: Appliance) -> None:
    """`zfs send -w` without -p: nothing names its key."""
    properties, secret = {"canmount": "off", "mountpoint": "none"}, bytes(range(32))
    appliance.simulator.create_filesystem(ROOT, properties=properties, key=secret)
    appliance.simulator.unload_key(ROOT)
    appliance.request("POST", "/reconcile")
    wrong = appliance.request("PUT", "/encryption-keys/tank", {"secret": "00" * 32})
    assert wrong.status_code == 422 and "zvaai:key" not in appliance.simulator.properties(ROOT)
    entered = appliance.request("PUT", "/encryption-keys/tank", {"secret": secret.hex()})
    assert entered.status_code == 200, entered.text
    appliance.request("POST", "/reconcile")
    assert key(appliance)["stored"] and key(appliance)["key_status"] == "available"
    appliance.datastore("secret", encrypted=True)


def test_readiness_fails_until_the_key_was_exported(appliance: Appliance) -> None:
    def check() -> Any:
        return next((check for check in appliance.get("/readiness")["checks"] if check["id"] == "key"), None)

    assert check() is None
    appliance.datastore("secret", encrypted=True)
    assert check()["result"] == "failed" and "never exported" in check()["evidence"]
    assert check()["remedy"].startswith("zvaai key export tank") and check()["subject"] == "tank"
    secret = appliance.request("POST", "/encryption-keys/tank/export", {"password": PASSWORD}).json
    assert secret is not None and check()["result"] == "failed" and "was not confirmed" in check()["evidence"]
    appliance.request("POST", "/encryption-keys/tank/confirm", {"secret": secret["secret"]})
    assert check()["result"] == "ok"
    next((appliance.configuration.state_directory / "keys").glob("*.key")).unlink()
    assert check()["result"] == "failed" and "key enter" in check()["remedy"]


def test_a_lun_that_is_served_stays_while_its_key_is_away(appliance: Appliance) -> None:
    """The target reports it as not ready: a disk that will return, not a lost one."""
    store = appliance.datastore("secret", encrypted=True)
    next((appliance.configuration.state_directory / "keys").glob("*.key")).unlink()
    appliance.simulator.unload_key(ROOT)
    appliance.request("POST", "/reconcile")
    assert served(appliance) == {store}


def test_a_key_is_exported_until_it_is_confirmed_to_admins_only(appliance: Appliance) -> None:
    appliance.datastore("secret", encrypted=True)
    for role in (Role.VIEWER, Role.OPERATOR):
        assert (
            appliance.request("POST", "/encryption-keys/tank/export", {"password": PASSWORD}, role=role.label).status_code == 403
        )
    secret = appliance.request("POST", "/encryption-keys/tank/export", {"password": PASSWORD}).json
    assert secret is not None and len(bytes.fromhex(secret["secret"])) == 32
    for wrong_password in ({}, {"password": "not this one, no"}):
        assert appliance.request("POST", "/encryption-keys/tank/export", wrong_password).status_code == 422
    # After a lost response the key can be exported again, until it is confirmed.
    again = appliance.request("POST", "/encryption-keys/tank/export", {"password": PASSWORD}).json
    assert again == secret and key(appliance)["exported_at"] is not None and key(appliance)["confirmed_at"] is None
    wrong = appliance.request("POST", "/encryption-keys/tank/confirm", {"secret": "00" * 32})
    assert wrong.status_code == 422 and key(appliance)["confirmed_at"] is None
    for role in (Role.VIEWER, Role.OPERATOR):
        body = {"secret": secret["secret"]}
        assert appliance.request("POST", "/encryption-keys/tank/confirm", body, role=role.label).status_code == 403
    confirmed = appliance.request("POST", "/encryption-keys/tank/confirm", {"secret": secret["secret"]})
    assert confirmed.status_code == 200 and key(appliance)["confirmed_at"] is not None
    again = appliance.request("POST", "/encryption-keys/tank/export", {"password": PASSWORD})
    assert again.status_code == 409 and "confirmed" in again.text
    # Who did is in the audit, the key in no file, answer or log of ours.
    entries = [entry for entry in appliance.get("/audit")["items"] if entry["action"] == "key.export"]
    assert [entry["status"] for entry in entries] == [409, 200, 422, 422, 200, 403, 403]
    directory: Path = appliance.configuration.state_directory
    appliance.service.stop()  # it replaces files
    for file in (file for file in directory.rglob("*") if file.is_file()):
        content = file.read_bytes()
        assert secret["secret"].encode() not in content and bytes.fromhex(secret["secret"]) not in content, file
    assert appliance.request("POST", "/encryption-keys/absent/export", {"password": PASSWORD}).status_code == 404
    root = appliance.simulator.filesystem(ROOT)
    assert root.encryption is not None and root.encryption.key_status == KeyStatus.AVAILABLE
    appliance.simulator.unload_key(ROOT)
    StoredKeys(appliance.simulator, directory / "keys").load_stored_key(ROOT)
