//! Looks at each pool again and again, and does what follows.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use scsi::{LogicalUnit, Provisioning, SpaceFigures};
use uuid::Uuid;
use volume::zfs::{self, Dataset};
use volume::{CloneLedger, Growth};

use super::look::{Found, LookError, Store, look};
use super::policy::{self, PoolFigures};
use super::{Ledger, LunSpace, PoolSpace};
use crate::configuration::{Lun, PoolSettings, ProvisioningChoice};
use crate::service::{LunState, Shared};

/// How often it is looked whether a pool is to be looked at.
const TICK: Duration = Duration::from_millis(250);

/// What `zfs set` says of a reservation for which there is no space.
const NO_SPACE: &str = "greater than available space";

/// How long a file may take to tell its own space.
const FILE_PATIENCE: Duration = Duration::from_secs(5);

/// Looks after the space of all that is served; for ever.
pub async fn keep(service: &Shared) {
    let keeper = Rc::new(RefCell::new(Keeper::default()));
    let mut interval = tokio::time::interval(TICK);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        find_places(service, &keeper);
        let due = keeper.borrow_mut().take_due();
        for store in due {
            let (service, keeper) = (Rc::clone(service), Rc::clone(&keeper));
            tokio::task::spawn_local(async move { look_at(&service, &keeper, store).await });
        }
    }
}

#[derive(Default)]
struct Keeper {
    places: BTreeMap<Uuid, Place>,
    stores: BTreeMap<Store, Known>,
}

/// Where the volume of a unit is.
struct Place {
    unit: Weak<LogicalUnit>,
    /// `None` while that is found out, or when it can't be.
    store: Option<Store>,
}

/// What is known of a store from looks before.
struct Known {
    due: Instant,
    /// A look is under way.
    busy: bool,
    overcommitted: bool,
    problem: Option<String>,
    luns: BTreeMap<Uuid, KnownLun>,
}

/// What is known of a LUN.
#[derive(Default)]
struct KnownLun {
    growth: Growth,
    /// What the volume was told.
    said: Growth,
    /// The zvol whose `reservation` is ours.
    holds: Option<String>,
    /// What a volume of this size needs in all to be thick.
    thick: Option<(u64, u64)>,
    ledger: Option<Arc<Ledger>>,
    problem: Option<String>,
}

impl Keeper {
    /// What volumes were told.
    fn said(&self, store: &Store, members: &[(Lun, Weak<LogicalUnit>)]) -> Vec<Growth> {
        let luns = self.stores.get(store).map(|known| &known.luns);
        let said = |lun: &Lun| luns.and_then(|luns| luns.get(&lun.uuid));
        let said = members
            .iter()
            .map(|(lun, _)| said(lun).map_or(Growth::Allowed, |known| known.said));
        said.collect()
    }

    fn take_due(&mut self) -> Vec<Store> {
        let now = Instant::now();
        let due = self
            .stores
            .iter_mut()
            .filter(|(_, known)| !known.busy && known.due <= now);
        due.map(|(store, known)| {
            known.busy = true;
            store.clone()
        })
        .collect()
    }

    fn found(&mut self, uuid: Uuid, unit: &Weak<LogicalUnit>, store: Option<Store>) {
        let Some(place) = self.places.get_mut(&uuid) else {
            return;
        };
        if !place.unit.ptr_eq(unit) {
            return;
        }
        place.store.clone_from(&store);
        if let Some(store) = store {
            let known = self.stores.entry(store).or_insert_with(|| Known {
                due: Instant::now(),
                busy: false,
                overcommitted: false,
                problem: None,
                luns: BTreeMap::new(),
            });
            known.due = Instant::now();
        }
    }
}

/// Units that are served, with their LUNs.
fn serving(service: &Shared) -> Vec<(Lun, Weak<LogicalUnit>)> {
    let service = service.borrow();
    let targets = service.configuration().targets.iter();
    let luns = targets.flat_map(|target| target.luns.iter().map(move |lun| (target, lun)));
    luns.filter_map(|(target, lun)| {
        let running = service.running_lun(&target.name, lun.number)?;
        matches!(running.state, LunState::Serving { .. })
            .then(|| (lun.clone(), Arc::downgrade(&running.unit)))
    })
    .collect()
}

