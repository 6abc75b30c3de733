// SPDX-License-Identifier: Apache-2.0
//! Targets that run: their devices, and the state of each logical unit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use scsi::{
    CopyManager, Device, InventoryError, LogicalUnit, LogicalUnitOptions, PersistentReservations,
    ProductIdentification, ReservationStore,
};
use volume::engine::EngineChoice;
use volume::{Backend, OpenOptions, Problem, Volume};

use super::definition::unit_access;
use super::identity::{self, IdentityError};
use crate::configuration::{DatasetGuid, Lun, ProvisioningChoice};
use crate::reactor_device::ReactorDevice;
use crate::reservations::{Beginning, ReservationFile, ReservationFileError};

/// T10 VENDOR IDENTIFICATION of everything served.
const VENDOR: &str = "ZVAAI";

/// PRODUCT REVISION LEVEL, four characters at most.
const REVISION: &str = concat!(
    env!("CARGO_PKG_VERSION_MAJOR"),
    ".",
    env!("CARGO_PKG_VERSION_MINOR")
);

/// Between two checks of a path that another process still has.
const RELEASE_POLL: Duration = Duration::from_millis(20);

/// Why a path cannot be served as a logical unit.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unusable {
    /// It cannot be opened.
    #[error(transparent)]
    Open(#[from] volume::OpenError),
    /// It is not the dataset that is meant, or not known to be.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// SCSI has no form for its geometry.
    #[error("{path}: {error}")]
    Geometry {
        /// The path.
        path: String,
        /// What is wrong.
        #[source]
        error: scsi::LogicalUnitError,
    },
    /// It was open, and is gone.
    #[error("{path}: its device or file is gone ({reason}); bring it back")]
    Gone {
        /// The path.
        path: String,
        /// How that showed.
        reason: String,
    },
    /// Opening it takes longer than anybody should wait.
    #[error("{path}: the system has not opened it for {seconds} s; is its pool suspended?")]
    Slow {
        /// The path.
        path: String,
        /// How long it was waited for.
        seconds: u64,
    },
    /// What is reserved on it is not known.
    #[error(transparent)]
    Reservations(#[from] ReservationFileError),
    /// A check of its size takes longer than anybody should wait.
    #[error("{path}: the system has not reported its size for {seconds} s; is its pool suspended?")]
    Silent {
        /// The path.
        path: String,
        /// How long it was waited for.
        seconds: u64,
    },
    /// It should be thick, and is no zvol.
    #[error("{path}: only a zvol can be thick; make the LUN thin, or serve a zvol")]
    Thick {
        /// The path.
        path: String,
    },
    /// The number or product cannot be used.
    #[error("{0}")]
    Description(String),
}

impl Unusable {
    pub(super) fn is_in_use(&self) -> bool {
        matches!(self, Self::Open(error) if matches!(error.problem, Problem::InUse))
    }

    /// The GUID of the dataset that was found instead of the one that is meant.
    pub fn other_dataset(&self) -> Option<DatasetGuid> {
        match self {
            Self::Identity(IdentityError::Other { found, .. }) => Some(*found),
            _ => None,
        }
    }
}

impl From<InventoryError> for Unusable {
    fn from(error: InventoryError) -> Self {
        Self::Description(error.to_string())
    }
}

/// State of a configured logical unit.
#[derive(Debug)]
pub enum LunState {
    /// Hosts can use it.
    Serving {
        /// What its path was found to be.
        backend: Backend,
    },
    /// Hosts find it not ready. Its path is tried again and again.
    Failed {
        /// Why.
        reason: Unusable,
    },
    /// Hosts find it not ready while its path is opened in another way.
    Changing,
}

/// A logical unit that runs.
pub struct RunningLun {
    /// The unit; one without a volume unless the state is [`LunState::Serving`].
    pub unit: Arc<LogicalUnit>,
    /// How it is.
    pub state: LunState,
}

/// A logical unit on its volume, not yet served.
pub(super) struct Opened {
    pub unit: Arc<LogicalUnit>,
    pub backend: Backend,
}

impl From<Opened> for RunningLun {
    fn from(opened: Opened) -> Self {
        Self {
            unit: opened.unit,
            state: LunState::Serving {
                backend: opened.backend,
            },
        }
    }
}

/// A target that runs.
pub(super) struct Running {
    pub device: Arc<ReactorDevice>,
    pub luns: BTreeMap<u16, RunningLun>,
    /// Logical units whose path is being opened at this moment.
    pub opening: BTreeSet<u16>,
    /// Logical units whose size is being checked at this moment.
    pub refreshing: BTreeMap<u16, Weak<LogicalUnit>>,
}

impl Running {
    pub fn empty(engine: EngineChoice, copy_manager: &Arc<CopyManager>) -> Result<Self, Unusable> {
        let device = Device::new(product(VENDOR, "")?);
        Ok(Self {
            device: Arc::new(ReactorDevice::new(device, engine, copy_manager)),
            luns: BTreeMap::new(),
            opening: BTreeSet::new(),
            refreshing: BTreeMap::new(),
        })
    }

    /// Adds a logical unit, one that is not ready if it could not be opened.
    pub fn insert(&mut self, lun: &Lun, opened: Result<Opened, Unusable>) -> Result<(), Unusable> {
        let running = match opened {
            Ok(opened) => opened.into(),
            Err(reason) => failed(lun, reason)?,
        };
        let unit = Arc::clone(&running.unit);
        let access = unit_access(&lun.initiators);
        self.device
            .device()
            .insert_logical_unit(lun.number, unit, access)?;
        self.luns.insert(lun.number, running);
        Ok(())
    }

    /// Puts another unit in the place of one. Commands of that run to their end on it.
    pub fn replace(&mut self, number: u16, running: RunningLun) -> Result<Closing, Unusable> {
        let unit = Arc::clone(&running.unit);
        let old = self.device.device().replace_logical_unit(number, unit)?;
        self.luns.insert(number, running);
        Ok(Closing::of([old]))
    }
}

/// A unit without its volume, which holds the place.
pub(super) fn failed(lun: &Lun, reason: Unusable) -> Result<RunningLun, Unusable> {
    Ok(RunningLun {
        unit: Arc::new(unit_not_ready(lun)?),
        state: LunState::Failed { reason },
    })
}

/// Volumes that were given up, and close when their last command has ended; or units whose volume another has.
#[derive(Default)]
pub struct Closing {
    volumes: Vec<Weak<dyn Volume>>,
    units: Vec<Weak<LogicalUnit>>,
}

impl Closing {
    pub(super) fn of(units: impl IntoIterator<Item = Arc<LogicalUnit>>) -> Self {
        let units = units.into_iter().filter(|unit| unit.is_ready());
        Self {
            volumes: units.map(|unit| Arc::downgrade(unit.volume())).collect(),
            units: Vec::new(),
        }
    }

    /// The end of the commands that a unit has, whatever becomes of its volume.
    pub(super) fn of_commands(unit: &Arc<LogicalUnit>) -> Self {
        Self {
            volumes: Vec::new(),
            units: vec![Arc::downgrade(unit)],
        }
    }

    /// Whether all are closed: their files and devices are free for others.
    pub fn is_over(&self) -> bool {
        self.volumes.iter().all(|gone| gone.strong_count() == 0)
            && self.units.iter().all(|gone| gone.strong_count() == 0)
    }

    /// Waits until [`Closing::is_over`], for a time; whether it is.
    pub async fn wait(&self, patience: Duration) -> bool {
        let until = tokio::time::Instant::now() + patience;
        let mut pause = Duration::from_millis(1);
        while !self.is_over() && tokio::time::Instant::now() < until {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(100));
        }
        self.is_over()
    }
}

