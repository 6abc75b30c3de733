//! What follows from a look: for a store, and for each LUN in it.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use scsi::{LogicalUnit, Provisioning, SpaceFigures};
use uuid::Uuid;
use volume::Growth;
use volume::zfs::Dataset;

use super::ledger::Seen;
use super::look::{Found, Store};
use super::policy::{self, PoolFigures};
use super::release::release_unused;
use super::zvol::KnownLun;
use super::{LunSpace, PoolSpace};
use crate::configuration::{Lun, PoolSettings, ProvisioningChoice};
use crate::service::{Service, Shared};

/// How long a file may take to tell its own space.
const FILE_PATIENCE: Duration = Duration::from_secs(5);

/// What is known of a store from looks before.
pub(super) struct Known {
    pub due: Instant,
    /// A look is under way.
    pub busy: bool,
    pub overcommitted: bool,
    pub problem: Option<String>,
    pub luns: BTreeMap<Uuid, KnownLun>,
}

impl Default for Known {
    fn default() -> Self {
        Self {
            due: Instant::now(),
            busy: false,
            overcommitted: false,
            problem: None,
            luns: BTreeMap::new(),
        }
    }
}

/// What holds for all LUNs of a store.
pub(super) struct Terms {
    pub store: Store,
    pub pool: PoolFigures,
    pub headroom: u64,
    pub settings: Option<PoolSettings>,
    /// Of a LUN that has no own setting.
    pub slack: u64,
    pub overcommitted: bool,
    pub seen: Seen,
    /// What this look has reserved so far.
    pub taken: Cell<u64>,
}

/// A LUN that is served, with its unit and what a look found of its zvol.
type Member = ((Lun, Weak<LogicalUnit>), Option<Dataset>);

/// Acts on what was found. Gives when to look again.
pub(super) async fn act(
    service: &Shared,
    store: &Store,
    known: &mut Known,
    members: Vec<(Lun, Weak<LogicalUnit>)>,
    found: Found,
    began: Instant,
) -> Duration {
    let terms = terms(service, store, known, &found, members.len(), began);
    release_unused(service, store, known, &members).await;
    // What gives space back comes before what takes it.
    let mut members: Vec<Member> = members.into_iter().zip(found.datasets).collect();
    members.sort_by_key(|(_, dataset)| {
        dataset
            .as_ref()
            .is_none_or(|dataset| dataset.reservation < dataset.used.saturating_add(terms.slack))
    });
    // All volumes hear what they may before anything is set, which takes its time.
    let (left, refused) = tell_all(service, &terms, known, &members).await;
    keep_all(service, &terms, known, &members).await;
    let problem = terms.overcommitted.then(|| {
        "shared blocks were overwritten with nothing left: what thin LUNs overwrite is not held until there is space"
            .to_owned()
    });
    known.problem.clone_from(&problem);
    let shown = PoolSpace {
        total_bytes: terms.pool.total,
        available_bytes: terms.pool.available,
        headroom_bytes: terms.headroom,
        problem,
    };
    service.borrow_mut().space.pools.insert(store.name(), shown);
    let mut ledgers = known.luns.values().filter_map(|lun| lun.ledger.as_ref());
    if ledgers.any(|ledger| ledger.wants_sync()) {
        return policy::SHORTEST;
    }
    policy::next_look(&terms.pool, left, terms.headroom, refused)
}

fn terms(
    service: &Shared,
    store: &Store,
    known: &mut Known,
    found: &Found,
    luns: usize,
    began: Instant,
) -> Terms {
    let Found {
        pool,
        datasets,
        synced,
    } = found;
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
    let slack = policy::slack(pool.total, luns);
    let held: u64 = datasets.iter().flatten().map(Dataset::reserved_bytes).sum();
    // What was taken off counts as if it were there: it is to come back.
    let taken_off = if known.overcommitted {
        slack.saturating_mul(luns as u64)
    } else {
        0
    };
    let overcommitted =
        policy::is_overcommitted(known.overcommitted, pool, held.saturating_add(taken_off));
    if overcommitted && !known.overcommitted {
        tracing::error!(
            pool = name,
            "more is shared than can be overwritten: nothing is held for thin LUNs until there is space again"
        );
    }
    known.overcommitted = overcommitted;
    let seen = Seen {
        began,
        synced: *synced,
        saved: pool.saved,
    };
    Terms {
        store: store.clone(),
        slack,
        pool: pool.clone(),
        headroom,
        settings,
        overcommitted,
        seen,
        taken: Cell::new(0),
    }
}

/// Tells each unit and its volume what follows from the figures as they are. Gives the least that any has left, and whether any is refused
/// more.
async fn tell_all(
    service: &Shared,
    terms: &Terms,
    known: &mut Known,
    members: &[Member],
) -> (u64, bool) {
    let mut refused = false;
    let mut left = terms.pool.available;
    for ((lun, unit), dataset) in members {
        let Some(unit) = served(service, lun, unit) else {
            continue;
        };
        let of_lun = known.luns.entry(lun.uuid).or_default();
        of_lun.is_of(lun, unit.volume());
        let shown = match (dataset, &terms.store) {
            (Some(dataset), _) => {
                of_lun.begin(lun, dataset, &unit);
                Some(of_lun.judge(terms, lun, &unit, dataset))
            }
            (None, Store::FileSystem(_)) => judge_file(terms, &unit, of_lun).await,
            // Renamed or destroyed this moment.
            (None, Store::Pool(_)) => None,
        };
        if let Some(shown) = shown {
            refused |= shown.growth == Growth::Refused;
            left = left.min(unreserved(terms, dataset.as_ref()));
            unit.volume().set_growth(shown.growth);
            tell(service, terms, lun, &unit, shown, of_lun);
        }
    }
    (left, refused)
}

