# SPDX-License-Identifier: Apache-2.0
"""The job that makes a datastore of a dataset."""

import contextlib
import re
from shlex import quote

from appliance.dataplane.target import ServedLun
from appliance.domain import datastores as domain
from appliance.domain import designation, identity, requests
from appliance.domain.designation import Designation
from appliance.domain.errors import ConflictError, InvalidError, UnavailableError
from appliance.domain.thick import without_slack
from appliance.worker import steps, thick
from appliance.worker.context import Context
from appliance.worker.datastores import DatastorePlan
from appliance.worker.errors import as_domain_errors
from appliance.worker.kinds import Shown, check_fields, dataset_kind, mount_path
from appliance.worker.pool_operations import is_of_appliance
from appliance.worker.steps import Advance, DatastoreResult, Operation, by_kind
from appliance.zfs.model import Dataset, Filesystem, Source, Volume


class AdoptPlan(DatastorePlan, frozen=True, kw_only=True):
    """`known`: the datastore in the database. `before`: properties that are removed, and `mounted`, with their old values."""

    name: str
    guid: str
    shown: Shown
    known: Shown | None
    designation: str | None
    thick: bool
    before: dict[str, str]
    mounted: bool
    force: bool


def _luns(context: Context) -> list[tuple[str, ServedLun]]:
    """With their targets; none while the target does not answer."""
    with contextlib.suppress(UnavailableError):
        return [(target.name, lun) for target in context.served_targets() for lun in target.luns]
    return []


def _luns_of_another(context: Context, uuid: str | None, guid: int) -> list[tuple[str, int]]:
    """Target and number of the LUN of a lost volume that had this identity too."""
    return [(target, lun.lun.number) for target, lun in _luns(context) if uuid and lun.lun.is_other_volume(uuid, guid)]


