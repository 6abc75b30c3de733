// SPDX-License-Identifier: Apache-2.0
//! Running targets: their devices, and the state of each logical unit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use scsi::{
    Device, InventoryError, LogicalUnit, LogicalUnitOptions, PersistentReservations,
    ProductIdentification, ReservationStore,
};
use volume::engine::EngineChoice;
use volume::{Backend, OpenOptions, Problem, Volume};

use super::definition::unit_access;
use super::identity::{self, IdentityError};
use crate::configuration::{DatasetGuid, Lun, ProvisioningChoice};
use crate::reactor_device::ReactorDevice;
use crate::reservations::{Beginning, ReservationFile, ReservationFileError};

/// T10 VENDOR IDENTIFICATION of all logical units.
const VENDOR: &str = "ZVAAI";

/// PRODUCT REVISION LEVEL, at most four characters.
const REVISION: &str = concat!(
    env!("CARGO_PKG_VERSION_MAJOR"),
    ".",
    env!("CARGO_PKG_VERSION_MINOR")
);

/// Poll interval for a path that another process still has open.
const RELEASE_POLL: Duration = Duration::from_millis(20);

/// Why a path cannot be served as a logical unit.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the error texts name the fields")]
pub enum Unusable {
    /// It cannot be opened.
    #[error(transparent)]
    Open(#[from] volume::OpenError),
    /// It is not the expected dataset, or is not known to be.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// SCSI cannot express its geometry.
    #[error("{path}: {error}")]
    Geometry {
        path: String,
        #[source]
        error: scsi::LogicalUnitError,
    },
    /// It was open, and no longer exists.
    #[error("{path}: its device or file no longer exists ({reason}); restore it")]
    Gone {
        path: String,
        /// Error or observation.
        reason: String,
    },
    /// Opening it takes too long.
    #[error("{path}: the system has not opened it for {seconds} s; is its pool suspended?")]
    Slow {
        path: String,
        /// How long the caller has waited.
        seconds: u64,
    },
    /// Its reservations are unknown.
    #[error(transparent)]
    Reservations(#[from] ReservationFileError),
    /// A check of its size takes too long.
    #[error("{path}: the system has not reported its size for {seconds} s; is its pool suspended?")]
    Silent {
        path: String,
        /// How long the caller has waited.
        seconds: u64,
    },
    /// It is configured as thick, and is not a zvol.
    #[error("{path}: only a zvol can be thick; make the LUN thin, or serve a zvol")]
    Thick { path: String },
    /// The number or product is invalid.
    #[error("{0}")]
    Description(String),
}

impl Unusable {
    pub(super) fn is_in_use(&self) -> bool {
        matches!(self, Self::Open(error) if matches!(error.problem, Problem::InUse))
    }

    /// GUID of the dataset found, if it is not the expected one.
    pub fn other_dataset(&self) -> Option<DatasetGuid> {
        match self {
            Self::Identity(IdentityError::Other { actual, .. }) => Some(*actual),
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
        /// Backend of its path.
        backend: Backend,
    },
    /// Hosts get NOT READY. Its path is tried again regularly.
    Failed {
        /// Cause of the failure.
        reason: Unusable,
    },
    /// Hosts get NOT READY while its path is opened with other settings.
    Changing,
}

/// A running logical unit.
pub struct RunningLun {
    /// The unit; without a volume unless the state is [`LunState::Serving`].
    pub unit: Arc<LogicalUnit>,
    /// State of the unit.
    pub state: LunState,
}

/// A logical unit on its volume; not served yet.
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

/// A running target.
pub(super) struct Running {
    pub device: Arc<ReactorDevice>,
    pub luns: BTreeMap<u16, RunningLun>,
    /// Numbers of logical units whose path is being opened.
    pub opening: BTreeSet<u16>,
    /// Numbers of logical units whose size is being checked.
    pub refreshing: BTreeMap<u16, Weak<LogicalUnit>>,
}

impl Running {
    pub fn empty(engine: EngineChoice) -> Result<Self, Unusable> {
        let device = Device::new(product(VENDOR, "")?);
        Ok(Self {
            device: Arc::new(ReactorDevice::new(device, engine)),
            luns: BTreeMap::new(),
            opening: BTreeSet::new(),
            refreshing: BTreeMap::new(),
        })
    }

    /// Adds a logical unit; if it could not be opened, the unit is not ready.
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

    /// Replaces a unit. Its commands run to their end on the old one.
    pub fn replace(&mut self, number: u16, running: RunningLun) -> Result<Closing, Unusable> {
        let unit = Arc::clone(&running.unit);
        let old = self.device.device().replace_logical_unit(number, unit)?;
        self.luns.insert(number, running);
        Ok(Closing::of([old]))
    }
}

/// A unit without volume, for the number of a failed one.
pub(super) fn failed(lun: &Lun, reason: Unusable) -> Result<RunningLun, Unusable> {
    Ok(RunningLun {
        unit: Arc::new(unit_not_ready(lun)?),
        state: LunState::Failed { reason },
    })
}

/// Volumes that are closing: they close with their last command.
#[derive(Default)]
pub struct Closing {
    volumes: Vec<Weak<dyn Volume>>,
    threads: Vec<JoinHandle<()>>,
}

impl Closing {
    /// Closes each volume in a separate thread: the last close of a zvol waits for transaction groups, so in a suspended pool
    /// for ever.
    pub(super) fn of(units: impl IntoIterator<Item = Arc<LogicalUnit>>) -> Self {
        let mut closing = Self::default();
        for unit in units.into_iter().filter(|unit| unit.is_ready()) {
            closing.volumes.push(Arc::downgrade(unit.volume()));
            // Without a thread it closes here.
            let thread = thread::Builder::new().name("close".to_owned());
            closing.threads.extend(thread.spawn(move || drop(unit)));
        }
        closing
    }

    /// Whether all are closed: their files and devices are free.
    pub fn is_over(&self) -> bool {
        self.volumes.iter().all(|gone| gone.strong_count() == 0)
            && self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Waits for [`Closing::is_over`], at most `patience`. Returns whether it is over.
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
    let retained = lun.designation.as_ref();
    let vendor = retained.and_then(|retained| retained.vendor.as_deref());
    Ok(LogicalUnitOptions {
        uuid: lun.uuid.into_bytes(),
        product: product(vendor.unwrap_or(VENDOR), &lun.product)?,
        read_only: lun.read_only,
    })
}

/// Adds the names from another target, if it has some.
fn named(unit: LogicalUnit, lun: &Lun) -> Result<LogicalUnit, Unusable> {
    let Some(retained) = &lun.designation else {
        return Ok(unit);
    };
    let designation = retained.designation();
    let designation = designation.map_err(|error| Unusable::Description(error.to_string()))?;
    Ok(unit.with_designation(designation))
}

/// The store of persistent reservations, and its content.
pub(super) type StoredReservations = (Arc<dyn ReservationStore>, PersistentReservations);

/// The logical unit of `lun` on an open volume.
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

/// The logical unit of `lun` without volume.
pub(super) fn unit_not_ready(lun: &Lun) -> Result<LogicalUnit, Unusable> {
    let unit = named(LogicalUnit::not_ready(unit_options(lun)?), lun)?;
    Ok(match &lun.reservations {
        Some(directory) => {
            let file = ReservationFile::new(directory, unit.naa());
            // The file is checked when the unit becomes ready.
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

/// Fails if `lun` is thick and the volume is a file.
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

/// Opens the path of `lun` on another thread, as the system can be slow. If another process has the path open, waits until
/// `release`.
pub(super) async fn open_apart(
    lun: &Lun,
    release: Instant,
    beginning: Beginning,
) -> Result<Opened, Unusable> {
    let lun = lun.clone();
    let opening = tokio::task::spawn_blocking(move || {
        let mut opened = open(&lun, beginning.clone());
        if opened.as_ref().is_err_and(Unusable::is_in_use) {
            tracing::debug!(
                lun = lun.number,
                "waiting until another process closes the volume"
            );
        }
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

/// Like [`open_apart`], with an error after `patience`. A later result is closed at once.
pub(super) async fn open_within(
    lun: &Lun,
    release: Instant,
    patience: Duration,
    beginning: Beginning,
) -> Result<Opened, Unusable> {
    let opening = open_apart(lun, release, beginning);
    match tokio::time::timeout(patience, opening).await {
        Ok(opened) => opened,
        Err(_) => Err(Unusable::Slow {
            path: lun.path.display().to_string(),
            seconds: patience.as_secs(),
        }),
    }
}
