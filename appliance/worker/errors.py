# SPDX-License-Identifier: Apache-2.0
"""Converts errors of the engine, the target and ganesha to domain errors."""

from collections.abc import Iterator
from contextlib import contextmanager

from appliance.dataplane.ganesha import ExportRefusedError, GaneshaUnreachableError, NoSuchExportError
from appliance.dataplane.target import TargetRefusedError, TargetUnreachableError
from appliance.domain.errors import ConflictError, DomainError, InvalidError, NotFoundError, StorageError, UnavailableError
from appliance.zfs import errors as zfs


def domain_error(error: zfs.ZfsError) -> DomainError:  # noqa: PLR0911, PLR0912  # a table
    match error:
        case zfs.HasDependants():
            return ConflictError(f"others depend on {error.name}", error.dependants)
        case zfs.NewerSnapshots():
            return ConflictError(f"a rollback to {error.name} destroys newer snapshots", error.newer)
        case (
            zfs.HoldersUnknown()
            | zfs.SnapshotHeld()
            | zfs.DatasetBusy()
            | zfs.KeyLoaded()
            | zfs.KeyNotLoaded()
            | zfs.DatasetExists()
            | zfs.SnapshotExists()
            | zfs.PoolExists()
            | zfs.DeviceFaulted()
            | zfs.DeviceTooSmall()
            | zfs.InsufficientReplicas()
        ):
            return ConflictError(str(error))
        case zfs.DifferentPools():
            return ConflictError("Cannot do this in several pools at once. Use one request for each pool", error.names)
        case zfs.ScanRunning() | zfs.NoScanRunning() | zfs.OutOfSpace():
            return ConflictError(str(error))
        case zfs.DeviceInUse() | zfs.InvalidLayout():
            return ConflictError(str(error), can_force=error.can_force)
        case zfs.KeyConfirmed():
            remedy = "Use your copy. If it is lost, back up /var/lib/zvaai-helper now"
            return ConflictError(f"{error}. {remedy}. Then move the VMs to an unencrypted datastore, or to one in another pool")
        case zfs.PoolInUseElsewhere():
            remedy = f"Make sure that {error.host or 'it'} is off. Then repeat with --force (in the console: import anyway)"
            return ConflictError(f"{error}. {remedy}. Two servers destroy a pool", can_force=True)
        case zfs.NoSuchDevice():
            return InvalidError("device", str(error), "a device of the pool or of the list of disks")
        case zfs.NoStoredKey():
            return NotFoundError("stored key of", error.name)
        case zfs.WrongKey():
            return InvalidError("secret", str(error), "64 hexadecimal digits, as the key was exported")
        case zfs.NoSuchPool():
            return NotFoundError("pool", error.pool)
        case zfs.NoSuchDataset() | zfs.NoSuchSnapshot():
            return NotFoundError("dataset or snapshot", error.name)
        case zfs.InvalidProperty():
            return InvalidError(error.property, error.reason, ", ".join(error.allowed))
        case zfs.InvalidName():
            return InvalidError("name", str(error))
        case zfs.EngineUnavailable() | zfs.PoolUnavailable() | zfs.PoolBusy() | zfs.Timeout():
            return UnavailableError(str(error))
        case _:
            plain = {name: value for name, value in error.details().items() if isinstance(value, (str, int, float, bool))}
            return StorageError(error.code, str(error), plain)


@contextmanager
def as_domain_errors() -> Iterator[None]:
    try:
        yield
    except zfs.ZfsError as error:
        raise domain_error(error) from error
    except TargetUnreachableError as error:
        raise UnavailableError(str(error)) from error
    except TargetRefusedError as error:
        raise ConflictError(f"the iSCSI target refuses: {error}") from error
    except GaneshaUnreachableError as error:
        raise UnavailableError(str(error)) from error
    except (ExportRefusedError, NoSuchExportError) as error:
        raise ConflictError(f"the NFS server refuses: {error}") from error
