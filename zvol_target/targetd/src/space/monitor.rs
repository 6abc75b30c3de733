// SPDX-License-Identifier: Apache-2.0
//! Schedules the updates of each pool: periodically, and at once for a new LUN.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use scsi::LogicalUnit;
use uuid::Uuid;
use volume::Growth;

use super::store::{Store, StoreError, read};
use super::update::{Known, update};
use crate::configuration::Lun;
use crate::service::{LunState, Shared};

/// Interval of the checks for due updates.
const TICK: Duration = Duration::from_millis(250);

/// Interval of attempts to find the store of a volume.
const PLACE_PAUSE: Duration = Duration::from_secs(10);

/// Time to the next update after an error.
const AFTER_ERROR: Duration = Duration::from_secs(2);

/// Location of units, and state of each store.
#[derive(Default)]
struct Monitor {
    places: BTreeMap<Uuid, Place>,
    stores: BTreeMap<Store, Known>,
}

type SharedMonitor = Rc<RefCell<Monitor>>;

/// Location of a unit's volume.
struct Place {
    unit: Weak<LogicalUnit>,
    /// `None` until it is found, or if it cannot be found.
    store: Option<Store>,
    tried: Instant,
}

/// Monitors the space of all served units. Never returns.
pub async fn monitor(service: &Shared) {
    let monitor = SharedMonitor::default();
    let mut interval = tokio::time::interval(TICK);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let changed = Rc::clone(&service.borrow().units_changed);
    loop {
        tokio::select! {
            _ = interval.tick() => {}
            () = changed.notified() => {}
        }
        find_places(service, &monitor);
        let due = monitor.borrow_mut().take_due();
        for store in due {
            let (service, monitor) = (Rc::clone(service), Rc::clone(&monitor));
            tokio::task::spawn_local(async move { update_store(&service, &monitor, store).await });
        }
    }
}

impl Monitor {
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

    fn set_store(&mut self, uuid: Uuid, unit: &Weak<LogicalUnit>, store: Option<Store>) {
        let place = self.places.get_mut(&uuid);
        let Some(place) = place.filter(|place| place.unit.ptr_eq(unit)) else {
            return;
        };
        place.store.clone_from(&store);
        if let Some(store) = store {
            self.stores.entry(store).or_default().due = Instant::now();
        }
    }

    /// Takes the state of a store for an update. The store is busy then, so that no other update takes it.
    fn take_known(&mut self, store: &Store) -> Option<Known> {
        let present = self.stores.get_mut(store)?;
        let stand_in = Known {
            due: present.due,
            busy: true,
            ..Known::default()
        };
        Some(std::mem::replace(present, stand_in))
    }

    /// Returns the state after an update. Forgets a store without LUNs and without reservations to release, and returns false
    /// then.
    fn put_known(&mut self, store: Store, mut known: Known, began: Instant) -> bool {
        known.busy = false;
        let mut places = self.places.values();
        let is_used = places.any(|place| place.store.as_ref() == Some(&store));
        // A unit can have been added during the update.
        let present = self.stores.remove(&store);
        if present.is_some_and(|present| present.due >= began) {
            known.due = Instant::now();
        }
        let stays = is_used || !known.luns.is_empty();
        if stays {
            self.stores.insert(store, known);
        }
        stays
    }
}

/// Served units with their LUNs.
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