fn product(vendor: &str, text: &str) -> Result<ProductIdentification, Unusable> {
    ProductIdentification::new(vendor, text, REVISION)
        .map_err(|error| Unusable::Description(error.to_string()))
}

pub(super) fn unit_options(lun: &Lun) -> Result<LogicalUnitOptions, Unusable> {
    let kept = lun.designation.as_ref();
    let vendor = kept.and_then(|kept| kept.vendor.as_deref());
    Ok(LogicalUnitOptions {
        uuid: lun.uuid.into_bytes(),
        product: product(vendor.unwrap_or(VENDOR), &lun.product)?,
        write_cache: lun.write_cache,
        read_only: lun.read_only,
    })
}

/// With the names it keeps from another target, if it does.
fn named(unit: LogicalUnit, lun: &Lun) -> Result<LogicalUnit, Unusable> {
    let Some(kept) = &lun.designation else {
        return Ok(unit);
    };
    let designation = kept.designation();
    let designation = designation.map_err(|error| Unusable::Description(error.to_string()))?;
    Ok(unit.with_designation(designation))
}

/// Where persistent reservations are stored, with what is.
pub(super) type StoredReservations = (Arc<dyn ReservationStore>, PersistentReservations);

/// The logical unit of `lun` on a volume that is open already.
pub(super) fn unit_on(
    volume: Arc<dyn Volume>,
    lun: &Lun,
    reservations: Option<StoredReservations>,
) -> Result<Arc<LogicalUnit>, Unusable> {
    let unit = LogicalUnit::new(volume, unit_options(lun)?);
    let unit = unit.map_err(|error| Unusable::Geometry {
        path: lun.path.display().to_string(),
        error,
    })?;
    let unit = named(unit, lun)?;
    unit.set_provisioning(lun.provisioning.into());
    Ok(Arc::new(match reservations {
        Some((store, content)) => unit.with_reservation_store(store, content),
        None => unit,
    }))
}