/// Sets what is to be reserved for each LUN, and tells what came of it.
async fn keep_all(service: &Shared, terms: &Terms, known: &mut Known, members: &[Member]) {
    for ((lun, unit), dataset) in members {
        let Some(dataset) = dataset else {
            continue;
        };
        let others: Vec<_> = known
            .luns
            .iter()
            .filter(|(uuid, _)| **uuid != lun.uuid)
            .filter_map(|(_, of_lun)| of_lun.ledger.clone())
            .collect();
        let of_lun = known.luns.entry(lun.uuid).or_default();
        let Some(volume) = unit.upgrade().map(|unit| Arc::clone(unit.volume())) else {
            continue;
        };
        let size = volume.geometry().size_bytes;
        // It may be closed meanwhile.
        drop(volume);
        let present = of_lun.keep(terms, lun, size, dataset, &others).await;
        let Some(unit) = served(service, lun, unit) else {
            continue;
        };
        let said = of_lun.said;
        let shown = of_lun.judge(terms, lun, &unit, &present);
        let more = present.reserved_bytes();
        let more = more.saturating_sub(dataset.reserved_bytes());
        match (said, shown.growth) {
            (Growth::Limited(_), Growth::Limited(_)) => {
                of_lun.said = said;
                // What was written meanwhile counts.
                if let (Growth::Limited(left), 1..) = (unit.volume().growth(), more) {
                    of_lun.said = Growth::Limited(left.saturating_add(more));
                    unit.volume().set_growth(of_lun.said);
                }
            }
            (before, now) if before != now => unit.volume().set_growth(now),
            _ => {}
        }
        tell(service, terms, lun, &unit, shown, of_lun);
    }
}

/// What a LUN can take without living on what is reserved for it.
fn unreserved(terms: &Terms, dataset: Option<&Dataset>) -> u64 {
    dataset.map_or(terms.pool.available, Dataset::unreserved_bytes)
}

async fn judge_file(terms: &Terms, unit: &LogicalUnit, known: &mut KnownLun) -> Option<LunSpace> {
    let volume = unit.volume();
    let space = tokio::time::timeout(FILE_PATIENCE, volume.space()).await;
    let space = space.ok()?.ok()??;
    known.growth = policy::growth(known.growth, space.available_bytes, terms.headroom);
    Some(LunSpace {
        pool: terms.store.name(),
        dataset: None,
        thick: false,
        growth: known.growth,
        used_bytes: space.used_bytes,
        available_bytes: space.available_bytes.saturating_sub(terms.headroom),
        held_bytes: 0,
        slack_bytes: 0,
        shared_bytes: 0,
        problem: None,
    })
}

/// The unit, if it still is the LUN's: another may have taken its place during the look.
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

/// Whether a LUN is thick by now, or being made so.
fn is_becoming_thick(service: &Service, uuid: Uuid) -> bool {
    let targets = service.configuration().targets.iter();
    let mut luns = targets.flat_map(|target| &target.luns);
    let is_thick = |lun: &Lun| lun.provisioning == ProvisioningChoice::Thick;
    service.space.becoming_thick.contains(&uuid)
        || luns.any(|lun| lun.uuid == uuid && is_thick(lun))
}

/// Tells the unit, by it its hosts, and who asks.
fn tell(
    service: &Shared,
    terms: &Terms,
    lun: &Lun,
    unit: &LogicalUnit,
    space: LunSpace,
    known: &KnownLun,
) {
    let volume = unit.volume();
    let mut service = service.borrow_mut();
    let ledger = known.clone_ledger();
    // While it is made thick, and until that is seen here, its ledger is closed.
    if ledger.is_some() || !is_becoming_thick(&service, lun.uuid) {
        volume.set_clone_ledger(ledger);
    }
    unit.set_provisioning(if space.thick {
        Provisioning::Thick
    } else {
        Provisioning::Thin
    });
    let size = volume.geometry().size_bytes;
    // What all use of the pool reaches the threshold when so much is left.
    let of_pool = terms.settings.as_ref().and_then(|pool| pool.soft_threshold);
    let left_at = |threshold: u64| {
        let left = terms.pool.total.saturating_sub(threshold);
        left.saturating_sub(terms.headroom)
    };
    unit.set_space(SpaceFigures {
        used_bytes: space.used_bytes,
        available_bytes: space.available_bytes,
        used_threshold_bytes: lun.soft_threshold.map(|threshold| threshold.of(size)),
        available_threshold_bytes: of_pool
            .filter(|_| !space.thick)
            .map(|threshold| left_at(threshold.of(terms.pool.total))),
    });
    service.space.luns.insert(lun.uuid, space);
}
