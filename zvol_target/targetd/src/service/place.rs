// SPDX-License-Identifier: Apache-2.0
//! Changes the running unit at a LUN's number.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use scsi::PersistentReservations;
use volume::RunningClones;

use super::luns::{CLOSING_TIMEOUT, OPENING_TIMEOUT};
use super::running::{Opened, failed, open_within, require_zvol, unit_not_ready, unit_on};
use super::{Closing, LunState, RunningLun, ServiceError, Shared, Unusable, identity, maintenance};
use crate::configuration::{Configuration, Invalid, Lun, ProvisioningChoice};
use crate::reservations::Beginning;

/// Poll interval for the end of clones.
const CLONES_POLL: Duration = Duration::from_millis(2);

/// How long a path may still be in use after it was closed: by a kernel thread of `io_uring`, or a child process before its exec.
const RELEASE_PATIENCE: Duration = Duration::from_secs(3);

/// The number of a logical unit that is being changed.
pub(super) struct Place<'a> {
    pub(super) service: &'a Shared,
    pub(super) target: &'a str,
    pub(super) number: u16,
}

impl Place<'_> {
    fn absent(&self) -> ServiceError {
        ServiceError::NoLun {
            target: self.target.to_owned(),
            number: self.number,
        }
    }

    pub(super) fn is_serving(&self) -> Result<bool, ServiceError> {
        let service = self.service.borrow();
        let lun = service.running_lun(self.target, self.number);
        let lun = lun.ok_or_else(|| self.absent())?;
        Ok(matches!(lun.state, LunState::Serving { .. }))
    }

    /// Registrations and reservation; none if they are unknown.
    fn persistent_reservations(&self) -> PersistentReservations {
        let service = self.service.borrow();
        let running = service.running_lun(self.target, self.number);
        running
            .and_then(|running| running.unit.persistent_reservations())
            .unwrap_or_default()
    }

    /// Refuses to remove the directory of reservations that exist or are unknown.
    pub(super) fn check_reservations(&self, old: &Lun, new: &Lun) -> Result<(), ServiceError> {
        if old.reservations.is_none() || new.reservations.is_some() {
            return Ok(());
        }
        let reason = if !self.is_serving()? {
            "the LUN is not served, so its stored reservations are unknown: wait until it is served, or set another directory"
        } else if self.persistent_reservations() != PersistentReservations::default() {
            "hosts rely on reservations that survive a restart: remove them first (reservations.clear)"
        } else {
            return Ok(());
        };
        Err(Invalid {
            place: "reservations".to_owned(),
            reason: reason.to_owned(),
        }
        .into())
    }

    /// Whether the path is that of the served zvol, which was renamed while it is open.
    pub(super) fn is_renamed_to(&self, path: &Path) -> bool {
        let service = self.service.borrow();
        let running = service.running_lun(self.target, self.number);
        let served = running.filter(|running| matches!(running.state, LunState::Serving { .. }));
        served
            .and_then(|running| running.unit.volume().dataset())
            .is_some_and(|dataset| path == volume::zfs::link_of(&dataset))
    }

    /// Refuses a GUID that the served volume does not have. A unit that is not served is checked when it is opened.
    pub(super) async fn check_identity(&self, lun: &Lun) -> Result<(), ServiceError> {
        let Some(expected) = lun.guid else {
            return Ok(());
        };
        let volume = {
            let service = self.service.borrow();
            match service.running_lun(self.target, self.number) {
                Some(RunningLun {
                    unit,
                    state: LunState::Serving { .. },
                }) => Arc::clone(unit.volume()),
                _ => return Ok(()),
            }
        };
        let path = lun.path.clone();
        let checked =
            tokio::task::spawn_blocking(move || identity::check(&*volume, &path, expected)).await;
        let checked = checked.map_err(|error| Unusable::Description(error.to_string()))?;
        Ok(checked.map_err(Unusable::from)?)
    }

    /// Makes the served volume thick or thin. A running copy shares no blocks of a thick volume from its next step on; the result
    /// are the earlier steps. Does nothing if no volume is served.
    pub(super) fn set_thick(&self, lun: &Lun) -> Result<RunningClones, ServiceError> {
        let service = self.service.borrow();
        match service.running_lun(self.target, self.number) {
            Some(RunningLun {
                unit,
                state: LunState::Serving { .. },
            }) => {
                require_zvol(&**unit.volume(), lun)?;
                let thick = lun.provisioning == ProvisioningChoice::Thick;
                Ok(unit.volume().set_thick(thick))
            }
            _ => Ok(RunningClones::default()),
        }
    }

    /// Waits for the end of clones.
    pub(super) async fn end_clones(&self, clones: RunningClones) -> Result<(), ServiceError> {
        let until = tokio::time::Instant::now() + CLOSING_TIMEOUT;
        while !clones.is_over() {
            if tokio::time::Instant::now() >= until {
                return Err(ServiceError::StillSharing {
                    target: self.target.to_owned(),
                    number: self.number,
                });
            }
            tokio::time::sleep(CLONES_POLL).await;
        }
        Ok(())
    }

    pub(super) fn store(&self, candidate: Configuration) -> Result<(), ServiceError> {
        self.service.borrow_mut().store(candidate)
    }

    pub(super) fn exchange(&self, running: RunningLun) -> Result<Closing, ServiceError> {
        let mut service = self.service.borrow_mut();
        let target = service.running_target(self.target)?;
        let closing = target.replace(self.number, running)?;
        service.units_changed.notify_one();
        Ok(closing)
    }

    pub(super) fn fail(&self, lun: &Lun, reason: Unusable) -> Result<Closing, ServiceError> {
        self.exchange(failed(lun, reason)?)
    }

    /// Replaces the unit with one without a volume.
    pub(super) fn exchange_failed(&self, new: &Lun) -> Result<(), ServiceError> {
        let state = {
            let mut service = self.service.borrow_mut();
            let luns = &mut service.running_target(self.target)?.luns;
            let present = luns.remove(&self.number).ok_or_else(|| self.absent())?;
            present.state
        };
        let unit = Arc::new(unit_not_ready(new)?);
        self.exchange(RunningLun { unit, state })?;
        Ok(())
    }

    /// Replaces the unit with another one on the same volume.
    pub(super) fn exchange_options(&self, new: &Lun) -> Result<(), ServiceError> {
        let (volume, backend, store) = {
            let service = self.service.borrow();
            let present = service.running_lun(self.target, self.number);
            match present {
                Some(RunningLun {
                    unit,
                    state: LunState::Serving { backend },
                }) => {
                    let store = unit.reservation_store().cloned();
                    let volume = Arc::clone(unit.volume());
                    (volume, *backend, store)
                }
                _ => return Err(self.absent()),
            }
        };
        // The new unit takes over the reservations of the old one.
        let reservations = store.map(|store| (store, PersistentReservations::default()));
        let unit = unit_on(volume, new, reservations)?;
        self.exchange(Opened { unit, backend }.into())?;
        Ok(())
    }

    /// Closes the path of a unit, and opens it with the settings of `new`. After an error, the old unit is restored or retried.
    pub(super) async fn reopen(&self, old: &Lun, new: &Lun) -> Result<Opened, ServiceError> {
        let closing = self.exchange(RunningLun {
            unit: Arc::new(unit_not_ready(old)?),
            state: LunState::Changing,
        })?;
        let error = if closing.wait(CLOSING_TIMEOUT).await {
            let beginning = if new.reservations == old.reservations {
                Beginning::Present
            } else {
                // No command can change them from now on.
                Beginning::Moved(self.persistent_reservations())
            };
            let release = Instant::now() + RELEASE_PATIENCE;
            match open_within(new, release, OPENING_TIMEOUT, beginning).await {
                Ok(opened) => return Ok(opened),
                Err(error) => error.into(),
            }
        } else {
            ServiceError::Busy {
                target: self.target.to_owned(),
                number: self.number,
            }
        };
        self.fail(old, Unusable::Description(error.to_string()))?;
        maintenance::retry_lun(self.service, self.target, self.number).await;
        Err(error)
    }

    pub(super) fn set_access(&self, lun: &Lun) -> Result<(), ServiceError> {
        let service = self.service.borrow();
        let device = service.device(self.target).ok_or_else(|| self.absent())?;
        let access = super::definition::unit_access(&lun.initiators);
        let set = device.device().set_access(self.number, access);
        Ok(set.map_err(Unusable::from)?)
    }
}
