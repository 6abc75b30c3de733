# SPDX-License-Identifier: Apache-2.0
"""Copies of the configuration on pools: compared with the database when a pool appears, and written after each change.

Each pool is read and written in a separate thread, so that a pool that hangs blocks no other.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlalchemy.orm import Session

from appliance.domain import identity, recovery, sealed_copy
from appliance.domain.datastores import NFS, VMFS, Inventory, kinds_shown
from appliance.domain.errors import ConflictError, DomainError, InvalidError, NotFoundError
from appliance.domain.journal import Finding
from appliance.domain.pool_health import unlisted
from appliance.domain.recovery import PoolCopy
from appliance.domain.secrets import SealedError
from appliance.worker.context import Context
from appliance.zfs.errors import ZfsError

READ_SECONDS = 10.0
"""For all pools together, at the start. Pools that are read later are compared then."""
QUIET_SECONDS, LONGEST_SECONDS = 2.0, 10.0
"""A copy is written after a time without commits, so that changes share one and no job waits; or at the latest after the second
time.
"""
_AREA = "copies"
_log = logging.getLogger(__name__)


@dataclass
class _Pool:
    name: str
    copies: list[sealed_copy.Copy] | None = None
    """Copies of the last read; None before."""
    compared: bool = False
    """The database knows all copies of the pool. Otherwise the pool may have newer ones."""
    written: int | None = None
    """The generation of the copy that was written last."""
    thread: threading.Thread | None = None
    failure: str | None = None


class _DryRunError(Exception):
    """Ends the transaction of a dry run."""


class Recovery:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._pools: dict[int, _Pool] = {}
        self._compared = threading.Event()
        self._stopping = threading.Event()
        self._unwritable: str | None = None
        self._published = 0
        """Newest generation that was sealed for the pools."""
        self._publisher = threading.Thread(target=self._publish_after_commits, name="copies")
        with context.store.reading() as session:
            self.active = recovery.is_active(session)

    def start(self) -> None:
        self._publisher.start()

    def stop(self) -> None:
        self._stopping.set()
        self._context.store.wake()
        self._publisher.join()

    @property
    def allows_jobs(self) -> bool:
        """Whether jobs may start: responsive pools were compared, and no decision is pending."""
        return self._compared.is_set() and not self.active

    def check(self, inventory: Inventory) -> None:
        """Compares the copies on pools. Raises RecoveryModeError while an admin must decide, UnavailableError."""
        self._refresh(inventory)
        if not self.active:
            with self._context.store.reading() as session:
                why = self._reason(session, inventory)
            if why is not None:
                self._enter(why)
        self._compared.set()
        if self.active:
            with self._context.store.reading() as session:
                recovery.check_inactive(session)
        if self._outdated():
            self._context.store.wake()
        self._context.alerts.update(_AREA, self._findings())

    def _findings(self) -> Iterator[Finding]:
        """While copies cannot be read or written: a lost database could not be replaced by the present configuration."""
        if self._unwritable is not None:
            text = f"No copy of the configuration is written: {self._unwritable}"
            restore = "install -o zvaai -g zvaai -m 600 /var/backups/zvaai/COPY/secrets.key /var/lib/zvaai"
            remedy = f"Restore the key: {restore}; systemctl restart zvaai-worker zvaai-api. Or set all secrets again"
            remedy += ": CHAP, receivers, directory, OpenID provider"
            yield Finding(f"{_AREA}:/", "warning", "database", text, remedy)
        with self._lock:
            failures = {state.name: state.failure for state in self._pools.values()}
        for pool, failure in failures.items():
            if failure is not None:
                text = f"Copies of the configuration on pool {pool}: {failure}"
                yield Finding(f"{_AREA}:{pool}", "warning", pool, text, "Check that the pool is writable and has free space.")

    def _enter(self, why: str) -> None:
        _log.error("recovery mode: %s", why)
        with self._context.store.session() as session:
            recovery.enter(session, why)
        self.active = True

    def _reason(self, session: Session, inventory: Inventory) -> str | None:
        with self._lock:
            new = [state for state in self._pools.values() if state.copies is not None and not state.compared]
        if new and (why := recovery.reason(self.pool_copies(session), sealed_copy.installation(session).generation)):
            return why
        if recovery.is_new(session) and (why := self._serves_unknown(inventory)):
            return why
        for state in new:
            state.compared = True
        return None

    def _serves_unknown(self, inventory: Inventory) -> str | None:
        """Raises UnavailableError if the target, which does not answer, may serve LUNs."""
        served = []
        try:
            served += [f"LUN {lun.lun.number}" for target in self._context.served_targets() for lun in target.luns]
        except DomainError as error:
            if any(identity.UUID in volume.properties for volume in inventory.volumes):
                raise
            _log.info("the state of the target is unknown: %s", error)
        served += [f"export {number}" for number in sorted(self._context.nfs.files())]
        if not served:
            return None
        return f"the database is new and does not know what hosts are served: {', '.join(served[:20])}"

    # --- reading

    def _refresh(self, inventory: Inventory) -> None:
        # The helper refuses to write to a pool of the running system.
        pools = [pool for pool in inventory.pools if not pool.of_the_system]
        waiting = []
        with self._lock:
            for gone in self._pools.keys() - {pool.guid for pool in pools}:
                del self._pools[gone]
            for pool in pools:
                state = self._pools.setdefault(pool.guid, _Pool(pool.name))
                state.name = pool.name
                if state.copies is None and not unlisted(pool):
                    self._begin(state, lambda state=state: self._read_pool(state))  # type: ignore[misc]
                    waiting.append(state.thread)
        limit = time.monotonic() + READ_SECONDS
        for thread in waiting:
            if thread is not None and not self._compared.is_set():
                thread.join(max(0.0, limit - time.monotonic()))
            elif thread is not None:
                thread.join(1.0)

    def _begin(self, state: _Pool, act: Callable[[], None]) -> None:
        """Runs `act` in a thread of the pool, unless one is running. The caller holds the lock."""
        if state.thread is None or not state.thread.is_alive():
            state.thread = threading.Thread(target=act, name=f"copies of {state.name}", daemon=True)
            state.thread.start()

    def _read_pool(self, state: _Pool) -> None:
        try:
            texts = self._context.copies.read_copies(state.name)
        except ZfsError as error:
            self._failed(state, f"cannot read: {error}")
            return
        copies = [copy for text in texts if (copy := sealed_copy.parse(text)) is not None]
        with self._lock:
            state.copies, state.failure = copies, None

    def _failed(self, state: _Pool, why: str) -> None:
        if state.failure != why:
            _log.warning("copies of the configuration on pool %s: %s", state.name, why)
        state.failure = why

    def pool_copies(self, session: Session) -> list[PoolCopy]:
        with self._lock:
            copies = {state.name: list(state.copies or ()) for state in self._pools.values()}
        return recovery.judge(session, copies)

    # --- writing

    def _outdated(self) -> bool:
        with self._context.store.reading() as session:
            installation = sealed_copy.installation(session)
            generation = installation.generation if installation.sealed_key is not None else None
        with self._lock:
            return generation is not None and any(
                state.compared and state.written != generation for state in self._pools.values()
            )

    def _publish_after_commits(self) -> None:
        seen = -1
        while not self._stopping.is_set():
            seen = self._wait_for_quiet(self._context.store.wait_for_commit(seen))
            try:
                if self.allows_jobs and not self._stopping.is_set() and self._outdated():
                    self.publish()
                    self._unwritable = None
                    seen += 1  # its own commit: a pool that cannot be written is tried again after another one, or in `check`
            except (ConflictError, SealedError) as error:
                _log.warning("no copy of the configuration is written: %s", error)
                self._unwritable = str(error)
            except Exception:
                _log.exception("copies of the configuration")

    def _wait_for_quiet(self, seen: int) -> int:
        """How many commits there were by then."""
        until = time.monotonic() + LONGEST_SECONDS
        while not self._stopping.is_set() and (left := until - time.monotonic()) > 0:
            before, seen = seen, self._context.store.wait_for_commit(seen, min(QUIET_SECONDS, left))
            if seen == before:
                break
        return seen

    def publish(self) -> None:
        """Begins to write a copy of the configuration to each pool with an older one."""
        with self._context.store.session() as session:
            copy = sealed_copy.write(session, self._context.seal)
            if copy is None:
                return
            recovery.published(session, copy)
        self._published = copy.header.generation
        with self._lock:
            for state in self._pools.values():
                if state.compared and state.written != copy.header.generation:
                    self._begin(state, lambda state=state: self._write_pool(state, copy))  # type: ignore[misc]

    def _write_pool(self, state: _Pool, copy: sealed_copy.Copy) -> None:
        header = copy.header
        try:
            self._context.copies.write_copy(state.name, header.installation, header.generation, copy.model_dump_json())
        except ZfsError as error:
            self._failed(state, f"cannot write: {error}")
            return
        with self._lock:
            others = [copy for copy in state.copies or () if copy.header.installation != header.installation]
            state.copies, state.written, state.failure = [*others, copy], header.generation, None
            state.thread = None
        if header.generation != self._published:  # There were changes while the pool was written.
            self._context.store.wake()

    # --- deciding

    def backup(self) -> sealed_copy.Copy:
        """A copy of the present configuration, for an admin to store. Raises ConflictError."""
        with self._context.store.reading() as session:
            copy = sealed_copy.write(session, self._context.seal)
        if copy is None:
            raise ConflictError("there is no recovery key yet; create one: zvaai configuration recovery-key")
        return copy

    def keep(self, at_work: Callable[[str], bool]) -> None:
        """The database is right. `at_work`: whether a job has a thread. Raises ConflictError."""
        with self._context.reconciling.lock:
            with self._context.store.session() as session:
                if not recovery.is_active(session):
                    raise ConflictError("the appliance is not in recovery mode")
                copies = self.pool_copies(session)
                recovery.end_recovery(session, copies, self._context.inventory.snapshots, at_work)
            self._decided()

    def take(
        self,
        pool: str | None,
        file: str | None,
        recovery_key: str | None,
        caller: str,
        at_work: Callable[[str], bool],
        *,
        dry_run: bool,
        force: bool,
    ) -> list[str]:
        """Takes the configuration of a pool's copy, or of a file; the changes in words. `at_work` as in `keep`. Raises
        DomainError.
        """
        context = self._context
        # In recovery mode the served state does not change, regardless of the database.
        using = None if force or self.active else self._using()
        with context.reconciling.lock:
            with context.store.reading() as session:
                copies = self.pool_copies(session)
            chosen = self._chosen(copies, pool, recovery_key, force=force) if pool is not None else sealed_copy.parse(file or "")
            if chosen is None:
                raise InvalidError("file", "not a copy of a configuration of this version", "the unchanged file")
            opened = sealed_copy.open_copy(chosen, context.seal, recovery_key)
            try:
                with context.store.session() as session:
                    changes = recovery.take(
                        session, context.seal, chosen, opened, copies, context.inventory.snapshots, caller, using, at_work
                    )
                    if dry_run:
                        raise _DryRunError
            except _DryRunError:
                return changes
            self._decided()
        return changes

    def _using(self) -> recovery.Using:
        """Queries only data planes that serve something. Raises UnavailableError."""
        context = self._context
        with context.store.reading() as session:
            kinds = kinds_shown(session)
        names = {session.initiator for session in context.sessions()} if VMFS in kinds else set()
        addresses = context.nfs_addresses() if NFS in kinds else set()
        return recovery.Using(names, addresses, context.configuration.target.name)

    def _decided(self) -> None:
        self.active = False
        with self._lock:
            for state in self._pools.values():
                state.written, state.compared = None, state.copies is not None

    def _chosen(self, copies: list[PoolCopy], pool: str, recovery_key: str | None, *, force: bool) -> sealed_copy.Copy:
        of_pool = [copy for copy in copies if copy.pool == pool]
        if not of_pool:
            raise NotFoundError("copy of the configuration on pool", pool)
        unknown = [copy for copy in of_pool if not copy.known]
        if not unknown:
            raise InvalidError("from_pool", f"the copy on pool {pool} is this database's own", "a pool whose copy is not")
        # A replacement has left its first, empty configuration, which its own key opens.
        unsure = recovery_key is None and not force and not self.active
        if unsure and any(copy.this_installation for copy in of_pool):
            why = f"the copy on pool {pool} that is not this database's own is of another installation. To take it, add its "
            why += "--recovery-key. Without that key use --force, which also takes away datastores that hosts use"
            raise ConflictError(why, can_force=True)
        return max(unknown, key=lambda copy: (copy.this_installation, copy.copy.header.written_at)).copy
