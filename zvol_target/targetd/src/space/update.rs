// SPDX-License-Identifier: Apache-2.0
//! Applies the figures of a store: sets the limits and reservations of its LUNs, and reports to hosts and administrators.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use scsi::{LogicalUnit, SpaceFigures};
use uuid::Uuid;
use volume::Growth;
use volume::zfs::Dataset;

use super::policy::{self, PoolFigures};
use super::reservation::{KnownLun, release_unused};
use super::store::{Figures, Reading, Store};
use super::{LunSpace, PoolSpace};
use crate::configuration::{Lun, PoolSettings, ProvisioningChoice};
use crate::service::Shared;

/// Time limit for a file to report its space.
const FILE_PATIENCE: Duration = Duration::from_secs(5);

/// State of a store between updates.
pub(super) struct Known {
    pub due: Instant,
    /// Whether an update is running.
    pub busy: bool,
    pub overcommitted: bool,
    pub problem: Option<String>,
    pub luns: BTreeMap<Uuid, KnownLun>,
    /// Figures of the last update.
    pub figures: Option<Arc<Figures>>,
}

impl Default for Known {
    fn default() -> Self {
        Self {
            due: Instant::now(),
            busy: false,
            overcommitted: false,
            problem: None,
            luns: BTreeMap::new(),
            figures: None,
        }
    }
}

/// Values that apply to all LUNs of a store.
pub(super) struct Terms {
    name: String,
    pool: PoolFigures,
    headroom: u64,
    settings: Option<PoolSettings>,
    /// Space to reserve for the overwrites of a LUN.
    pub lun_headroom: u64,
    pub overcommitted: bool,
    /// Bytes reserved so far in this update.
    pub taken: Cell<u64>,
    /// No reservation is set from then on.
    pub until: Instant,
    /// Whether reservations wait for the next update for this reason.
    pub late: Cell<bool>,
}

impl Terms {
    /// Whether the LUN's reservation is released, as shared blocks exceed the free space.
    pub fn releases(&self, lun: &Lun) -> bool {
        self.overcommitted && lun.provisioning == ProvisioningChoice::Thin
    }
}

/// A served LUN, with its unit and the figures of its zvol.
type Member = ((Lun, Weak<LogicalUnit>), Option<Dataset>);

/// Applies the figures. Returns the time of the next update.
pub(super) async fn update(
    service: &Shared,
    store: &Store,
    known: &mut Known,
    members: Vec<(Lun, Weak<LogicalUnit>)>,
    reading: Reading,
) -> Duration {
    // Each reservation takes a transaction group. Those that are not set in time wait for the next update, which has new figures.
    let until = Instant::now() + policy::LONGEST / 2;
    let all_released = release_unused(service, &store.name(), known, &members, until).await;
    let mut members: Vec<Member> = members.into_iter().zip(reading.datasets).collect();
    let terms = terms(service, store, known, reading.pool, &members);
    terms.late.set(!all_released);
    members.sort_by_key(|((lun, _), dataset)| {
        let dataset = dataset.as_ref()?;
        Some(order(&terms, lun, dataset))
    });
    // First set the limits of all volumes: setting reservations takes time.
    let (left, refused) = limit_all(service, &terms, known, &members).await;
    for ((lun, unit), dataset) in &members {
        let (Some(dataset), Some(of_lun)) = (dataset, known.luns.get_mut(&lun.uuid)) else {
            continue;
        };
        let held = of_lun.reserve(&terms, lun, dataset).await;
        if served(service, lun, unit).is_some() {
            if let Some(shown) = service.borrow_mut().space.luns.get_mut(&lun.uuid) {
                shown.held_bytes = held;
                shown.problem = problem(shown, of_lun);
            }
        }
    }
    known.problem = terms.overcommitted.then(|| {
        "overwrites of shared blocks have used up the free space: no space is reserved for thin LUNs. Add vdevs, or delete snapshots and volumes".to_owned()
    });
    let shown = PoolSpace {
        total_bytes: terms.pool.total,
        available_bytes: terms.pool.available,
        headroom_bytes: terms.headroom,
        problem: known.problem.clone(),
    };
    service.borrow_mut().space.pools.insert(store.name(), shown);
    if terms.late.get() {
        return policy::SHORTEST;
    }
    policy::next_update(&terms.pool, left, terms.headroom, refused)
}

