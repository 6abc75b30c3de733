// SPDX-License-Identifier: Apache-2.0
//! Why the service refuses.

use std::net::SocketAddr;

use iscsi::{ConfigurationError, ServerError};

use super::Unusable;
use crate::configuration::{FileError, Invalid, KeyError};

/// Why a change or a question was refused. Nothing was changed, but where it says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// There is no such target.
    #[error("there is no target {0}")]
    NoTarget(String),
    /// There is no such logical unit.
    #[error("target {target} has no LUN {number}")]
    NoLun {
        /// Requested target.
        target: String,
        /// Requested number.
        number: u16,
    },
    /// There is no such account.
    #[error("{holder} has no account {name:?}")]
    NoAccount {
        /// Requested holder, in words.
        holder: String,
        /// Requested account.
        name: String,
    },
    /// There is no such portal.
    #[error("there is no portal {0}")]
    NoPortal(SocketAddr),
    /// There is no such portal group.
    #[error("there is no portal group {0}")]
    NoGroup(u16),
    /// There is no such group of hosts.
    #[error("there is no host group {0:?}")]
    NoHostGroup(String),
    /// Another target has the name.
    #[error("target {0} is there with another {1}; change or delete it")]
    TargetDiffers(String, &'static str),
    /// Another logical unit has the number.
    #[error("target {target} has another LUN {number}; change or delete it")]
    LunDiffers {
        /// Requested target.
        target: String,
        /// Requested number.
        number: u16,
    },
    /// Another portal has the address.
    #[error("portal {0} is there with another group or advertised address; change or delete it")]
    PortalDiffers(SocketAddr),
    /// The command line says where to listen.
    #[error(
        "the daemon was started with --listen, which goes before configured portals; start it without"
    )]
    PortalsGiven,
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
    /// Commands under way did not end in time for a change.
    #[error("commands of LUN {number} of target {target} did not end in time; it is as it was")]
    Busy {
        /// Target of the logical unit.
        target: String,
        /// Its number.
        number: u16,
    },
    /// What was cached before the write cache was switched off could not be made stable.
    #[error(
        "the write cache of LUN {number} of target {target} is off, but what it held could not be made stable: {error}"
    )]
    NotFlushed {
        /// Target of the logical unit.
        target: String,
        /// Its number.
        number: u16,
        /// What the volume said.
        #[source]
        error: volume::VolumeError,
    },
    /// Commands that began with the write cache had not ended when it was switched off.
    #[error(
        "the write cache of LUN {number} of target {target} is off, but commands that began before have not ended: what they write \
         may be cached until the next SYNCHRONIZE CACHE"
    )]
    StillCaching {
        /// Target of the logical unit.
        target: String,
        /// Its number.
        number: u16,
    },
    /// It is thick, and clones that began before have not ended.
    #[error(
        "LUN {number} of target {target} is thick, but clones that began before have not ended: they may still share blocks of it. Make \
         it thin, and try again when the pool answers"
    )]
    StillSharing {
        /// Target of the logical unit.
        target: String,
        /// Its number.
        number: u16,
    },
    /// That nothing is reserved could not be stored.
    #[error("what is reserved on LUN {number} of target {target} is as it was: {error}")]
    ReservationsNotStored {
        /// Target of the logical unit.
        target: String,
        /// Its number.
        number: u16,
        /// Why.
        #[source]
        error: std::io::Error,
    },
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
    /// CHAP is required, and nobody has an account.
    #[error(
        "CHAP is required, and there is no account of an initiator: set one (accounts.set), or admit all without CHAP \
         (accounts.require)"
    )]
    NoAccounts,
    /// The key for secrets, or a secret.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The configuration file could not be written, or ([`FileError::NotStable`]) not be made stable.
    #[error(transparent)]
    NotStored(#[from] FileError),
}
