# SPDX-License-Identifier: Apache-2.0
"""Keys of encrypted datastores, one per pool: stored keys, and keys without a confirmed copy."""

import time
from collections.abc import Iterable
from shlex import quote

from appliance.domain import datastores as domain
from appliance.domain import encryption_keys
from appliance.domain.datastores import Datastore
from appliance.domain.encryption_keys import PoolKey
from appliance.domain.errors import ConflictError, NotFoundError
from appliance.worker.context import Context
from appliance.worker.errors import as_domain_errors
from appliance.zfs.keys import PROPERTY
from appliance.zfs.model import Filesystem


def roots(context: Context, newest: float) -> list[Filesystem]:
    filesystems = context.scan(newest).filesystems
    return [
        filesystem
        for filesystem in filesystems
        if filesystem.encryption and filesystem.encryption.root == filesystem.name == f"{filesystem.pool}/{domain.ENCRYPTED}"
    ]


def root(context: Context, newest: float, pool: str) -> Filesystem:
    """Encryption root of a pool. Raises NotFoundError."""
    for filesystem in roots(context, newest):
        if filesystem.pool == pool:
            return filesystem
    raise NotFoundError("encryption of pool", pool)


def listed(context: Context, newest: float) -> list[PoolKey]:
    """Encryption roots with the state of their keys: loaded, stored, exported, confirmed."""
    filesystems = roots(context, newest)
    if not filesystems:
        return []
    with as_domain_errors():
        stored = {stored_key.identifier: stored_key for stored_key in context.keys.stored_keys()}
    rows = []
    for filesystem in filesystems:
        name = filesystem.properties.get(PROPERTY)
        key = stored.get(name.value) if name else None
        assert filesystem.encryption is not None
        times = (key.made_at, key.exported_at, key.confirmed_at) if key else (None, None, None)
        rows.append(
            PoolKey(
                filesystem.pool,
                filesystem.name,
                filesystem.encryption.algorithm,
                filesystem.encryption.key_status,
                key is not None,
                *times,
            )
        )
    return rows


def check_exported(context: Context, stores: Iterable[Datastore], pool: str) -> None:
    """Before another encrypted datastore is created. Raises ConflictError."""
    encrypted = sum(store.pool == pool and bool(store.dataset) and domain.is_below_root(store.dataset) for store in stores)
    encryption_keys.check_exported(listed(context, 60), pool, encrypted)


def check_clone(context: Context, stores: Iterable[Datastore], store: Datastore) -> None:
    """A clone has its origin's encryption root, and `zfs load-key` makes devices only below that. Raises ConflictError."""
    root = store.encryption_root
    if root and (root in {each.dataset for each in stores} or context.scan(60).volume(root) is not None):
        new = quote(f"{store.pool}/{domain.ENCRYPTED}/{root.rsplit('/', 1)[1]}")
        way = f"zfs rename {quote(root)} {new}; zfs change-key -i {new}"
        reason = f"Cannot clone {store.name}: its encryption root {root} is no file system that a clone can lie below"
        raise ConflictError(f"{reason}. Unmount it on its hosts, then move {root} below another encryption root: {way}")


def update_alerts(context: Context, newest: float) -> None:
    """Raises and clears alerts of keys that were not exported. Raises DomainError."""
    findings = encryption_keys.unexported(listed(context, newest), time.time())
    context.alerts.update(encryption_keys.AREA, findings)
