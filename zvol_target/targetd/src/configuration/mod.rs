//! What the daemon serves, as it stands on disk.

mod document;
mod file;
mod validation;

pub use document::{Account, Configuration, Lun, Portal, SecretText, Target};
pub use file::{ConfigurationFile, FileError, LockFile};
pub use validation::Invalid;