/// Reservations that become smaller come first, the largest before the others; then the LUNs with the least reserved for overwrites.
fn order(terms: &Terms, lun: &Lun, dataset: &Dataset) -> (bool, u64) {
    let desired = dataset.used.saturating_add(terms.lun_headroom);
    let grows = !terms.releases(lun) && dataset.reservation < desired;
    let excess = dataset.reservation.saturating_sub(dataset.used);
    (grows, if grows { excess } else { u64::MAX - excess })
}

fn terms(
    service: &Shared,
    store: &Store,
    known: &mut Known,
    pool: PoolFigures,
    members: &[Member],
) -> Terms {
    let name = store.name();
    let settings = {
        let service = service.borrow();
        let mut pools = service.configuration().pools.iter();
        pools.find(|pool| pool.name == name).cloned()
    };
    let headroom = settings
        .as_ref()
        .and_then(|settings| settings.headroom_bytes)
        .unwrap_or_else(|| match store {
            Store::Pool(_) => policy::headroom(pool.total),
            Store::FileSystem(_) => policy::file_headroom(pool.total),
        });
    let lun_headroom = policy::lun_headroom(pool.total, members.len());
    let held = |(_, dataset): &Member| dataset.as_ref().map_or(0, Dataset::reserved_bytes);
    let mut held: u64 = members.iter().map(held).sum();
    if known.overcommitted {
        // Released reservations count as reserved, as they must be set again.
        let thin = |((lun, _), _): &&Member| lun.provisioning == ProvisioningChoice::Thin;
        let thin = members.iter().filter(thin).count() as u64;
        held = held.saturating_add(lun_headroom.saturating_mul(thin));
    }
    let overcommitted = policy::is_overcommitted(known.overcommitted, &pool, held);
    if overcommitted && !known.overcommitted {
        tracing::error!(
            pool = name,
            "shared blocks exceed the free space: no space is reserved for thin LUNs until space is free"
        );
    }
    known.overcommitted = overcommitted;
    Terms {
        name,
        pool,
        headroom,
        settings,
        lun_headroom,
        overcommitted,
        taken: Cell::new(0),
        until: Instant::now() + policy::LONGEST,
        late: Cell::new(false),
    }
}

/// Sets the limit of each volume. Returns the lowest space left of any LUN that allocates it, and whether any may not allocate more.
async fn limit_all(
    service: &Shared,
    terms: &Terms,
    known: &mut Known,
    members: &[Member],
) -> (u64, bool) {
    let mut refused = false;
    let mut left = u64::MAX;
    for ((lun, unit), dataset) in members {
        let Some(unit) = served(service, lun, unit) else {
            continue;
        };
        let of_lun = known.luns.entry(lun.uuid).or_default();
        of_lun.follow(unit.volume());
        let space = match dataset {
            Some(dataset) => Some(zvol_space(terms, lun, &unit, dataset, of_lun)),
            // A file; or a zvol that was renamed or destroyed a moment ago.
            None => file_space(terms, &unit, of_lun).await,
        };
        let Some(space) = space else {
            continue;
        };
        refused |= space.growth == Growth::Refused;
        // The refreservation of a covered LUN has the space for its writes.
        if !of_lun.covered {
            let dataset = dataset.as_ref().map(Dataset::unreserved_bytes);
            left = left.min(dataset.unwrap_or(terms.pool.available));
        }
        unit.volume().set_growth(space.growth);
        publish(service, terms, lun, &unit, space);
    }
    (left, refused)
}

