//! Why the service refuses.

use iscsi::{ConfigurationError, ServerError};

use super::Unusable;
use crate::configuration::{FileError, Invalid};

/// Why a change or a question was refused. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// There is no such target.
    #[error("there is no target {0}")]
    NoTarget(String),
    /// There is no such logical unit.
    #[error("target {target} has no LUN {number}")]
    NoLun {
        /// Target asked for.
        target: String,
        /// Number asked for.
        number: u16,
    },
    /// There is no such account.
    #[error("target {target} has no account {name:?}")]
    NoAccount {
        /// Target asked for.
        target: String,
        /// Account asked for.
        name: String,
    },
    /// Another target has the name.
    #[error("target {0} is there with another alias; delete it first")]
    TargetDiffers(String),
    /// Another logical unit has the number.
    #[error("target {target} has another LUN {number}; delete it first")]
    LunDiffers {
        /// Target asked for.
        target: String,
        /// Number asked for.
        number: u16,
    },
    /// The configuration would not be valid.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The iSCSI server does not take it.
    #[error(transparent)]
    Refused(#[from] ConfigurationError),
    /// A portal cannot be listened at.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The path cannot be served.
    #[error(transparent)]
    Unusable(#[from] Unusable),
    /// The present size of a logical unit's volume cannot be read.
    #[error("the size of LUN {number} of target {target} cannot be read: {error}")]
    Size {
        /// Target of the logical unit.
        target: String,
        /// Its number.
        number: u16,
        /// What the volume said.
        #[source]
        error: volume::VolumeError,
    },
    /// The configuration file could not be written.
    #[error(transparent)]
    NotStored(#[from] FileError),
}
