// SPDX-License-Identifier: Apache-2.0
//! An iSCSI target (RFC 7143), `ErrorRecoveryLevel` 0: everything between the socket and the SAM procedure calls of
//! [`scsi::sam`].
//!
//! A [`Server`] has reactor threads. Each connection is a session (`MaxConnections` is 1), and a single future on one of these
//! threads: it receives, runs commands and sends in turn. The path of a command has no channel and no lock.

mod acceptor;
mod arrivals;
mod config;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod login;
mod name;
pub mod pdu;
mod reactor;
mod registry;
mod server;
mod session;
mod socket;
mod spread;
mod text;

pub use config::{
    Authentication, ChapAccount, ConfigurationError, Portal, SECRET_LENGTH_MAX, SECRET_LENGTH_MIN,
    Secret, ServerOptions, TargetAccess, TargetDefinition, TargetPort,
};
pub use login::{NegotiatedParameters, SessionType, TARGET_MAX_RECV_DATA_SEGMENT_LENGTH};
pub use name::{IscsiName, NameError};
pub use registry::{Counters, SessionRecord, UnknownInitiator};
pub use server::{Server, ServerError, check_targets};
