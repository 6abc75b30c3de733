//! Targets that run: their devices, and the state of each logical unit.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use scsi::{Device, LogicalUnit, LogicalUnitAccess, LogicalUnitOptions, ProductIdentification};
use volume::engine::EngineChoice;
use volume::{Backend, OpenOptions, Problem};

use crate::configuration::Lun;
use crate::reactor_device::ReactorDevice;

/// T10 VENDOR IDENTIFICATION of everything served.
const VENDOR: &str = "ZVAAI";

/// PRODUCT REVISION LEVEL, four characters at most.
const REVISION: &str = concat!(
    env!("CARGO_PKG_VERSION_MAJOR"),
    ".",
    env!("CARGO_PKG_VERSION_MINOR")
);

/// Between two looks at a path that another process still has.
const RELEASE_POLL: Duration = Duration::from_millis(20);

/// Why a path cannot be served as a logical unit.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unusable {
    /// It cannot be opened.
    #[error(transparent)]
    Open(#[from] volume::OpenError),
    /// SCSI has no form for its geometry.
    #[error("{path}: {error}")]
    Geometry {
        /// The path.
        path: String,
        /// What is wrong.
        #[source]
        error: scsi::LogicalUnitError,
    },
    /// The number or product cannot be used.
    #[error("{0}")]
    Description(String),
}

impl Unusable {
    fn is_in_use(&self) -> bool {
        matches!(self, Self::Open(error) if matches!(error.problem, Problem::InUse))
    }
}

/// State of a configured logical unit.
pub enum LunState {
    /// Hosts can use it.
    Serving {
        /// The unit.
        unit: Arc<LogicalUnit>,
        /// What its path was found to be.
        backend: Backend,
    },
    /// It is not there for hosts.
    Failed {
        /// Why.
        reason: Unusable,
    },
}

/// A target that runs.
pub(super) struct Running {
    pub device: Arc<ReactorDevice>,
    pub luns: BTreeMap<u16, LunState>,
}

impl Running {
    pub fn empty(engine: EngineChoice) -> Result<Self, Unusable> {
        let device = Device::new(product("")?);
        Ok(Self {
            device: Arc::new(ReactorDevice::new(device, engine)),
            luns: BTreeMap::new(),
        })
    }

    /// Serves `lun`, or keeps why it can't be. Waits until `until` for another user of its path to go.
    pub fn bring_up(&mut self, target: &str, lun: &Lun, until: Instant) {
        let mut opened = open(lun);
        while opened.as_ref().is_err_and(Unusable::is_in_use) && Instant::now() < until {
            thread::sleep(RELEASE_POLL);
            opened = open(lun);
        }
        match opened {
            Ok(state) => self.insert(lun.number, state),
            Err(reason) => {
                tracing::error!(target, number = lun.number, %reason, "LUN is not served");
                self.luns.insert(lun.number, LunState::Failed { reason });
            }
        }
    }

    pub fn insert(&mut self, number: u16, state: LunState) {
        let state = match state {
            LunState::Serving { unit, backend } => {
                match self.device.device().insert_logical_unit(
                    number,
                    Arc::clone(&unit),
                    LogicalUnitAccess::Any,
                ) {
                    Ok(()) => LunState::Serving { unit, backend },
                    Err(error) => LunState::Failed {
                        reason: Unusable::Description(error.to_string()),
                    },
                }
            }
            failed @ LunState::Failed { .. } => failed,
        };
        self.luns.insert(number, state);
    }
}

impl LunState {
    pub(super) fn into_closing(self) -> Option<Weak<LogicalUnit>> {
        match self {
            Self::Serving { unit, .. } => Some(Arc::downgrade(&unit)),
            Self::Failed { .. } => None,
        }
    }
}

/// Logical units that were removed, and close when their last command has ended.
pub struct Closing(pub(super) Vec<Weak<LogicalUnit>>);

impl Closing {
    /// Whether all are closed: their files and devices are free for others.
    pub fn is_over(&self) -> bool {
        self.0.iter().all(|unit| unit.strong_count() == 0)
    }
}

fn product(text: &str) -> Result<ProductIdentification, Unusable> {
    ProductIdentification::new(VENDOR, text, REVISION)
        .map_err(|error| Unusable::Description(error.to_string()))
}

pub(super) fn open(lun: &Lun) -> Result<LunState, Unusable> {
    let options = OpenOptions {
        read_only: lun.read_only,
        caching: lun.caching.into(),
    };
    let opened = volume::open(&lun.path, options)?;
    let unit_options = LogicalUnitOptions {
        uuid: lun.uuid.into_bytes(),
        product: product(&lun.product)?,
        write_cache: lun.write_cache,
        read_only: lun.read_only,
    };
    let unit =
        LogicalUnit::new(opened.volume, unit_options).map_err(|error| Unusable::Geometry {
            path: lun.path.display().to_string(),
            error,
        })?;
    Ok(LunState::Serving {
        unit: Arc::new(unit),
        backend: opened.backend,
    })
}
