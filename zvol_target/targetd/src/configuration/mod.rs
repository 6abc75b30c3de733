// SPDX-License-Identifier: Apache-2.0
//! The configuration on disk.

mod access;
mod document;
mod file;
mod guid;
mod host_group;
mod key_file;
mod sealing;
mod space;
mod validation;

pub use access::Access;
pub use document::{
    Account, Accounts, Configuration, Lun, Portal, PortalGroup, RetainedNames, Target,
};
pub use file::{ConfigurationFile, FileError, LockFile};
pub use guid::DatasetGuid;
pub use host_group::{HostGroup, OffloadName, offload_policy};
pub use key_file::{KeyError, KeyFile, MissedKey, Vault};
pub use sealing::{Direction, NoRandomBytes, Purpose, SecretText};
pub use space::{PoolSettings, ProvisioningChoice, Threshold};
pub use validation::{Invalid, check_secret};
