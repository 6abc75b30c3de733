# SPDX-License-Identifier: Apache-2.0
"""Reconciles target and NFS server: at the start, after changes, and periodically."""

import logging
import math
import threading
import time
from collections.abc import Collection, Sequence
from shlex import quote

from sqlalchemy import select

from appliance.database.models import Export, Host, Presentation
from appliance.dataplane import reconcile as planes
from appliance.dataplane import reconcile_pools
from appliance.dataplane.ganesha import GaneshaUnreachableError
from appliance.dataplane.vaai_nas import FileRefusedError
from appliance.domain import capacity, exports, hosts, jobs
from appliance.domain import datastores as domain
from appliance.domain.datastores import Datastore, Inventory
from appliance.domain.errors import DomainError, InternalError, UnavailableError
from appliance.domain.journal import Finding, publish
from appliance.domain.recovery import RecoveryModeError
from appliance.worker import copies, nfs_serving, reservations, thick
from appliance.worker.context import Context
from appliance.worker.desired_state import target_state
from appliance.worker.errors import as_domain_errors, domain_error
from appliance.worker.presenting import give_numbers, store_numbers
from appliance.worker.scheduler import EVENT, PERIODIC
from appliance.zfs import errors as zfs
from appliance.zfs.model import KeyStatus

_REMEDIES = {
    UnavailableError.code: "systemctl status zvaai-target nfs-ganesha zvaai-helper; start the unit that does not run",
    InternalError.code: "journalctl -u zvaai-worker shows the cause",
}
_log = logging.getLogger(__name__)
_AREAS = {domain.VMFS: "reconcile", domain.NFS: "reconcile-nfs"}


