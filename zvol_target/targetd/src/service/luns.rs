//! Logical units: bringing up, changing while in use, taking away.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use uuid::Uuid;
use volume::{CloneLedger, Volume};

use super::running::{Opened, Running, failed, open_within, unit_not_ready, unit_on};
use super::{Closing, LunState, RunningLun, Service, ServiceError, Shared, Unusable};
use super::{identity, lun_of, maintenance, target_of};
use crate::configuration::{
    Access, CachingChoice, Configuration, DatasetGuid, Invalid, Lun, ProvisioningChoice, Threshold,
};
use crate::reservations::Beginning;
use crate::space::{closed_ledger, make_thick};
use scsi::PersistentReservations;

/// How long a caller waits for the system to open a path.
const OPENING_TIMEOUT: Duration = Duration::from_secs(20);

/// How long a caller waits for the system to tell a size.
const LOOKING_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a change waits for the commands that are under way.
pub const CLOSING_TIMEOUT: Duration = Duration::from_secs(20);

/// Where persistent reservations that survive a loss of power are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReservationPlace {
    /// None survive.
    Nowhere,
    /// In a file there.
    Directory(PathBuf),
}

impl From<Option<PathBuf>> for ReservationPlace {
    fn from(directory: Option<PathBuf>) -> Self {
        directory.map_or(Self::Nowhere, Self::Directory)
    }
}

/// A setting that can be without a value.
#[derive(Clone, Copy, Debug, Default)]
pub enum Setting<T> {
    /// As before.
    #[default]
    Stays,
    /// Another one, or none.
    To(T),
}

impl<T> Setting<T> {
    fn or(self, before: T) -> T {
        match self {
            Self::Stays => before,
            Self::To(after) => after,
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Setting<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self::To)
    }
}

/// What is to be another than before; `None` stays.
#[derive(Clone, Debug, Default)]
pub struct LunChange {
    /// Regular file or block device.
    pub path: Option<PathBuf>,
    /// The dataset that the zvol there has to be.
    pub guid: Setting<Option<DatasetGuid>>,
    /// WCE.
    pub write_cache: Option<bool>,
    /// Refuse writes.
    pub read_only: Option<bool>,
    /// PRODUCT IDENTIFICATION.
    pub product: Option<String>,
    /// Whether the kernel's page cache is used.
    pub caching: Option<CachingChoice>,
    /// Whom it is there for.
    pub initiators: Option<Access>,
    /// Where persistent reservations are stored.
    pub reservations: Option<ReservationPlace>,
    /// How it gets its space.
    pub provisioning: Option<ProvisioningChoice>,
    /// When hosts are told that space gets short.
    pub soft_threshold: Setting<Option<Threshold>>,
    /// What is held for overwrites.
    pub slack_bytes: Setting<Option<u64>>,
}

impl LunChange {
    fn applied_to(self, lun: &Lun) -> Lun {
        let Lun {
            number,
            uuid,
            designation,
            path,
            guid,
            write_cache,
            read_only,
            product,
            caching,
            initiators,
            reservations,
            provisioning,
            soft_threshold,
            slack_bytes,
        } = lun.clone();
        Lun {
            number,
            uuid,
            designation,
            path: self.path.unwrap_or(path),
            guid: self.guid.or(guid),
            write_cache: self.write_cache.unwrap_or(write_cache),
            read_only: self.read_only.unwrap_or(read_only),
            product: self.product.unwrap_or(product),
            caching: self.caching.unwrap_or(caching),
            initiators: self.initiators.unwrap_or(initiators),
            reservations: match self.reservations {
                None => reservations,
                Some(ReservationPlace::Nowhere) => None,
                Some(ReservationPlace::Directory(path)) => Some(path),
            },
            provisioning: self.provisioning.unwrap_or(provisioning),
            soft_threshold: self.soft_threshold.or(soft_threshold),
            slack_bytes: self.slack_bytes.or(slack_bytes),
        }
    }
}

/// Adds a logical unit; false when it was there, with the same content, and then it is tried again if it had failed.
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
    let opened = open_within(lun, OPENING_TIMEOUT, Beginning::New).await?;
    require_reserved(&opened, lun).await?;
    let mut service = service.borrow_mut();
    service.store(candidate)?;
    service.running_target(target)?.insert(lun, Ok(opened))?;
    service.units_changed.notify_one();
    Ok(true)
}

