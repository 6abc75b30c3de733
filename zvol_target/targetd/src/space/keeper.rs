//! Looks at each pool again and again, and does what follows.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use scsi::LogicalUnit;
use uuid::Uuid;
use volume::Growth;

use super::PoolSpace;
use super::act::{Known, act};
use super::look::{LookError, Store, Sync, look};
use crate::configuration::Lun;
use crate::service::{LunState, Shared};

/// How often it is looked whether a pool is to be looked at.
const TICK: Duration = Duration::from_millis(250);

/// How often it is tried again to find out where a volume is.
const PLACE_PAUSE: Duration = Duration::from_secs(10);

/// Who looks after the space of all that is served.
pub type Keeper = Rc<RefCell<Keeping>>;

/// What is known of it.
#[derive(Default)]
pub struct Keeping {
    places: BTreeMap<Uuid, Place>,
    pub(super) stores: BTreeMap<Store, Known>,
}

/// Where the volume of a unit is.
struct Place {
    unit: Weak<LogicalUnit>,
    /// `None` while that is found out, or when it can't be.
    store: Option<Store>,
    tried: Instant,
}

/// Looks after it; for ever.
pub async fn keep(service: &Shared, keeper: &Keeper) {
    let mut interval = tokio::time::interval(TICK);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let changed = Rc::clone(&service.borrow().units_changed);
    loop {
        // A copy to or from a new unit waits until its space is known.
        tokio::select! {
            _ = interval.tick() => {}
            () = changed.notified() => {}
        }
        find_places(service, keeper);
        let due = keeper.borrow_mut().take_due();
        for store in due {
            let (service, keeper) = (Rc::clone(service), Rc::clone(keeper));
            tokio::task::spawn_local(async move { look_at(&service, &keeper, store).await });
        }
    }
}

impl Keeping {
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
            self.stores.entry(store).or_default().due = Instant::now();
        }
    }

    /// Takes what is known of a store that is worked on: nobody else does, as it is busy.
    pub(super) fn take_known(&mut self, store: &Store) -> Option<Known> {
        let present = self.stores.get_mut(store)?;
        let stand_in = Known {
            due: present.due,
            busy: true,
            ..Known::default()
        };
        Some(std::mem::replace(present, stand_in))
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
pub(super) fn find_places(service: &Shared, keeper: &Keeper) {
    let serving = serving(service);
    let mut found = Vec::new();
    {
        let Keeping { places, stores } = &mut *keeper.borrow_mut();
        let now = Instant::now();
        places.retain(|uuid, place| {
            let stays = serving.iter().any(|(lun, _)| lun.uuid == *uuid);
            if !stays {
                // What was held for it may have to be given back.
                let known = place.store.as_ref().and_then(|store| stores.get_mut(store));
                known.into_iter().for_each(|known| known.due = now);
            }
            stays
        });
        for (lun, unit) in serving {
            let is_known = places.get(&lun.uuid).is_some_and(|place| {
                let is_tried = place.store.is_some() || now < place.tried + PLACE_PAUSE;
                place.unit.ptr_eq(&unit) && is_tried
            });
            if !is_known {
                let place = Place {
                    unit: unit.clone(),
                    store: None,
                    tried: now,
                };
                places.insert(lun.uuid, place);
                found.push((lun, unit));
            }
        }
    }
    for (lun, unit) in found {
        let keeper = Rc::clone(keeper);
        let changed = Rc::clone(&service.borrow().units_changed);
        tokio::task::spawn_local(async move {
            let Some(volume) = unit.upgrade().map(|unit| Arc::clone(unit.volume())) else {
                return;
            };
            let path = lun.path.clone();
            let store = tokio::task::spawn_blocking(move || Store::of(&*volume, &path)).await;
            keeper
                .borrow_mut()
                .found(lun.uuid, &unit, store.ok().flatten());
            changed.notify_one();
        });
    }
}

async fn look_at(service: &Shared, keeper: &Keeper, store: Store) {
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
        let sync = sync_for(&keeper.borrow(), &store, &members);
        let store = store.clone();
        tokio::task::spawn_blocking(move || look(&store, volumes, sync)).await
    };
    let looked = looked.unwrap_or_else(|error| Err(std::io::Error::other(error).into()));
    // Out of the keeper while it is worked on.
    let Some(mut known) = keeper.borrow_mut().take_known(&store) else {
        return;
    };
    let next = match looked {
        Ok(found) => act(service, &store, &mut known, members, found, began).await,
        Err(error) => {
            unseen(service, &store, &mut known, &error);
            if error.is_gone() && members.is_empty() {
                // Nothing can be given back any more.
                known.luns.clear();
            }
            TICK * 8
        }
    };
    known.busy = false;
    known.due = Instant::now() + next;
    let Keeping { places, stores } = &mut *keeper.borrow_mut();
    let mut places = places.values();
    let is_used = places.any(|place| place.store.as_ref() == Some(&store));
    // A unit may have come meanwhile.
    if stores
        .get(&store)
        .is_some_and(|present| present.due >= began)
    {
        known.due = Instant::now();
        service.borrow().units_changed.notify_one();
    }
    // A look that failed has found nothing yet.
    if known.luns.is_empty() && !is_used {
        stores.remove(&store);
        service.borrow_mut().space.pools.remove(&store.name());
    } else {
        stores.insert(store, known);
    }
}

/// What a look has to do first, so that what it sees can be believed.
fn sync_for(keeper: &Keeping, store: &Store, members: &[(Lun, Weak<LogicalUnit>)]) -> Sync {
    let luns = keeper.stores.get(store).map(|known| &known.luns);
    let known = |lun: &Lun| luns.and_then(|luns| luns.get(&lun.uuid));
    if members
        .iter()
        .filter_map(|(lun, _)| known(lun)?.ledger.as_ref())
        .any(|ledger| ledger.wants_sync())
    {
        return Sync::Always;
    }
    // One that may write without limit may have.
    let written = members.iter().any(|(lun, unit)| {
        let said = known(lun).map_or(Growth::Allowed, |known| known.said);
        unit.upgrade().is_some_and(|unit| {
            let growth = unit.volume().growth();
            growth == Growth::Allowed || growth != said
        })
    });
    if written {
        Sync::NearTheEnd
    } else {
        Sync::Never
    }
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