/// Finds out where units are that are new.
fn find_places(service: &Shared, keeper: &Rc<RefCell<Keeper>>) {
    let serving = serving(service);
    let mut new = Vec::new();
    {
        let places = &mut keeper.borrow_mut().places;
        places.retain(|uuid, _| serving.iter().any(|(lun, _)| lun.uuid == *uuid));
        for (lun, unit) in serving {
            let known = places.get(&lun.uuid);
            if known.is_none_or(|place| !place.unit.ptr_eq(&unit)) {
                let place = Place {
                    unit: unit.clone(),
                    store: None,
                };
                places.insert(lun.uuid, place);
                new.push((lun, unit));
            }
        }
    }
    for (lun, unit) in new {
        let keeper = Rc::clone(keeper);
        tokio::task::spawn_local(async move {
            let Some(volume) = unit.upgrade().map(|unit| Arc::clone(unit.volume())) else {
                return;
            };
            let path = lun.path.clone();
            let store = tokio::task::spawn_blocking(move || Store::of(&*volume, &path)).await;
            keeper
                .borrow_mut()
                .found(lun.uuid, &unit, store.ok().flatten());
        });
    }
}

async fn look_at(service: &Shared, keeper: &Rc<RefCell<Keeper>>, store: Store) {
    let began = Instant::now();
    let members = {
        let keeper = keeper.borrow();
        let mut members = serving(service);
        members.retain(|(lun, unit)| {
            let place = keeper.places.get(&lun.uuid);
            place.is_some_and(|place| {
                place.store.as_ref() == Some(&store) && place.unit.ptr_eq(unit)
            })
        });
        members
    };
    let volumes: Vec<_> = members
        .iter()
        .map(|(_, unit)| unit.upgrade().map(|unit| Arc::clone(unit.volume())))
        .collect();
    let looked = {
        let said = keeper.borrow().said(&store, &members);
        let mut present = volumes.iter().flatten().zip(said);
        // One that may write without limit may have.
        let written = present.any(|(volume, said)| {
            let growth = volume.growth();
            growth == Growth::Allowed || growth != said
        });
        let store = store.clone();
        tokio::task::spawn_blocking(move || look(&store, volumes, written)).await
    };
    let looked = looked.unwrap_or_else(|error| Err(std::io::Error::other(error).into()));
    // Out of the keeper while it is worked on: nobody else does, as it is busy.
    let Some(mut known) = take_known(keeper, &store) else {
        return;
    };
    let next = match looked {
        Ok(found) => act(service, &store, &mut known, members, found).await,
        Err(error) => {
            unseen(service, &store, &mut known, &error);
            TICK * 8
        }
    };
    known.busy = false;
    known.due = Instant::now() + next;
    let Keeper { places, stores } = &mut *keeper.borrow_mut();
    let mut places = places.values();
    let is_used = places.any(|place| place.store.as_ref() == Some(&store));
    // A unit may have come meanwhile.
    if stores
        .get(&store)
        .is_some_and(|present| present.due >= began)
    {
        known.due = Instant::now();
    }
    // A look that failed has found nothing yet.
    if known.luns.is_empty() && !is_used {
        stores.remove(&store);
        service.borrow_mut().space.pools.remove(&store.name());
    } else {
        stores.insert(store, known);
    }
}

fn take_known(keeper: &Rc<RefCell<Keeper>>, store: &Store) -> Option<Known> {
    let stores = &mut keeper.borrow_mut().stores;
    let present = stores.get_mut(store)?;
    let stand_in = Known {
        due: present.due,
        busy: true,
        overcommitted: present.overcommitted,
        problem: None,
        luns: BTreeMap::new(),
    };
    Some(std::mem::replace(present, stand_in))
}

/// Nothing is known now: all stays as it is, and is said.
fn unseen(service: &Shared, store: &Store, known: &mut Known, error: &LookError) {
    let text = error.to_string();
    if known.problem.as_ref() != Some(&text) {
        tracing::warn!(pool = store.name(), %error, "its space is not known: LUNs may take what there is");
    }
    let pools = &mut service.borrow_mut().space.pools;
    pools
        .entry(store.name())
        .or_insert(PoolSpace {
            total_bytes: 0,
            available_bytes: 0,
            headroom_bytes: 0,
            problem: None,
        })
        .problem = Some(text.clone());
    known.problem = Some(text);
}

/// What holds for all LUNs of a store.
struct Terms {
    store: Store,
    pool: PoolFigures,
    headroom: u64,
    settings: Option<PoolSettings>,
    /// Of a LUN that has no own setting.
    slack: u64,
    overcommitted: bool,
    /// What this look has reserved so far.
    taken: Cell<u64>,
}

