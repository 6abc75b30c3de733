//! Gives back what was held for LUNs that are there no more.

use std::rc::Rc;
use std::sync::Weak;
use std::time::{Duration, Instant};

use scsi::LogicalUnit;
use uuid::Uuid;
use volume::zfs::{self, ProgramError};

use super::act::Known;
use super::keeper::{Keeper, find_places};
use super::look::Store;
use crate::configuration::Lun;
use crate::service::Shared;

/// How long the daemon's end waits for it.
const PATIENCE: Duration = Duration::from_secs(5);

/// Between two looks at whether a pool is worked on.
const POLL: Duration = Duration::from_millis(20);

/// Sets a property of a dataset, on a thread that may wait.
pub(super) async fn set(
    dataset: &str,
    property: &'static str,
    bytes: u64,
) -> Result<(), ProgramError> {
    let name = dataset.to_owned();
    let set = tokio::task::spawn_blocking(move || zfs::set(&name, property, bytes)).await;
    set.unwrap_or_else(|error| {
        Err(ProgramError::NotRun {
            program: "zfs",
            error: std::io::Error::other(error),
        })
    })
}

/// Gives back what is held in a store for LUNs that are configured no more, or are on another zvol now.
pub(super) async fn release_unused(
    service: &Shared,
    store: &Store,
    known: &mut Known,
    members: &[(Lun, Weak<LogicalUnit>)],
) {
    let (configured, served): (Vec<Uuid>, Vec<Uuid>) = {
        let service = service.borrow();
        let targets = service.configuration().targets.iter();
        let luns = targets.flat_map(|target| target.luns.iter());
        let configured = luns.map(|lun| lun.uuid).collect();
        let luns = service.space.luns.iter();
        // Served in another pool.
        let elsewhere = luns.filter(|(_, space)| space.pool != store.name());
        (configured, elsewhere.map(|(uuid, _)| *uuid).collect())
    };
    let present: Vec<_> = members
        .iter()
        .filter_map(|(lun, unit)| Some((lun.uuid, unit.upgrade()?.volume().dataset())))
        .collect();
    let now = Instant::now();
    let mut gone = Vec::new();
    for (uuid, of_lun) in &mut known.luns {
        let dataset = present.iter().find(|(present, _)| present == uuid);
        let stays = match dataset {
            Some((_, dataset)) => of_lun.holds.is_none() || of_lun.holds == *dataset,
            // Not ready now, perhaps.
            None => configured.contains(uuid) && !served.contains(uuid),
        };
        if stays {
            continue;
        }
        // Another LUN may be on it now, or this one under a new name.
        let held = of_lun.holds.clone();
        let held = held.filter(|held| !present.iter().any(|(_, used)| used.as_ref() == Some(held)));
        if let Some(held) = held {
            if !of_lun.backoff.is_over(now) {
                continue;
            }
            if let Err(error) = set(&held, "reservation", 0).await {
                if !error.is_absent() {
                    tracing::warn!(dataset = held, %error, "what was held for a LUN that is gone stays reserved for now");
                    of_lun.backoff.failed(now);
                    continue;
                }
            }
        }
        of_lun.holds = None;
        if let Some(ledger) = of_lun.ledger.as_ref().filter(|_| dataset.is_none()) {
            // Its `refreservation` stays as it is, with what it counts.
            ledger.end().await;
        }
        if dataset.is_none() {
            gone.push(*uuid);
        }
    }
    for uuid in gone {
        known.luns.remove(&uuid);
        if !configured.contains(&uuid) {
            service.borrow_mut().space.luns.remove(&uuid);
        }
    }
}

/// Before the daemon ends: gives back what was held for LUNs that were removed a moment ago.
pub async fn release(service: &Shared, keeper: &Keeper) {
    find_places(service, keeper);
    let all = async {
        let stores: Vec<_> = keeper.borrow().stores.keys().cloned().collect();
        for store in stores {
            while keeper
                .borrow()
                .stores
                .get(&store)
                .is_some_and(|known| known.busy)
            {
                tokio::time::sleep(POLL).await;
            }
            let known = keeper.borrow_mut().take_known(&store);
            if let Some(mut known) = known {
                let configured: Vec<_> = {
                    let service = Rc::clone(service);
                    let service = service.borrow();
                    let targets = service.configuration().targets.iter();
                    let luns = targets.flat_map(|target| target.luns.iter());
                    luns.map(|lun| lun.uuid).collect()
                };
                // Those that stay keep what they have.
                known.luns.retain(|uuid, _| !configured.contains(uuid));
                release_unused(service, &store, &mut known, &[]).await;
            }
        }
    };
    if tokio::time::timeout(PATIENCE, all).await.is_err() {
        tracing::warn!(
            "what was held for LUNs that were removed may stay reserved: a pool does not answer"
        );
    }
}