/// Finds the stores of new units. The store of a unit that no longer exists is due at once: its reservation may have to be
/// released.
fn find_places(service: &Shared, monitor: &SharedMonitor) {
    let serving = serving(service);
    let now = Instant::now();
    let mut added = Vec::new();
    let Monitor { places, stores } = &mut *monitor.borrow_mut();
    places.retain(|uuid, place| {
        let stays = serving.iter().any(|(lun, _)| lun.uuid == *uuid);
        if !stays {
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
            added.push((lun, unit));
        }
    }
    for (lun, unit) in added {
        let monitor = Rc::clone(monitor);
        let changed = Rc::clone(&service.borrow().units_changed);
        tokio::task::spawn_local(async move {
            let Some(volume) = unit.upgrade().map(|unit| Arc::clone(unit.volume())) else {
                return;
            };
            let path = lun.path.clone();
            let store = tokio::task::spawn_blocking(move || Store::of(&*volume, &path)).await;
            let store = store.ok().flatten();
            monitor.borrow_mut().set_store(lun.uuid, &unit, store);
            changed.notify_one();
        });
    }
}

async fn update_store(service: &Shared, monitor: &SharedMonitor, store: Store) {
    let began = Instant::now();
    let (members, sync, mut figures) = {
        let monitor = monitor.borrow();
        let mut members = serving(service);
        members.retain(|(lun, unit)| {
            let place = monitor.places.get(&lun.uuid);
            place.is_some_and(|place| {
                place.store.as_ref() == Some(&store) && place.unit.ptr_eq(unit)
            })
        });
        let known = monitor.stores.get(&store);
        let sync = known.is_some_and(|known| were_written(known, &members));
        let figures = known.and_then(|known| known.figures.clone());
        (members, sync, figures)
    };
    let volumes: Vec<_> = members
        .iter()
        .map(|(_, unit)| unit.upgrade().map(|unit| Arc::clone(unit.volume())))
        .collect();
    let reading = {
        let store = store.clone();
        tokio::task::spawn_blocking(move || {
            let result = read(&store, volumes, sync, &mut figures);
            (result, figures)
        })
        .await
    };
    let (result, figures) =
        reading.unwrap_or_else(|error| (Err(std::io::Error::other(error).into()), None));
    let Some(mut known) = monitor.borrow_mut().take_known(&store) else {
        return;
    };
    known.figures = figures;
    let next = match result {
        Ok(result) => update(service, &store, &mut known, members, result).await,
        Err(error) => {
            report_unknown(service, &store, &mut known, &error);
            if error.is_gone() && members.is_empty() {
                // Nothing is left to release.
                known.luns.clear();
            }
            AFTER_ERROR
        }
    };
    known.due = Instant::now() + next;
    let name = store.name();
    if !monitor.borrow_mut().put_known(store, known, began) {
        service.borrow_mut().space.pools.remove(&name);
    }
}

/// Whether a LUN that may be refused space can have been written after its limit was set.
fn were_written(known: &Known, members: &[(Lun, Weak<LogicalUnit>)]) -> bool {
    members.iter().any(|(lun, unit)| {
        let of_lun = known.luns.get(&lun.uuid);
        if of_lun.is_some_and(|known| known.covered) {
            return false;
        }
        let limit = of_lun.map_or(Growth::Allowed, |known| known.limit);
        unit.upgrade().is_some_and(|unit| {
            let growth = unit.volume().growth();
            growth == Growth::Allowed || growth != limit
        })
    })
}

/// Reports that the figures could not be read. Limits and reservations do not change.
fn report_unknown(service: &Shared, store: &Store, known: &mut Known, error: &StoreError) {
    let text = error.to_string();
    if known.problem.as_ref() != Some(&text) {
        tracing::warn!(pool = store.name(), %error, "cannot read the space of a pool; the limits of its LUNs do not change");
    }
    let pools = &mut service.borrow_mut().space.pools;
    pools.entry(store.name()).or_default().problem = Some(text.clone());
    known.problem = Some(text);
}

#[cfg(test)]
mod tests {
    use scsi::{LogicalUnitOptions, ProductIdentification};

    use super::super::reservation::KnownLun;
    use super::*;

    #[test]
    fn a_thick_lun_with_its_refreservation_needs_no_sync() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("volume");
        std::fs::write(&path, [0; 4096]).unwrap();
        let opened = volume::open(&path, volume::OpenOptions::default()).unwrap();
        let uuid = Uuid::from_u128(1);
        let options = LogicalUnitOptions {
            uuid: uuid.into_bytes(),
            product: ProductIdentification::new("ZVAAI", "", "1").unwrap(),
            read_only: false,
        };
        let unit = Arc::new(LogicalUnit::new(opened.volume, options).unwrap());
        let lun = serde_json::json!({"number": 0, "uuid": uuid, "path": path});
        let members = [(serde_json::from_value(lun).unwrap(), Arc::downgrade(&unit))];
        let mut known = Known::default();
        assert!(were_written(&known, &members));
        let mut of_lun = KnownLun::default();
        of_lun.covered = true;
        known.luns.insert(uuid, of_lun);
        assert!(!were_written(&known, &members));
    }
}
