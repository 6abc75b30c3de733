// SPDX-License-Identifier: Apache-2.0
//! Persistent reservations of logical units.

use std::rc::Rc;

use std::path::Path;

use scsi::{ClearReservationsError, PersistentReservations};
use uuid::Uuid;

use tokio::time::{Duration, Instant};

use super::maintenance::retry_lun;
use super::{Service, ServiceError, Shared, Unusable};
use crate::configuration::Invalid;
use crate::reservations::ReservationFile;

/// How long a path that is being opened is waited for.
const OPENING_PATIENCE: Duration = Duration::from_secs(5);

/// Between two checks whether it is.
const OPENING_POLL: Duration = Duration::from_millis(10);

impl Service {
    /// The registrations and the reservation of a logical unit, and what of them is stored.
    ///
    /// # Errors
    /// [`ServiceError::NoTarget`], [`ServiceError::NoLun`]; [`ServiceError::Unusable`] while it is not known, as the unit was never
    /// served.
    pub fn reservations(
        &self,
        target: &str,
        number: u16,
    ) -> Result<(PersistentReservations, PersistentReservations), ServiceError> {
        self.lun(target, number)?;
        let unit = self
            .running_lun(target, number)
            .map(|running| &running.unit);
        let known = unit.and_then(|unit| {
            let present = unit.persistent_reservations()?;
            Some((present, unit.reservations_to_persist()?))
        });
        known.ok_or_else(|| {
            let reason = "what is reserved is not known: the LUN has not been served yet";
            Unusable::Description(reason.to_owned()).into()
        })
    }
}

/// A logical unit whose path nobody tries again before this is dropped.
struct HeldOff {
    service: Shared,
    target: String,
    number: u16,
}

impl HeldOff {
    async fn new(service: &Shared, target: &str, number: u16) -> Result<Self, ServiceError> {
        let until = Instant::now() + OPENING_PATIENCE;
        loop {
            if service
                .borrow_mut()
                .running_target(target)?
                .opening
                .insert(number)
            {
                return Ok(Self {
                    service: Rc::clone(service),
                    target: target.to_owned(),
                    number,
                });
            }
            if Instant::now() >= until {
                return Err(ServiceError::Busy {
                    target: target.to_owned(),
                    number,
                });
            }
            tokio::time::sleep(OPENING_POLL).await;
        }
    }
}

impl Drop for HeldOff {
    fn drop(&mut self) {
        if let Ok(running) = self.service.borrow_mut().running_target(&self.target) {
            running.opening.remove(&self.number);
        }
    }
}

/// Removes every registration and reservation of a logical unit, also where its file is missing or damaged; it is then tried again.
///
/// # Errors
/// [`ServiceError::NoTarget`], [`ServiceError::NoLun`], [`ServiceError::ReservationsNotStored`]; [`ServiceError::Busy`] while its path
/// is being opened and that takes long.
pub async fn clear_reservations(
    service: &Shared,
    target: &str,
    number: u16,
) -> Result<(), ServiceError> {
    let absent = || ServiceError::NoLun {
        target: target.to_owned(),
        number,
    };
    let device = {
        let service = service.borrow();
        service.lun(target, number)?;
        service.device(target).cloned().ok_or_else(absent)?
    };
    // What is opened at this moment may have read them before.
    let held = HeldOff::new(service, target, number).await?;
    let cleared = device.device().clear_reservations(number).await;
    drop(held);
    cleared.map_err(|error| match error {
        ClearReservationsError::NotStored(error) => ServiceError::ReservationsNotStored {
            target: target.to_owned(),
            number,
            error,
        },
        _ => absent(),
    })?;
    retry_lun(service, target, number).await;
    Ok(())
}

/// Removes from `directory` what a logical unit left there that is gone for good; whether there was anything.
///
/// # Errors
/// [`ServiceError::Invalid`] while a LUN has the identity, or for a directory that is not absolute; [`ServiceError::Unusable`] when the
/// file cannot be removed.
pub async fn forget_reservations(
    service: &Shared,
    directory: &Path,
    uuid: Uuid,
) -> Result<bool, ServiceError> {
    let refused = |place: &str, reason: String| {
        let place = place.to_owned();
        Err(Invalid { place, reason }.into())
    };
    if !directory.is_absolute() {
        return refused("directory", "must be absolute".to_owned());
    }
    let is_there = {
        let service = service.borrow();
        let mut luns = service
            .configuration
            .targets
            .iter()
            .flat_map(|target| &target.luns);
        luns.any(|lun| lun.uuid == uuid)
    };
    if is_there {
        return refused(
            "uuid",
            format!("{uuid} is a LUN that is there: delete it first"),
        );
    }
    let file = ReservationFile::new(directory, scsi::naa(uuid.into_bytes()));
    let removed = tokio::task::spawn_blocking(move || file.remove()).await;
    let removed = removed.map_err(|error| Unusable::Description(error.to_string()))?;
    Ok(removed.map_err(Unusable::from)?)
}