class Reconciling:
    """Reconciler of a worker: one run at a time, with the result of the last one."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.lock = threading.Lock()
        """Held during a run."""
        self.at = 0.0
        """End of the last run, in seconds since 1970."""
        self.problem: str | None = "not yet reconciled"
        self.serving: set[str] = set()
        """Datastores whose LUNs and exports were served in the last run."""
        self._given: set[int] = set()
        """Pools, by GUID, whose folder was passed to the target after the start."""
        self._folders: dict[str, str] = {}
        """Folders for persistent reservations in the target, by pool name."""

    def reconcile(self, cause: str, kind: str | None = None, pools: Collection[str] | None = None) -> planes.Outcome:
        """Makes target and NFS server serve the desired state. Differences that the appliance did not cause are drift. If one of
        the two does not answer, the other is still reconciled. Raises UnavailableError; with a `kind` of datastores only if the
        server of that kind does not answer.

        A job passes its `pools`, which it has read. Other pools are not touched, as one may hang; the next full run updates
        alerts.
        """
        with self.lock:
            try:
                inventory, stores = self._scanned(None if pools is None else math.inf)
                here = {pool.name for pool in inventory.pools} if pools is None else pools
                reachable = [store for store in stores if store.pool in here]
                locked = self._unlock(reachable)
                if any(store.key_status == KeyStatus.UNAVAILABLE for store in reachable):
                    self._context.scan_pools(here)
                    inventory, stores = self._scanned(math.inf)
                self._context.recovery.check(inventory)
                give_numbers(self._context, inventory, stores)
                stores = self._of(inventory)
                store_numbers(self._context, inventory, [store for store in stores if store.pool in here])
            except RecoveryModeError as error:  # the served state does not change
                self.problem = str(error)
                raise
            except DomainError as error:
                self._unavailable({"unavailable:reconcile": error})
                self.problem = str(error)
                raise
            except Exception as error:
                self.problem = f"the worker is at fault: {error}"
                raise
            outcomes, away = {}, {}
            serving = {store.uuid for store in stores if store.uuid in self.serving}
            for plane, serve in ((domain.VMFS, self._reconcile_target), (domain.NFS, self._reconcile_exports)):
                try:
                    outcomes[plane], served = serve(inventory, stores, here)
                    serving = served | {store.uuid for store in stores if store.kind != plane and store.uuid in serving}
                except DomainError as error:
                    away[plane] = error
                except Exception as error:
                    _log.exception("serving %s", plane)
                    away[plane] = InternalError(f"the worker is at fault: {error}")
            absent = self._absent(inventory, stores)
            self.at, self.serving = time.time(), {uuid for uuid in serving if uuid}
            return self._reconciled(cause, kind, outcomes, away, locked, absent, of_all=pools is None)

    def _absent(self, inventory: Inventory, stores: list[Datastore]) -> str | None:
        """A problem if datastores are missing, apart from those that a job makes or forgets."""
        with self._context.store.reading() as session:
            about = jobs.about_after(session, inventory.scanned_at)
        count = sum(store.uuid not in about for store in capacity.absent(inventory.pools, stores))
        return f"missing datastores: {count}. List them: zvaai datastore list --state missing" if count else None

    def _scanned(self, newest: float | None = None) -> tuple[Inventory, list[Datastore]]:
        inventory = self._context.scan(newest)
        return inventory, self._of(inventory)

    def _of(self, inventory: Inventory) -> list[Datastore]:
        with self._context.store.reading() as session:
            return domain.datastores(inventory, session)

    def _reconciled(
        self,
        cause: str,
        kind: str | None,
        outcomes: dict[str, planes.Outcome],
        away: dict[str, DomainError],
        locked: Sequence[planes.Failure],
        absent: str | None,
        *,
        of_all: bool,
    ) -> planes.Outcome:
        outcome = planes.Outcome(
            tuple(text for outcome in outcomes.values() for text in outcome.differences),
            (*locked, *(failure for outcome in outcomes.values() for failure in outcome.failures)),
        )
        problems = [*map(str, away.values()), *(failure.text for failure in outcome.failures)]
        if of_all:
            self.problem = "; ".join([*problems, *([absent] if absent else [])]) or None
        elif problems:
            self._context.alerts.request_after(0)
        if outcome.differences:
            event = "drift" if cause in (PERIODIC, EVENT) else "reconciled"
            with self._context.store.session() as session:
                publish(session, event, "target", cause=cause, differences=list(outcome.differences))
        for plane, of_plane in outcomes.items() if of_all else ():
            failures = (*of_plane.failures, *locked) if plane == domain.VMFS else of_plane.failures
            self._context.alerts.update(_AREAS[plane], [_finding(_AREAS[plane], failure) for failure in failures])
        keys = {domain.VMFS: "unavailable:reconcile", domain.NFS: "unavailable:nfs"}
        if of_all:
            self._unavailable({keys[plane]: error for plane, error in away.items()})
        for plane, error in away.items():
            if kind in (None, plane):
                raise error
        return outcome

    def _unavailable(self, errors: dict[str, DomainError]) -> None:
        """Alerts of unavailable servers, by key. Alerts of single LUNs and exports do not change."""
        findings = [
            Finding(key, "critical", "appliance", str(error), _REMEDIES.get(error.code, "")) for key, error in errors.items()
        ]
        self._context.alerts.update("unavailable", findings)

    def _reconcile_target(
        self, inventory: Inventory, stores: list[Datastore], pools: Collection[str]
    ) -> tuple[planes.Outcome, set[str]]:
        chosen = [store for store in stores if store.pool in pools]
        with as_domain_errors():
            folders, unmounted = reservations.folders(
                self._context.engine, inventory, chosen, self._given, self._context.folder, self._context.topmost
            )
        others = {pool.name for pool in inventory.pools}.difference(pools)
        self._folders = {name: folder for name, folder in self._folders.items() if name in others} | folders
        with self._context.store.reading() as session:
            desired = target_state(self._context, inventory, stores, session, self._folders)
            about = jobs.about_after(session, inventory.scanned_at)
            shown = set(session.scalars(select(Presentation.datastore))) - about
            revisions = {host.chap_name: host.chap_revision for host in session.scalars(select(Host))}
            mutual_revision = hosts.mutual_revision(session)
        with as_domain_errors():
            reserved = thick.reserve_again(self._context, [store for store in chosen if store.uuid not in about])
            outcome = planes.reconcile(self._context.target, desired)
            limits = {name: threshold.warning for name, threshold in capacity.thresholds(inventory).items()}
            of_pools = reconcile_pools.reconcile(self._context.target, limits)
        failed = {failure.subject for failure in outcome.failures}
        if outcome.differences:
            with self._context.store.session() as session:
                for host in session.scalars(select(Host).where(Host.chap_name.in_(desired.accounts.keys()))):
                    if host.chap_name not in failed:
                        host.chap_applied = revisions.get(host.chap_name, 0)
                if desired.mutual is not None and planes.MUTUAL not in failed:
                    hosts.mutual_applied(session, mutual_revision)
        served = {lun.lun.uuid: lun for target in self._context.served_targets() for lun in target.luns}
        # Alerts of capacity report missing ones; of another volume under the name only this one.
        absent = {store.uuid for store in capacity.absent(inventory.pools, stores)}
        of_copies = capacity.copy_remedy(inventory.pools)
        failing = {
            uuid: planes.Failure(
                uuid,
                f"LUN {lun.lun.number} is {lun.state}: {lun.reason}",
                remedy=of_copies if lun.dataset_guid is not None else capacity.LUN_REMEDY,
            )
            for uuid, lun in served.items()
            if lun.state == "failed" and (uuid not in absent or lun.dataset_guid is not None)
        }
        reasons = {uuid: failure.text for uuid, failure in failing.items()}
        failing |= {failure.subject: failure for failure in copies.failures(stores, domain.VMFS, shown, reasons, of_copies)}
        failures = (*outcome.failures, *of_pools.failures, *unmounted, *failing.values())
        outcome = planes.Outcome(reserved + outcome.differences + of_pools.differences, failures)
        return outcome, {uuid for uuid, lun in served.items() if lun.state == "serving"}

    def _unlock(self, stores: list[Datastore]) -> list[planes.Failure]:
        """Loads the keys of datastores, so that their devices appear and deleted ones can be restored; returns the failures."""
        locked: dict[str, list[Datastore]] = {}
        for store in stores:
            if store.state in ("active", "deleted") and store.key_status == KeyStatus.UNAVAILABLE and store.encryption_root:
                locked.setdefault(store.encryption_root, []).append(store)
        failures: list[planes.Failure] = []
        for root, waiting in locked.items():
            try:
                self._context.keys.load_stored_key(root)
            except (zfs.EngineUnavailable, zfs.Timeout) as error:
                raise domain_error(error) from error
            except zfs.ZfsError as error:
                for store in (store for store in waiting if store.state == "active"):
                    text = f"Datastore {store.name} is not served, because its key is not loaded: {error}"
                    is_ours, load = root == f"{store.pool}/{domain.ENCRYPTED}", f"zfs load-key {quote(root)}"
                    others = f"{load}; zvaai reconcile. For a key that zvaai exported, the first command is: xxd -r -p | {load}"
                    remedy = f"zvaai key enter {quote(store.pool)}" if is_ours else others
                    failures.append(planes.Failure(store.uuid or "", text, remedy=remedy))
        return failures

    def _reconcile_exports(
        self, inventory: Inventory, stores: list[Datastore], pools: Collection[str]
    ) -> tuple[planes.Outcome, set[str]]:
        with self._context.store.reading() as session:
            out, about = jobs.out_of_service(session), jobs.about_after(session, inventory.scanned_at)
            numbers = {row.datastore: row.number for row in session.scalars(select(Export))}
            groups = {group_id for store in stores if store.kind == domain.NFS for group_id in store.host_groups}
            addresses = {group_id: list(exports.addresses(session, [group_id])) for group_id in groups}
        if any(store.kind == domain.NFS and store.state == "active" and not store.mounted for store in stores):
            self._context.outdated.set()  # it is mounted below
        certain = frozenset(store.dataset for store in copies.certain(stores, inventory))
        serving = nfs_serving.Serving(
            self._context.engine, self._context.nfs, self._context.mounts, out, addresses, self._context.topmost, numbers,
            certain, about, pools, capacity.copy_remedy(inventory.pools),
        )  # fmt: skip
        with as_domain_errors():
            reconciled = serving.reconcile(stores)
        self._report_vaai_nas()
        return reconciled

    def _report_vaai_nas(self) -> None:
        """Updates the alert for NFS without VAAI-NAS. Without an answer of the NFS server nothing changes."""
        try:
            problem = self._context.files.problem()
        except (GaneshaUnreachableError, FileRefusedError):
            return
        text = f"Hosts get NFS without VAAI-NAS: {problem}"
        finding = Finding("vaai-nas:library", "warning", "appliance", text, "apt install zvaai-nfs")
        self._context.alerts.update("vaai-nas", [finding] if problem else [])


def _finding(area: str, failure: planes.Failure) -> Finding:
    return Finding(f"{area}:{failure.subject or failure.text}", "critical", failure.subject, failure.text, failure.remedy)