/// Acts on what was found. Gives when to look again.
async fn act(
    service: &Shared,
    store: &Store,
    known: &mut Known,
    members: Vec<(Lun, Weak<LogicalUnit>)>,
    found: Found,
) -> Duration {
    let Found { pool, datasets } = found;
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
    let slack = policy::slack(pool.total, members.len());
    let held: u64 = datasets.iter().flatten().map(Dataset::reserved_bytes).sum();
    // What was taken off counts as if it were there: it is to come back.
    let taken_off = if known.overcommitted {
        slack.saturating_mul(members.len() as u64)
    } else {
        0
    };
    let overcommitted =
        policy::is_overcommitted(known.overcommitted, &pool, held.saturating_add(taken_off));
    if overcommitted && !known.overcommitted {
        tracing::error!(
            pool = name,
            "more is shared than can be overwritten: nothing is held for thin LUNs until there is space again"
        );
    }
    known.overcommitted = overcommitted;
    let terms = Terms {
        store: store.clone(),
        slack,
        pool,
        headroom,
        settings,
        overcommitted,
        taken: Cell::new(0),
    };
    release_deleted(service, known).await;
    let mut refused = false;
    let mut left = terms.pool.available;
    // What gives space back comes before what takes it.
    let mut members: Vec<_> = members.into_iter().zip(datasets).collect();
    members.sort_by_key(|(_, dataset)| {
        dataset
            .as_ref()
            .is_none_or(|dataset| dataset.reservation < dataset.used + terms.slack)
    });
    for ((lun, unit), dataset) in members {
        let of_lun = known.luns.entry(lun.uuid).or_default();
        let shown = match (&dataset, store) {
            (Some(dataset), _) => keep_zvol(&terms, &lun, &unit, dataset, of_lun).await,
            (None, Store::FileSystem(_)) => keep_file(&terms, &unit, of_lun).await,
            // Renamed or destroyed this moment.
            (None, Store::Pool(_)) => None,
        };
        if let Some(shown) = shown {
            refused |= shown.growth == Growth::Refused;
            left = left.min(unreserved(&terms, dataset.as_ref()));
            tell(&terms, &lun, &unit, &shown, of_lun.clone_ledger());
            service.borrow_mut().space.luns.insert(lun.uuid, shown);
        }
    }
    let problem = overcommitted.then(|| {
        "shared blocks were overwritten with nothing left: what thin LUNs overwrite is not held until there is space"
            .to_owned()
    });
    known.problem.clone_from(&problem);
    let shown = PoolSpace {
        total_bytes: terms.pool.total,
        available_bytes: terms.pool.available,
        headroom_bytes: headroom,
        problem,
    };
    service.borrow_mut().space.pools.insert(name, shown);
    policy::next_look(&terms.pool, left, headroom, refused)
}

/// What a LUN can take without living on what is reserved for it.
fn unreserved(terms: &Terms, dataset: Option<&Dataset>) -> u64 {
    dataset.map_or(terms.pool.available, Dataset::unreserved_bytes)
}

/// Gives back what was held for LUNs that are configured no more.
async fn release_deleted(service: &Shared, known: &mut Known) {
    let configured: Vec<_> = {
        let service = service.borrow();
        let targets = service.configuration().targets.iter();
        targets
            .flat_map(|target| target.luns.iter().map(|lun| lun.uuid))
            .collect()
    };
    let gone: Vec<_> = known
        .luns
        .keys()
        .filter(|uuid| !configured.contains(uuid))
        .copied()
        .collect();
    for uuid in gone {
        service.borrow_mut().space.luns.remove(&uuid);
        let Some(KnownLun {
            holds: Some(dataset),
            ..
        }) = known.luns.remove(&uuid)
        else {
            continue;
        };
        let released = set(&dataset, "reservation", 0).await;
        if let Err(error) = released {
            tracing::info!(
                dataset,
                error,
                "what was held for a LUN that is gone stays reserved"
            );
        }
    }
}