fn zvol_space(
    terms: &Terms,
    lun: &Lun,
    unit: &LogicalUnit,
    dataset: &Dataset,
    known: &mut KnownLun,
) -> LunSpace {
    let geometry = unit.volume().geometry();
    let size = geometry.size_bytes;
    let covered = (lun.provisioning == ProvisioningChoice::Thick)
        .then_some(dataset.covers(size, geometry.physical_block_bytes));
    let headroom = terms.lun_headroom;
    let held = dataset.reserved_bytes();
    known.covered = covered == Some(true);
    let (available, limit) = if known.covered {
        known.growth = Growth::Allowed;
        let available = size.saturating_sub(dataset.used_by_dataset);
        (available, Growth::Allowed)
    } else {
        let left = policy::left_for_growth(dataset);
        known.growth = policy::growth(known.growth, left, terms.headroom);
        let is_near = policy::is_near(terms.pool.total, left, terms.headroom);
        // If nothing may be reserved, there is no reservation to protect.
        let may_reserve = known.problem.is_none() || held > 0;
        let limit = if is_near && may_reserve {
            policy::limit(known.growth, held, headroom)
        } else {
            known.growth
        };
        (left.saturating_sub(terms.headroom), limit)
    };
    known.limit = limit;
    let mut space = LunSpace {
        pool: terms.name.clone(),
        dataset: Some(dataset.name.clone()),
        growth: limit,
        used_bytes: dataset.used_by_dataset,
        referenced_bytes: dataset.referenced,
        available_bytes: available,
        held_bytes: held,
        headroom_bytes: headroom,
        refreservation_bytes: Some(dataset.refreservation),
        covered,
        problem: None,
    };
    space.problem = problem(&space, known);
    space
}

fn problem(space: &LunSpace, known: &KnownLun) -> Option<String> {
    if space.covered != Some(false) {
        return known.problem.clone();
    }
    let reserved = space.refreservation_bytes.unwrap_or(0);
    Some(format!(
        "its refreservation of {reserved} bytes has no room for its data and metadata: set it with `zfs set refreservation=auto`, or make the LUN thin"
    ))
}

async fn file_space(terms: &Terms, unit: &LogicalUnit, known: &mut KnownLun) -> Option<LunSpace> {
    let volume = unit.volume();
    if volume.dataset().is_some() {
        return None;
    }
    let space = tokio::time::timeout(FILE_PATIENCE, volume.space()).await;
    let space = space.ok()?.ok()??;
    known.growth = policy::growth(known.growth, space.available_bytes, terms.headroom);
    known.limit = known.growth;
    Some(LunSpace {
        pool: terms.name.clone(),
        dataset: None,
        growth: known.growth,
        used_bytes: space.used_bytes,
        referenced_bytes: space.used_bytes,
        available_bytes: space.available_bytes.saturating_sub(terms.headroom),
        held_bytes: 0,
        headroom_bytes: 0,
        refreservation_bytes: None,
        covered: None,
        problem: None,
    })
}

/// The unit, if it is still the LUN's: the update can have replaced it.
fn served(service: &Shared, lun: &Lun, unit: &Weak<LogicalUnit>) -> Option<Arc<LogicalUnit>> {
    let unit = unit.upgrade()?;
    let service = service.borrow();
    let mut targets = service.configuration().targets.iter();
    let is_served = targets.any(|target| {
        let running = service.running_lun(&target.name, lun.number);
        running.is_some_and(|running| Arc::ptr_eq(&running.unit, &unit))
    });
    is_served.then_some(unit)
}

/// Passes the figures to the unit, which warns its hosts, and to the control socket.
fn publish(service: &Shared, terms: &Terms, lun: &Lun, unit: &LogicalUnit, space: LunSpace) {
    let size = unit.volume().geometry().size_bytes;
    let of_pool = terms.settings.as_ref().and_then(|pool| pool.soft_threshold);
    unit.set_space(SpaceFigures {
        available_threshold_bytes: of_pool
            .filter(|_| lun.provisioning == ProvisioningChoice::Thin)
            .map(|threshold| terms.pool.left_at(threshold, terms.headroom)),
        ..space.for_hosts(lun, size)
    });
    service.borrow_mut().space.luns.insert(lun.uuid, space);
}