/// Reserves the space of a LUN that is to be thick.
async fn require_reserved(opened: &Opened, lun: &Lun) -> Result<(), Unusable> {
    if lun.provisioning != ProvisioningChoice::Thick {
        return Ok(());
    }
    let volume = Arc::clone(opened.unit.volume());
    let slack_bytes = lun.slack_bytes;
    let reserved = tokio::task::spawn_blocking(move || make_thick(&*volume, slack_bytes)).await;
    let reserved = reserved.map_err(|error| Unusable::Description(error.to_string()))?;
    reserved.map_err(|error| Unusable::Thick {
        path: lun.path.display().to_string(),
        error,
    })
}

/// A LUN that is being made thick. Its ledger is closed, so that all that it shares is counted; it is the keeper's again at the end.
struct BecomingThick {
    service: Shared,
    uuid: Uuid,
    volume: Arc<dyn Volume>,
    before: Option<Arc<dyn CloneLedger>>,
}

impl BecomingThick {
    fn new(service: &Shared, lun: &Lun, volume: Arc<dyn Volume>) -> Self {
        service.borrow_mut().space.becoming_thick.insert(lun.uuid);
        let before = volume.clone_ledger();
        volume.set_clone_ledger(Some(closed_ledger()));
        Self {
            service: Rc::clone(service),
            uuid: lun.uuid,
            volume,
            before,
        }
    }
}

impl Drop for BecomingThick {
    fn drop(&mut self) {
        let Ok(mut service) = self.service.try_borrow_mut() else {
            tracing::error!("a LUN that became thick is not cloned into before it is served anew");
            return;
        };
        service.space.becoming_thick.remove(&self.uuid);
        let mut luns = service.configuration.targets.iter();
        let is_thick = luns.any(|target| {
            let is_it =
                |lun: &Lun| lun.uuid == self.uuid && lun.provisioning == ProvisioningChoice::Thick;
            target.luns.iter().any(is_it)
        });
        if !is_thick {
            // It was refused.
            self.volume.set_clone_ledger(self.before.take());
        }
    }
}

/// Changes a logical unit that may be in use; false when nothing is another than before.
///
/// Commands under way run to their end as they began. Where the path has to be opened again, hosts find the unit not ready
/// meanwhile.
///
/// # Errors
/// [`ServiceError::NoTarget`], [`ServiceError::NoLun`], [`ServiceError::Invalid`], [`ServiceError::Unusable`],
/// [`ServiceError::Busy`], [`ServiceError::NotFlushed`] and [`ServiceError::StillCaching`] (the change is then made),
/// [`ServiceError::NotStored`].
pub async fn change_lun(
    service: &Shared,
    target: &str,
    number: u16,
    change: LunChange,
) -> Result<bool, ServiceError> {
    let old = service.borrow().lun(target, number)?.clone();
    let new = change.applied_to(&old);
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
    place.check_reservations(&new)?;
    if new.path == old.path && new.guid != old.guid {
        place.check_identity(&new).await?;
    }
    let _becoming_thick = if new.path == old.path && new.provisioning != old.provisioning {
        place.require_reserved(&new).await?
    } else {
        None
    };
    let reopen = |lun: &Lun| {
        let reservations = lun.reservations.clone();
        (lun.path.clone(), lun.read_only, lun.caching, reservations)
    };
    let cache_ends = old.write_cache && !new.write_cache;
    let closing = if !place.is_serving()? {
        place.store(candidate)?;
        // With the reason it had; the new path, if there is one, is tried soon.
        place.exchange_failed(&new)?;
        Closing::default()
    } else if reopen(&new) != reopen(&old) {
        let mut is_closed = true;
        let opened = if new.path == old.path || new.reservations != old.reservations {
            place.reopen(&old, &new).await?
        } else {
            match open_within(&new, OPENING_TIMEOUT, Beginning::Present).await {
                // By this very unit, perhaps, after its volume was renamed.
                Err(error) if error.is_in_use() => place.reopen(&old, &new).await?,
                opened => {
                    is_closed = false;
                    opened?
                }
            }
        };
        let reserved = if new.path == old.path {
            Ok(())
        } else {
            require_reserved(&opened, &new).await.map_err(Into::into)
        };
        if let Err(error) = reserved.and_then(|()| place.store(candidate)) {
            drop(opened);
            if is_closed {
                place.fail(&old, Unusable::Description(error.to_string()))?;
                maintenance::retry_lun(service, target, number).await;
            }
            return Err(error);
        }
        place.exchange(opened.into())?
    } else {
        place.store(candidate)?;
        let closing = place.exchange_options(&new)?;
        // Others may run on: they have the volume they began with.
        if cache_ends {
            closing
        } else {
            Closing::default()
        }
    };
    place.set_access(&new)?;
    // What began with the write cache may use it to its end.
    let ended = closing.wait(CLOSING_TIMEOUT).await;
    if cache_ends {
        place.flush().await?;
        if !ended {
            return Err(ServiceError::StillCaching {
                target: target.to_owned(),
                number,
            });
        }
    }
    Ok(true)
}