/// The logical unit of `lun` without its volume.
pub(super) fn unit_not_ready(lun: &Lun) -> Result<LogicalUnit, Unusable> {
    let unit = named(LogicalUnit::not_ready(unit_options(lun)?), lun)?;
    Ok(match &lun.reservations {
        Some(directory) => {
            let file = ReservationFile::new(directory, unit.naa());
            // What is in it is checked when the unit is ready.
            unit.with_reservation_store(Arc::new(file), PersistentReservations::default())
        }
        None => unit,
    })
}

fn open_reservations(
    lun: &Lun,
    beginning: Beginning,
) -> Result<Option<StoredReservations>, Unusable> {
    let Some(directory) = &lun.reservations else {
        return Ok(None);
    };
    let file = ReservationFile::new(directory, scsi::naa(lun.uuid.into_bytes()));
    let content = file.open(beginning)?;
    Ok(Some((Arc::new(file), content)))
}

/// A file cannot be thick.
pub(super) fn require_zvol(volume: &dyn Volume, lun: &Lun) -> Result<(), Unusable> {
    if lun.provisioning == ProvisioningChoice::Thick && volume.dataset().is_none() {
        let path = lun.path.display().to_string();
        return Err(Unusable::Thick { path });
    }
    Ok(())
}

fn open(lun: &Lun, beginning: Beginning) -> Result<Opened, Unusable> {
    let options = OpenOptions {
        read_only: lun.read_only,
        caching: lun.caching.into(),
    };
    let opened = volume::open(&lun.path, options)?;
    if let Some(expected) = lun.guid {
        identity::check(&*opened.volume, &lun.path, expected)?;
    }
    let reservations = open_reservations(lun, beginning)?;
    require_zvol(&*opened.volume, lun)?;
    opened
        .volume
        .set_thick(lun.provisioning == ProvisioningChoice::Thick);
    let unit = unit_on(opened.volume, lun, reservations)?;
    Ok(Opened {
        unit,
        backend: opened.backend,
    })
}

/// Opens the path of `lun` on another thread, as the system may take its time. When another process has the path, waits until
/// `release` for it to go.
pub(super) async fn open_apart(
    lun: &Lun,
    release: Instant,
    beginning: Beginning,
) -> Result<Opened, Unusable> {
    let lun = lun.clone();
    let opening = tokio::task::spawn_blocking(move || {
        let mut opened = open(&lun, beginning.clone());
        while opened.as_ref().is_err_and(Unusable::is_in_use) && Instant::now() < release {
            thread::sleep(RELEASE_POLL);
            opened = open(&lun, beginning.clone());
        }
        opened
    });
    opening
        .await
        .unwrap_or_else(|error| Err(Unusable::Description(error.to_string())))
}

/// [`open_apart`], and an error when it takes longer than `patience`. What it opens later is closed at once.
pub(super) async fn open_within(
    lun: &Lun,
    patience: Duration,
    beginning: Beginning,
) -> Result<Opened, Unusable> {
    let opening = open_apart(lun, Instant::now(), beginning);
    match tokio::time::timeout(patience, opening).await {
        Ok(opened) => opened,
        Err(_) => Err(Unusable::Slow {
            path: lun.path.display().to_string(),
            seconds: patience.as_secs(),
        }),
    }
}