async fn set(dataset: &str, property: &'static str, bytes: u64) -> Result<(), String> {
    let name = dataset.to_owned();
    let set = tokio::task::spawn_blocking(move || zfs::set(&name, property, bytes)).await;
    match set {
        Ok(set) => set.map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// Whether a LUN is to be thick.
fn wants_thick(lun: &Lun, dataset: &Dataset, size: u64, known: &KnownLun) -> bool {
    match lun.provisioning {
        ProvisioningChoice::Thick => true,
        ProvisioningChoice::Thin => false,
        ProvisioningChoice::Automatic => {
            // Once found so, a reservation that another lowered is mended; one that is gone is meant.
            let least = if known.ledger.is_some() { 1 } else { size };
            dataset.refreservation >= least
        }
    }
}

async fn keep_zvol(
    terms: &Terms,
    lun: &Lun,
    unit: &Weak<LogicalUnit>,
    dataset: &Dataset,
    known: &mut KnownLun,
) -> Option<LunSpace> {
    let size = unit.upgrade()?.volume().geometry().size_bytes;
    let slack = lun.slack_bytes.unwrap_or(terms.slack);
    let left = dataset.unreserved_bytes();
    let thick = wants_thick(lun, dataset, size, known);
    let mut shared = 0;
    let mut held = dataset.reserved_bytes();
    let kept = if thick {
        match keep_thick(terms, dataset, size, slack, known).await {
            Ok(bytes) => {
                shared = bytes;
                Ok(())
            }
            Err(error) => Err(format!("its space is not reserved: {error}")),
        }
    } else {
        known.ledger = None;
        keep_thin(terms, lun, dataset, slack, known, &mut held).await
    };
    let is_thick = thick && kept.is_ok();
    known.growth = if is_thick {
        Growth::Allowed
    } else {
        policy::growth(known.growth, left, terms.headroom)
    };
    let may_hold = kept.is_ok() || held > 0;
    let problem = kept.err();
    if problem.is_some() && problem != known.problem {
        tracing::warn!(dataset = dataset.name, problem, "space of a LUN");
    }
    known.problem.clone_from(&problem);
    let available = if is_thick {
        size.saturating_sub(dataset.used_by_dataset)
    } else {
        left.saturating_sub(terms.headroom)
    };
    let is_near = policy::is_near(terms.pool.total, left, terms.headroom);
    known.said = if is_near && may_hold && !is_thick {
        policy::limit(known.growth, held, slack)
    } else {
        known.growth
    };
    Some(LunSpace {
        pool: terms.store.name(),
        dataset: Some(dataset.name.clone()),
        thick: is_thick,
        growth: known.said,
        used_bytes: dataset.used_by_dataset,
        available_bytes: available,
        held_bytes: held,
        slack_bytes: slack,
        shared_bytes: shared,
        problem,
    })
}

async fn keep_thick(
    terms: &Terms,
    dataset: &Dataset,
    size: u64,
    slack: u64,
    known: &mut KnownLun,
) -> Result<u64, String> {
    if let Some(held) = known.holds.take() {
        // It was thin.
        set(&held, "reservation", 0).await?;
    }
    let needed = match known.thick {
        Some((of_size, needed)) if of_size == size => needed,
        _ => {
            let name = dataset.name.clone();
            let needed = tokio::task::spawn_blocking(move || zfs::thick_bytes(&name, size)).await;
            let needed = needed
                .map_err(|error| error.to_string())?
                .map_err(|error| error.to_string())?;
            known.thick = Some((size, needed));
            needed
        }
    };
    let ledger = Arc::clone(known.ledger.get_or_insert_default());
    let settled = ledger.settle(dataset, needed + slack, terms.pool.saved);
    settled.await.map_err(|error| error.to_string())
}

async fn keep_thin(
    terms: &Terms,
    lun: &Lun,
    dataset: &Dataset,
    slack: u64,
    known: &mut KnownLun,
    held: &mut u64,
) -> Result<(), String> {
    if lun.provisioning == ProvisioningChoice::Thin && dataset.refreservation > 0 {
        set(&dataset.name, "refreservation", 0).await?;
    }
    let wanted = if terms.overcommitted {
        (dataset.reservation > 0).then_some(0)
    } else {
        let left = dataset.unreserved_bytes();
        policy::thin_reservation(dataset, slack, left.saturating_sub(terms.taken.get()))
    };
    if let Some(bytes) = wanted {
        match set(&dataset.name, "reservation", bytes).await {
            Ok(()) => {
                let more = bytes.saturating_sub(dataset.reservation.max(dataset.used));
                terms.taken.set(terms.taken.get() + more);
                *held = bytes.saturating_sub(dataset.used);
            }
            // Others took it since the look. The next one sees what is left.
            Err(error) if error.contains(NO_SPACE) => {}
            Err(error) => return Err(format!("its overwrites are not held: {error}")),
        }
    }
    known.holds = Some(dataset.name.clone());
    if terms.overcommitted {
        return Err(
            "its overwrites are not held: more is shared than the pool has space for".into(),
        );
    }
    if *held < slack / 4 {
        return Err(format!(
            "of {slack} bytes for its overwrites only {held} are held: the pool is full"
        ));
    }
    Ok(())
}

async fn keep_file(
    terms: &Terms,
    unit: &Weak<LogicalUnit>,
    known: &mut KnownLun,
) -> Option<LunSpace> {
    let volume = Arc::clone(unit.upgrade()?.volume());
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

/// Tells the volume and, by the unit, its hosts.
fn tell(
    terms: &Terms,
    lun: &Lun,
    unit: &Weak<LogicalUnit>,
    space: &LunSpace,
    ledger: Option<Arc<dyn CloneLedger>>,
) {
    let Some(unit) = unit.upgrade() else {
        return;
    };
    let volume = unit.volume();
    volume.set_growth(space.growth);
    volume.set_clone_ledger(ledger);
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
}

impl KnownLun {
    /// Who answers for blocks that the LUN shares.
    fn clone_ledger(&self) -> Option<Arc<dyn CloneLedger>> {
        let ledger = Arc::clone(self.ledger.as_ref()?);
        Some(ledger)
    }
}