/// Looks at a logical unit's path again: a failed one is tried again, a new size is taken and hosts are told.
///
/// # Errors
/// [`ServiceError::NoTarget`], [`ServiceError::NoLun`]; [`ServiceError::Size`] when its size cannot be read,
/// [`ServiceError::Unusable`] when the system does not answer, and the one known before stays.
pub async fn refresh_lun(service: &Shared, target: &str, number: u16) -> Result<(), ServiceError> {
    service.borrow().lun(target, number)?;
    maintenance::retry_lun(service, target, number).await;
    let unit = match service.borrow().running_lun(target, number) {
        Some(RunningLun {
            unit,
            state: LunState::Serving { .. },
        }) => Arc::downgrade(unit),
        _ => return Ok(()),
    };
    let found = maintenance::look_within(service, target, number, &unit, LOOKING_TIMEOUT).await;
    let service = service.borrow();
    let found = found.ok_or_else(|| Unusable::Silent {
        path: service
            .lun(target, number)
            .map(|lun| lun.path.display().to_string())
            .unwrap_or_default(),
        seconds: LOOKING_TIMEOUT.as_secs(),
    })?;
    found.map_err(|error| ServiceError::Size {
        target: target.to_owned(),
        number,
        error,
    })?;
    if let Some(device) = service.device(target) {
        let _ = device.device().capacity_changed(number);
    }
    Ok(())
}

impl Service {
    /// Removes a logical unit; commands it has may still run.
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

/// A logical unit under change.
struct Place<'a> {
    service: &'a Shared,
    target: &'a str,
    number: u16,
}

