// SPDX-License-Identifier: Apache-2.0
//! The `reservation` of a zvol: its used space plus the headroom for overwrites. Other writers of the pool cannot use it.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use scsi::LogicalUnit;
use uuid::Uuid;
use volume::zfs::{self, Dataset, ProgramError};
use volume::{Growth, Volume};

use super::policy;
use super::update::{Known, Terms};
use crate::configuration::Lun;
use crate::service::Shared;

/// Pause after a reservation could not be set.
const RETRY: Duration = Duration::from_secs(30);

/// State of a LUN between updates.
#[derive(Default)]
pub(super) struct KnownLun {
    volume: Option<Weak<dyn Volume>>,
    pub growth: Growth,
    /// The current limit of the volume.
    pub limit: Growth,
    /// Whether it is thick, and its `refreservation` has room for its data and metadata.
    pub covered: bool,
    /// The zvol whose `reservation` was set for this LUN.
    reserved_on: Option<String>,
    pub problem: Option<String>,
    failed: Option<Instant>,
}

impl KnownLun {
    /// Resets the state if the LUN is on another volume. [`release_unused`] releases the old reservation.
    pub fn follow(&mut self, volume: &Arc<dyn Volume>) {
        let address = |volume: *const dyn Volume| volume.cast::<()>();
        let known = self.volume.as_ref().map(|known| address(known.as_ptr()));
        if known != Some(address(Arc::as_ptr(volume))) {
            *self = Self {
                volume: Some(Arc::downgrade(volume)),
                reserved_on: self.reserved_on.take(),
                ..Self::default()
            };
        }
    }

    fn may_try(&self) -> bool {
        self.failed.is_none_or(|failed| failed.elapsed() >= RETRY)
    }

    /// Sets the reservation of the zvol, if it must change. Returns the reserved and unused bytes.
    pub async fn reserve(&mut self, terms: &Terms, lun: &Lun, dataset: &Dataset) -> u64 {
        let mut present = dataset.clone();
        let problem = self.set_reservation(terms, lun, &mut present).await.err();
        if problem.is_some() && problem != self.problem {
            tracing::warn!(dataset = dataset.name, problem, "space of a LUN");
        }
        self.problem = problem;
        present.reserved_bytes()
    }

    async fn set_reservation(
        &mut self,
        terms: &Terms,
        lun: &Lun,
        present: &mut Dataset,
    ) -> Result<(), String> {
        if !self.may_try() {
            return self.problem.clone().map_or(Ok(()), Err);
        }
        let headroom = terms.lun_headroom;
        let ends = terms.releases(lun);
        let desired = if ends {
            (present.reservation > 0).then_some(0)
        } else {
            let left = present.unreserved_bytes();
            policy::reservation(present, headroom, left.saturating_sub(terms.taken.get()))
        };
        self.reserved_on = Some(present.name.clone());
        if desired.is_some() && Instant::now() >= terms.until {
            terms.late.set(true);
            return self.problem.clone().map_or(Ok(()), Err);
        }
        if let Some(bytes) = desired {
            match set_reservation(&present.name, bytes).await {
                Ok(()) => {
                    let more = bytes.saturating_sub(present.reservation.max(present.used));
                    terms.taken.set(terms.taken.get().saturating_add(more));
                    present.reservation = bytes;
                    self.failed = None;
                }
                // Another writer took the space after the figures were read. The next update has new figures.
                Err(error) if error.is_no_space() => {}
                Err(error) => {
                    self.failed = Some(Instant::now());
                    return Err(format!("cannot reserve space for its overwrites: {error}"));
                }
            }
        }
        if ends {
            return Err(
                "no space is reserved for its overwrites: shared blocks exceed the free space of the pool. Add vdevs, or delete snapshots and volumes".into(),
            );
        }
        // The unused part of a `refreservation` is for new data.
        let held = present.reservation.saturating_sub(present.used);
        if held < headroom / 4 {
            return Err(format!(
                "only {held} of {headroom} bytes are reserved for its overwrites: the pool is full. Add vdevs, or delete snapshots and volumes"
            ));
        }
        Ok(())
    }
}

/// Sets `reservation` in bytes on a blocking thread; 0: none.
async fn set_reservation(dataset: &str, bytes: u64) -> Result<(), ProgramError> {
    let name = dataset.to_owned();
    let set = tokio::task::spawn_blocking(move || zfs::set(&name, "reservation", bytes)).await;
    set.unwrap_or_else(|error| {
        Err(ProgramError::NotRun {
            program: "zfs",
            error: std::io::Error::other(error),
        })
    })
}

/// Releases the reservations of LUNs of a pool that were deleted or moved to another zvol. After `until` the reservations of
/// deleted LUNs wait for the next call, and the result is false.
pub(super) async fn release_unused(
    service: &Shared,
    pool: &str,
    known: &mut Known,
    members: &[(Lun, Weak<LogicalUnit>)],
    until: Instant,
) -> bool {
    let (configured, elsewhere): (Vec<Uuid>, Vec<Uuid>) = {
        let service = service.borrow();
        let targets = service.configuration().targets.iter();
        let luns = targets.flat_map(|target| target.luns.iter());
        let others = service.space.luns.iter();
        let others = others.filter(|(_, space)| space.pool != pool);
        (
            luns.map(|lun| lun.uuid).collect(),
            others.map(|(uuid, _)| *uuid).collect(),
        )
    };
    let present: Vec<_> = members
        .iter()
        .filter_map(|(lun, unit)| Some((lun.uuid, unit.upgrade()?.volume().dataset())))
        .collect();
    let mut gone = Vec::new();
    let mut all_released = true;
    for (uuid, lun) in &mut known.luns {
        let member = present.iter().find(|(present, _)| present == uuid);
        let stays = match member {
            Some((_, dataset)) => lun.reserved_on.is_none() || lun.reserved_on == *dataset,
            // Its unit may not be ready now.
            None => configured.contains(uuid) && !elsewhere.contains(uuid),
        };
        if stays {
            continue;
        }
        // The zvol can belong to another LUN, or to this one under a new name.
        let zvol = lun.reserved_on.clone();
        let zvol = zvol.filter(|zvol| !present.iter().any(|(_, used)| used.as_ref() == Some(zvol)));
        if let Some(zvol) = zvol {
            if !lun.may_try() {
                continue;
            }
            if member.is_none() && Instant::now() >= until {
                all_released = false;
                continue;
            }
            match set_reservation(&zvol, 0).await {
                Err(error) if !error.is_absent() => {
                    tracing::warn!(dataset = zvol, %error, "cannot release the reservation of a LUN that no longer exists; trying again later");
                    lun.failed = Some(Instant::now());
                    continue;
                }
                _ => {}
            }
        }
        lun.reserved_on = None;
        if member.is_none() {
            gone.push(*uuid);
        }
    }
    for uuid in gone {
        known.luns.remove(&uuid);
        if !configured.contains(&uuid) {
            let space = &mut service.borrow_mut().space;
            space.luns.remove(&uuid);
            space.usage.remove(&uuid);
        }
    }
    all_released
}
