// SPDX-License-Identifier: Apache-2.0
//! Creates, changes and deletes logical units.

use std::sync::Arc;
use std::time::{Duration, Instant};

use volume::RunningClones;

use super::place::Place;
use super::running::{Running, open_within};
use super::{Closing, LunState, RunningLun, Service, ServiceError, Shared, Unusable};
use super::{lun_of, maintenance, target_of};
use crate::configuration::{Configuration, Lun};
use crate::reservations::Beginning;

/// Time limit for the open of a path.
pub(super) const OPENING_TIMEOUT: Duration = Duration::from_secs(20);

/// Time limit for a read of the size.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit for running commands to end before a change.
pub const CLOSING_TIMEOUT: Duration = Duration::from_secs(20);

/// Adds a logical unit. Returns false if it exists with the same settings; a failed one is tried again then.
///
/// # Errors
/// [`ServiceError::NoTarget`], [`ServiceError::LunDiffers`], [`ServiceError::Invalid`], [`ServiceError::Unusable`],
/// [`ServiceError::NotStored`].
pub async fn create_lun(service: &Shared, target: &str, lun: &Lun) -> Result<bool, ServiceError> {
    let number = lun.number;
    let present = service.borrow().lun(target, number).ok().cloned();
    if let Some(present) = present {
        if present != *lun {
            return Err(ServiceError::LunDiffers {
                target: target.to_owned(),
                number,
            });
        }
        maintenance::retry_lun(service, target, number).await;
        return Ok(false);
    }
    let mut candidate = service.borrow().configuration.clone();
    let luns = &mut target_of(&mut candidate, target)?.luns;
    luns.push(lun.clone());
    luns.sort_unstable_by_key(|lun| lun.number);
    candidate.validate()?;
    let opened = open_within(lun, Instant::now(), OPENING_TIMEOUT, Beginning::New).await?;
    let mut service = service.borrow_mut();
    service.store(candidate)?;
    service.running_target(target)?.insert(lun, Ok(opened))?;
    service.units_changed.notify_one();
    Ok(true)
}

/// Changes a logical unit that can be in use, by its number, to `new`. Returns false if nothing differs.
///
/// Running commands end as they began. If the path must be opened again, hosts get NOT READY in the meantime.
///
/// # Errors
/// [`ServiceError::NoTarget`], [`ServiceError::NoLun`], [`ServiceError::Invalid`], [`ServiceError::Unusable`],
/// [`ServiceError::Busy`], [`ServiceError::NotStored`].
pub async fn change_lun(service: &Shared, target: &str, new: Lun) -> Result<bool, ServiceError> {
    let number = new.number;
    let old = service.borrow().lun(target, number)?.clone();
    if new == old {
        return Ok(false);
    }
    let mut candidate = service.borrow().configuration.clone();
    *lun_of(&mut candidate, target, number)? = new.clone();
    candidate.validate()?;
    let place = Place {
        service,
        target,
        number,
    };
    place.check_reservations(&old, &new)?;
    let stays_open = new.path == old.path || place.is_renamed_to(&new.path);
    if stays_open && new.guid != old.guid {
        place.check_identity(&new).await?;
    }
    let changes_kind = stays_open && new.provisioning != old.provisioning;
    let clones = if changes_kind {
        place.set_thick(&new)?
    } else {
        RunningClones::default()
    };
    let changed = exchange(&place, &old, &new, stays_open, candidate).await;
    if changed.is_err() && changes_kind {
        place.set_thick(&old)?;
    }
    let closing = changed?;
    place.set_access(&new)?;
    place.end_clones(clones).await?;
    // A count that began while clones still ran would miss shared blocks.
    service.borrow_mut().space.usage.remove(&new.uuid);
    closing.wait(CLOSING_TIMEOUT).await;
    Ok(true)
}

/// Replaces the present unit with the changed one, and stores the configuration. Returns what must close.
async fn exchange(
    place: &Place<'_>,
    old: &Lun,
    new: &Lun,
    stays_open: bool,
    candidate: Configuration,
) -> Result<Closing, ServiceError> {
    let moves = new.reservations != old.reservations;
    if !place.is_serving()? {
        place.store(candidate)?;
        // With the same reason as before; a new path is tried soon.
        place.exchange_failed(new)?;
        return Ok(Closing::default());
    }
    if !stays_open || moves || new.read_only != old.read_only {
        let mut is_closed = true;
        let opened = if stays_open || moves {
            place.reopen(old, new).await?
        } else {
            match open_within(new, Instant::now(), OPENING_TIMEOUT, Beginning::Present).await {
                // In use perhaps by this unit, under another name.
                Err(error) if error.is_in_use() => place.reopen(old, new).await?,
                opened => {
                    is_closed = false;
                    opened?
                }
            }
        };
        if let Err(error) = place.store(candidate) {
            drop(opened);
            if is_closed {
                place.fail(old, Unusable::Description(error.to_string()))?;
                maintenance::retry_lun(place.service, place.target, place.number).await;
            }
            return Err(error);
        }
        return place.exchange(opened.into());
    }
    place.store(candidate)?;
    // Running commands can continue: they have the old volume.
    place.exchange_options(new)?;
    Ok(Closing::default())
}

/// Checks the path of a logical unit: tries a failed one again, and reports a new size to hosts.
///
/// # Errors
/// [`ServiceError::NoTarget`], [`ServiceError::NoLun`]; [`ServiceError::Size`] if the size cannot be read,
/// [`ServiceError::Unusable`] if the system does not answer; then the old size is used.
pub async fn refresh_lun(service: &Shared, target: &str, number: u16) -> Result<(), ServiceError> {
    service.borrow().lun(target, number)?;
    maintenance::retry_changed_lun(service, target, number).await;
    let unit = match service.borrow().running_lun(target, number) {
        Some(RunningLun {
            unit,
            state: LunState::Serving { .. },
        }) => Arc::downgrade(unit),
        _ => return Ok(()),
    };
    let size = maintenance::refresh_within(service, target, number, &unit, REFRESH_TIMEOUT).await;
    let service = service.borrow();
    let size = size.ok_or_else(|| Unusable::Silent {
        path: service
            .lun(target, number)
            .map(|lun| lun.path.display().to_string())
            .unwrap_or_default(),
        seconds: REFRESH_TIMEOUT.as_secs(),
    })?;
    size.map_err(|error| ServiceError::Size {
        target: target.to_owned(),
        number,
        error,
    })?;
    if let Some(device) = service.device(target) {
        let _ = device.device().content_changed(number);
    }
    Ok(())
}

impl Service {
    /// Deletes a logical unit; its commands may still run.
    ///
    /// # Errors
    /// [`ServiceError::NoTarget`], [`ServiceError::NoLun`], [`ServiceError::NotStored`].
    pub fn delete_lun(&mut self, target: &str, number: u16) -> Result<Closing, ServiceError> {
        self.lun(target, number)?;
        let mut candidate = self.configuration.clone();
        let luns = &mut target_of(&mut candidate, target)?.luns;
        luns.retain(|lun| lun.number != number);
        self.store(candidate)?;
        let running = self.running_target(target)?;
        running.luns.remove(&number);
        let removed = running.device.device().remove_logical_unit(number);
        Ok(Closing::of(removed))
    }

    pub(super) fn running_target(&mut self, target: &str) -> Result<&mut Running, ServiceError> {
        self.running
            .get_mut(target)
            .ok_or_else(|| ServiceError::NoTarget(target.to_owned()))
    }
}