class Adopt(Operation[requests.AdoptionCreate, AdoptPlan]):
    """Makes a datastore of a volume, a file system or a copy: with a new identity, or the claimed one if it is free."""

    kind = "datastore.adopt"
    _left = (identity.DELETED, identity.SHOWN_TO, identity.SOFT_THRESHOLD, identity.THICK, designation.PROPERTY)
    """Properties that can be left from the copied datastore; removed before the new identity counts."""

    def plan(self, context: Context, request: requests.AdoptionCreate) -> AdoptPlan:
        """Two with one identity are never made. A retained identity is refused while hosts use the original, unless forced."""
        stores = context.datastores()
        dataset = context.scan(60).dataset(request.dataset)
        if dataset is None:
            raise InvalidError("dataset", f"there is no dataset {request.dataset!r}", "the name of a volume or file system")
        kind = dataset_kind(dataset)
        check_fields(kind, request)
        store = next((store for store in stores if store.dataset == dataset.name), None)
        keeps = request.identity == "keep"
        if store is not None and not (store.state == "copy" or (keeps and _luns_of_another(context, store.uuid, store.guid))):
            raise ConflictError(f"it is a datastore already, and {store.state}", [store.name])
        steps.check_name(context, stores, request.name, store.id if store is not None and store.state != "copy" else None)
        if not keeps:
            self._not_served(context, dataset)
        steps.check_groups(context, request.host_groups)
        if isinstance(dataset, Volume):
            domain.check_size(domain.rounded_up(dataset.volsize))  # zfs(8) sizes it by its blocks, not by 1 MiB
            is_thick = dataset.refreservation >= dataset.volsize
        elif "/" not in dataset.name or is_of_appliance(dataset.name):
            raise InvalidError("dataset", "this cannot be a datastore: it belongs to the pool or the appliance", "another one")
        elif below := [dependant.name for dependant in context.engine.dependants(dataset.name) if dependant.kind == "child"]:
            raise ConflictError("datasets lie below it, which a datastore has not", below)
        else:
            is_thick = bool(identity.claimed_thick(dataset)) and without_slack(dataset.refquota) > 0
        kind.adoptable(context, dataset)
        if is_thick:
            thick.check_properties(context, dataset.name, dataset.recordsize if isinstance(dataset, Filesystem) else None)
        uuid = domain.new_uuid()
        if keeps:
            claimed = (store.uuid or store.copy_of or "") if store is not None else ""
            if not re.fullmatch(r"[0-9a-f-]{36}", claimed):
                reason = f"{dataset.name} has no UUID of a datastore, as after a replication without properties"
                way = f"zvaai datastore list --state missing; zfs set zvaai:uuid=UUID {quote(dataset.name)}"
                raise InvalidError("identity", reason, f"new, or set the UUID of the lost datastore first: {way}")
            uuid = claimed
            self._nobody_else(stores, uuid, dataset.name)
            # Its pool may only be suspended, or its LUN may be another volume: hosts have cached that data.
            if original := next((other for other in stores if other.uuid == uuid), None):
                steps.unused(context, original, request.force, "their cached data does not match the copy")
        names = self._names(context, request, dataset, stores)
        known = kind.known(context, uuid)
        numbers = identity.claimed_numbers(dataset, uuid, request.name) if keeps else None
        shown = kind.decide_shown(context, request, request.name, uuid, numbers)
        local = {name: value for name, value in dataset.properties.items() if value.source in (Source.LOCAL, Source.RECEIVED)}
        as_property = designation.to_property(names) if names else None
        return AdoptPlan(
            subject=uuid, pools=(dataset.pool,), uuid=uuid, dataset=dataset.name, name=request.name, guid=str(dataset.guid),
            shown=shown, known=known, designation=as_property, thick=is_thick,
            before={name: local[name].value for name in self._left if name in local},
            mounted=isinstance(dataset, Filesystem) and dataset.mounted, claims=shown.claims(request.name, as_property),
            force=request.force,
        )  # fmt: skip

    @staticmethod
    def _nobody_else(stores: list[domain.Datastore], uuid: str, dataset: str) -> None:
        claimants = [other for other in stores if other.state != "missing" and other.dataset != dataset]
        others = [other.dataset for other in claimants if uuid in (other.uuid, other.copy_of)]
        if others:
            raise ConflictError("another dataset has or claims this identity; two LUNs with one corrupt VMFS", others)

    @staticmethod
    def _not_served(context: Context, dataset: Dataset) -> None:
        """Of two datasets with one identity, that of the hosts must not get another identity."""
        for _, lun in _luns(context):
            if lun.lun.guid == dataset.guid and lun.state == "serving":
                text = f"hosts use it as LUN {lun.lun.number}. Adopt the other one, or export its pool first"
                raise ConflictError(f"Cannot give {dataset.name} another identity: {text}")

    @staticmethod
    def _names(
        context: Context, request: requests.AdoptionCreate, dataset: Dataset, stores: list[domain.Datastore]
    ) -> Designation | None:
        """Names from another target, which must not belong to another datastore or planned job."""
        names = identity.claimed_designation(dataset) if request.identity == "keep" else None
        if request.known_as:
            if names is not None:
                raise InvalidError("known_as", "the retained identity has names already", "identity new, or nothing here")
            if not isinstance(dataset, Volume):
                raise InvalidError("known_as", "only a volume has the names of a disk", "nothing here")
            names = designation.known_as(request.known_as)
        if names is None:
            return None
        domain.check_designation(stores, names, dataset.name)
        for claims in steps.pending_claims(context):
            other = designation.of_property(claims.designation) if claims.designation else None
            if other is not None and (common := sorted(names.names & other.names)):
                raise ConflictError("a running job gives another datastore these names", common)
        return names

    def run(self, context: Context, plan: AdoptPlan, job_id: str, advance: Advance) -> DatastoreResult:
        advance("storing the identity", 10)
        dataset, uuid = plan.dataset, plan.uuid
        current = steps.dataset_of(context, dataset)
        if str(current.guid) != plan.guid:
            raise ConflictError("the dataset is another one than at the request", [dataset])
        stores = context.datastores()
        self._nobody_else(stores, uuid, dataset)  # a pool may have been imported since the request
        adopted = any((store.uuid, store.dataset) == (uuid, dataset) for store in stores)  # before a crash
        if plan.known is not None and (not adopted or _luns_of_another(context, uuid, current.guid)):
            steps.still_unused(context, uuid, plan.force)
        properties = dataset_kind(current).adopting(context, current, mount_path(context, plan.name, uuid))
        with context.store.session() as session:
            plan.shown.show(session, uuid)
        user_properties = steps.identity_properties(plan.name, uuid, None, plan.shown.numbers(thick=plan.thick))
        if plan.designation:
            user_properties[designation.PROPERTY] = plan.designation
        for left in self._left:
            context.engine.inherit_property(dataset, left)
        context.engine.set_properties(dataset, {**properties, **user_properties, identity.GUID: plan.guid})
        advance("serving it", 60)
        for target, number in _luns_of_another(context, uuid, current.guid):  # the reconciler makes it again with this volume
            with as_domain_errors():
                context.target.delete_lun(target, number)
        return steps.serve(context, uuid, plan.pools, self.kind)

    def undo(self, context: Context, plan: AdoptPlan) -> bool:
        """Frees the number if the dataset is not a datastore, and restores the properties of the dataset."""
        if any(store.uuid == plan.uuid and store.state == "active" for store in context.datastores()):
            return False
        with context.store.session() as session:
            if plan.known is not None:
                plan.known.show(session, plan.uuid)
            else:
                domain.forget(session, plan.uuid)
        dataset = context.scan_pools(plan.pools).dataset(plan.dataset)
        if dataset is None or str(dataset.guid) != plan.guid:
            return True
        if plan.before:
            context.engine.set_properties(dataset.name, plan.before)
        if isinstance(dataset, Filesystem) and plan.mounted and not dataset.mounted:
            context.engine.mount(dataset.name)
        return True


OPERATIONS = by_kind(Adopt())
