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
/// [`ServiceError::NoTarget`], [`ServiceError::NoLun`], [`ServiceError::ReservationsNotStored`];
/// [`ServiceError::Busy`] while its path is being opened, or an earlier call runs, for too long.
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
    // It runs to its end, also after the time limit: until then nothing else may read or replace the file.
    let clearing = tokio::task::spawn_local(async move {
        let cleared = device.device().clear_reservations(number).await;
        if let Err(error) = &cleared {
            tracing::warn!(number, %error, "the reservations of a LUN were not cleared");
        }
        drop(held);
        cleared
    });
    let cleared = match tokio::time::timeout(CLOSING_TIMEOUT, clearing).await {
        Ok(ended) => ended.unwrap_or_else(|error| Err(io::Error::from(error).into())),
        Err(_late) => {
            let seconds = CLOSING_TIMEOUT.as_secs();
            let reason = format!(
                "its pool has not answered for {seconds} s, and may still remove them; is it suspended?"
            );
            Err(io::Error::new(io::ErrorKind::TimedOut, reason).into())
        }
    };
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use scsi::ReservationStore;
    use scsi::sam::LocalBoxFuture;
    use tokio::sync::Notify;
    use volume::Backend;

    use super::super::maintenance::tests::{IQN, runtime, service, set_len};
    use super::super::running::{Opened, unit_on};
    use super::*;

    /// Stores nothing until it is notified.
    #[derive(Debug, Default)]
    struct Hanging {
        answers: Notify,
        stored: AtomicUsize,
    }

    impl ReservationStore for Hanging {
        fn store(&self, _: PersistentReservations) -> LocalBoxFuture<'_, io::Result<()>> {
            Box::pin(async {
                self.answers.notified().await;
                self.stored.fetch_add(1, Ordering::SeqCst);
                Ok(())
            })
        }
    }

    #[test]
    fn a_clear_that_hangs_keeps_others_away_until_it_ends() {
        let home = tempfile::tempdir().unwrap();
        runtime().block_on(async {
            set_len(&home.path().join("0"), 1);
            let service = service(home.path(), None).await;
            let store = Arc::new(Hanging::default());
            {
                let mut service = service.borrow_mut();
                let lun = service.lun(IQN, 0).unwrap().clone();
                let volume = Arc::clone(service.running_lun(IQN, 0).unwrap().unit.volume());
                let reservations = (Arc::clone(&store) as _, PersistentReservations::default());
                let unit = unit_on(volume, &lun, Some(reservations)).unwrap();
                let backend = Backend::File;
                let running = service.running_target(IQN).unwrap();
                let opened = Opened { unit, backend };
                running.replace(0, opened.into()).unwrap();
            }
            tokio::time::pause();
            let clear = || clear_reservations(&service, IQN, 0);
            let late = clear().await.unwrap_err().to_string();
            assert!(late.contains("may still remove them"), "{late}");
            let second = clear().await;
            assert!(
                matches!(second, Err(ServiceError::Busy { .. })),
                "{second:?}"
            );
            // One for the first, which still runs, and one for the next.
            store.answers.notify_one();
            store.answers.notify_one();
            clear().await.unwrap();
            assert_eq!(store.stored.load(Ordering::SeqCst), 2);
            assert!(service.borrow_mut().stop().0);
        });
    }
}
