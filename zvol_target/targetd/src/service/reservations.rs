// SPDX-License-Identifier: Apache-2.0
//! Persistent reservations of logical units.

use std::io;
use std::path::Path;
use std::rc::Rc;

use scsi::{ClearReservationsError, PersistentReservations};
use uuid::Uuid;

use tokio::time::{Duration, Instant};

use super::maintenance::retry_lun;
use super::{CLOSING_TIMEOUT, Service, ServiceError, Shared, Unusable};
use crate::configuration::Invalid;
use crate::reservations::ReservationFile;

/// How long to wait for a path that is being opened.
const OPENING_PATIENCE: Duration = Duration::from_secs(5);

/// Poll interval for that.
const OPENING_POLL: Duration = Duration::from_millis(10);

impl Service {
    /// The registrations and the reservation of a logical unit.
    ///
    /// # Errors
    /// [`ServiceError::NoTarget`], [`ServiceError::NoLun`]; [`ServiceError::Unusable`] before the unit was first served, as they
    /// are unknown.
    pub fn reservations(
        &self,
        target: &str,
        number: u16,
    ) -> Result<PersistentReservations, ServiceError> {
        self.lun(target, number)?;
        let unit = self
            .running_lun(target, number)
            .map(|running| &running.unit);
        let known = unit.and_then(|unit| unit.persistent_reservations());
        known.ok_or_else(|| {
            let reason = "the reservations are unknown: the LUN has not been served yet";
            Unusable::Description(reason.to_owned()).into()
        })
    }
}

/// Stops retries of a logical unit's path until it is dropped.
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

/// Removes every registration and reservation of a logical unit, even if its file is missing or damaged. Then tries to serve the
/// unit.
///
/// # Errors
/// [`ServiceError::NoTarget`], [`ServiceError::NoLun`], [`ServiceError::ReservationsNotStored`], also if the pool hangs;
/// [`ServiceError::Busy`] while its path is being opened for too long.
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
    // An open that is running can have read them already.
    let held = HeldOff::new(service, target, number).await?;
    let clearing =
        tokio::time::timeout(CLOSING_TIMEOUT, device.device().clear_reservations(number));
    let cleared = clearing.await.unwrap_or_else(|_late| {
        let error = io::Error::from(io::ErrorKind::TimedOut);
        Err(ClearReservationsError::NotStored(error))
    });
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

/// Removes the reservation file of a deleted logical unit from `directory`. Returns whether it existed.
///
/// # Errors
/// [`ServiceError::Invalid`] while a LUN has this identity, or for a relative directory; [`ServiceError::Unusable`] if the file
/// cannot be removed, or its pool hangs.
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
    let exists = {
        let service = service.borrow();
        let mut luns = service
            .configuration
            .targets
            .iter()
            .flat_map(|target| &target.luns);
        luns.any(|lun| lun.uuid == uuid)
    };
    if exists {
        return refused("uuid", format!("the LUN {uuid} exists: delete it first"));
    }
    let file = ReservationFile::new(directory, scsi::naa(uuid.into_bytes()));
    let removing = tokio::task::spawn_blocking(move || file.remove());
    let Ok(removed) = tokio::time::timeout(CLOSING_TIMEOUT, removing).await else {
        let (path, seconds) = (directory.display(), CLOSING_TIMEOUT.as_secs());
        let reason = format!("{path}: nothing was removed in {seconds} s; is its pool suspended?");
        return Err(Unusable::Description(reason).into());
    };
    let removed = removed.map_err(|error| Unusable::Description(error.to_string()))?;
    Ok(removed.map_err(Unusable::from)?)
}
