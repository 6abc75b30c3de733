// SPDX-License-Identifier: Apache-2.0
//! Errors of the service.

use std::net::SocketAddr;

use iscsi::{ConfigurationError, ServerError};

use super::Unusable;
use crate::configuration::{FileError, Invalid, KeyError};

/// Why a request was refused. Nothing was changed, unless the variant says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the error texts name the fields")]
pub enum ServiceError {
    /// The target does not exist.
    #[error("there is no target {0}")]
    NoTarget(String),
    /// The logical unit does not exist.
    #[error("target {target} has no LUN {number}")]
    NoLun { target: String, number: u16 },
    /// The account does not exist.
    #[error("target {target} has no account {name:?}")]
    NoAccount { target: String, name: String },
    /// The portal does not exist.
    #[error("there is no portal {0}")]
    NoPortal(SocketAddr),
    /// The host group does not exist.
    #[error("there is no host group {0:?}")]
    NoHostGroup(String),
    /// A target of this name exists with another access list.
    #[error("target {0} exists with another access list; change or delete it")]
    TargetDiffers(String),
    /// The number belongs to another logical unit.
    #[error("target {target} has another LUN {number}; change or delete it")]
    LunDiffers { target: String, number: u16 },
    /// A portal with this address exists with another setting.
    #[error("portal {0} exists with another group or advertised address; change or delete it")]
    PortalDiffers(SocketAddr),
    /// The command line has the portals.
    #[error(
        "the daemon was started with --listen, which overrides the configured portals; start it without"
    )]
    PortalsGiven,
    /// The configuration would be invalid.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The iSCSI server refuses the configuration.
    #[error(transparent)]
    Refused(#[from] ConfigurationError),
    /// A portal cannot be opened.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The path cannot be served.
    #[error(transparent)]
    Unusable(#[from] Unusable),
    /// Running commands did not end in time for a change.
    #[error(
        "commands of LUN {number} of target {target} did not end in time; the LUN was not changed"
    )]
    Busy { target: String, number: u16 },
    /// The LUN is thick, but clones that began before have not ended.
    #[error(
        "LUN {number} of target {target} is thick, but clones that began before have not ended: they may still share blocks of it. Make \
         it thin, and try again when the pool answers"
    )]
    StillSharing { target: String, number: u16 },
    /// The empty reservation file could not be stored. If the pool hangs, it may still be.
    #[error("cannot change the reservations of LUN {number} of target {target}: {error}")]
    ReservationsNotStored {
        target: String,
        number: u16,
        #[source]
        error: std::io::Error,
    },
    /// The current size of a logical unit's volume cannot be read.
    #[error("the size of LUN {number} of target {target} cannot be read: {error}")]
    Size {
        target: String,
        number: u16,
        #[source]
        error: volume::VolumeError,
    },
    /// CHAP is required, and no initiator has an account.
    #[error(
        "CHAP is required, and no account of an initiator exists: set one (accounts.set), or permit all without CHAP \
         (accounts.require)"
    )]
    NoAccounts,
    /// A problem of the key for secrets, or of a secret.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The configuration file could not be written, or ([`FileError::NotStable`]) not be made stable.
    #[error(transparent)]
    NotStored(#[from] FileError),
}