impl Place<'_> {
    fn absent(&self) -> ServiceError {
        ServiceError::NoLun {
            target: self.target.to_owned(),
            number: self.number,
        }
    }

    fn is_serving(&self) -> Result<bool, ServiceError> {
        let service = self.service.borrow();
        let lun = service.running_lun(self.target, self.number);
        let lun = lun.ok_or_else(|| self.absent())?;
        Ok(matches!(lun.state, LunState::Serving { .. }))
    }

    /// What has to survive a loss of power now; nothing where that is not known.
    fn reservations_to_persist(&self) -> PersistentReservations {
        let service = self.service.borrow();
        let running = service.running_lun(self.target, self.number);
        running
            .and_then(|running| running.unit.reservations_to_persist())
            .unwrap_or_default()
    }

    /// Refuses to leave what has to survive a loss of power without a place.
    fn check_reservations(&self, new: &Lun) -> Result<(), ServiceError> {
        let nothing = PersistentReservations::default();
        if new.reservations.is_none() && self.reservations_to_persist() != nothing {
            let reason = "hosts rely on reservations that survive a loss of power: have them removed first (reservations.list)";
            return Err(Invalid {
                place: "reservations".to_owned(),
                reason: reason.to_owned(),
            }
            .into());
        }
        Ok(())
    }

    /// Refuses a GUID that the volume which is served has not; one that is not served is looked at when it is.
    async fn check_identity(&self, lun: &Lun) -> Result<(), ServiceError> {
        let Some(wanted) = lun.guid else {
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
            tokio::task::spawn_blocking(move || identity::check(&*volume, &path, wanted)).await;
        let checked = checked.map_err(|error| Unusable::Description(error.to_string()))?;
        Ok(checked.map_err(Unusable::from)?)
    }

    /// [`require_reserved`] of the unit that is served; one that is not comes to it when it is. Its ledger is closed meanwhile, and stays
    /// so until what this gives is dropped.
    async fn require_reserved(&self, lun: &Lun) -> Result<Option<BecomingThick>, ServiceError> {
        if lun.provisioning != ProvisioningChoice::Thick {
            return Ok(None);
        }
        let opened = {
            let service = self.service.borrow();
            match service.running_lun(self.target, self.number) {
                Some(RunningLun {
                    unit,
                    state: LunState::Serving { backend },
                }) => Opened {
                    unit: Arc::clone(unit),
                    backend: *backend,
                },
                _ => return Ok(None),
            }
        };
        let becoming = BecomingThick::new(self.service, lun, Arc::clone(opened.unit.volume()));
        require_reserved(&opened, lun).await?;
        Ok(Some(becoming))
    }

    fn store(&self, candidate: Configuration) -> Result<(), ServiceError> {
        self.service.borrow_mut().store(candidate)
    }

    fn exchange(&self, running: RunningLun) -> Result<Closing, ServiceError> {
        let mut service = self.service.borrow_mut();
        let target = service.running_target(self.target)?;
        let closing = target.replace(self.number, running)?;
        service.units_changed.notify_one();
        Ok(closing)
    }

    fn fail(&self, lun: &Lun, reason: Unusable) -> Result<Closing, ServiceError> {
        self.exchange(failed(lun, reason)?)
    }

    /// Another unit without a volume in the place of one.
    fn exchange_failed(&self, new: &Lun) -> Result<(), ServiceError> {
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

    /// Another unit on the same volume; what is over when the commands of the one before are.
    fn exchange_options(&self, new: &Lun) -> Result<Closing, ServiceError> {
        let (volume, backend, closing, store, provisioning) = {
            let service = self.service.borrow();
            let present = service.running_lun(self.target, self.number);
            match present {
                Some(RunningLun {
                    unit,
                    state: LunState::Serving { backend },
                }) => {
                    let closing = Closing::of_commands(unit);
                    let store = unit.reservation_store().cloned();
                    let volume = Arc::clone(unit.volume());
                    (volume, *backend, closing, store, unit.provisioning())
                }
                _ => return Err(self.absent()),
            }
        };
        // The unit goes on with those of the one before.
        let reservations = store.map(|store| (store, PersistentReservations::default()));
        let unit = unit_on(volume, new, reservations)?;
        // Another only when it is.
        unit.set_provisioning(provisioning);
        self.exchange(Opened { unit, backend }.into())?;
        Ok(closing)
    }

    /// Closes the path of a unit and opens it as `new` has it. On an error the unit is as it was, or tries to be.
    async fn reopen(&self, old: &Lun, new: &Lun) -> Result<Opened, ServiceError> {
        let closing = self.exchange(RunningLun {
            unit: Arc::new(unit_not_ready(old)?),
            state: LunState::Changing,
        })?;
        let error = if closing.wait(CLOSING_TIMEOUT).await {
            let beginning = if new.reservations == old.reservations {
                Beginning::Present
            } else {
                // No command changes them any more.
                Beginning::Moved(self.reservations_to_persist())
            };
            match open_within(new, OPENING_TIMEOUT, beginning).await {
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

    fn set_access(&self, lun: &Lun) -> Result<(), ServiceError> {
        let service = self.service.borrow();
        let device = service.device(self.target).ok_or_else(|| self.absent())?;
        let access = super::definition::unit_access(&lun.initiators);
        let set = device.device().set_access(self.number, access);
        Ok(set.map_err(Unusable::from)?)
    }

    /// Makes stable what was cached.
    async fn flush(&self) -> Result<(), ServiceError> {
        let unit = {
            let service = self.service.borrow();
            let present = service.running_lun(self.target, self.number);
            Arc::clone(&present.ok_or_else(|| self.absent())?.unit)
        };
        if !unit.is_ready() {
            return Ok(());
        }
        let flushed = unit.volume().flush().await;
        flushed.map_err(|error| ServiceError::NotFlushed {
            target: self.target.to_owned(),
            number: self.number,
            error,
        })
    }
}
