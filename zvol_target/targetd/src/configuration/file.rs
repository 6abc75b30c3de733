//! The configuration file: read at start, replaced as a whole, never half written.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::{Configuration, Invalid};

/// Why a configuration file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// It is no JSON of the expected form. The error names line and column.
    #[error("{} is not a configuration: {error}; it was left as it is", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// What and where.
        #[source]
        error: serde_json::Error,
    },
    /// Its content cannot be served.
    #[error("{} has {invalid}; it was left as it is", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What and where.
        #[source]
        invalid: Invalid,
    },
    /// The file cannot be written.
    #[error("cannot write {}: {error}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// Another process holds the lock.
    #[error("{} is locked: another zvaai-target runs with it", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
}

/// A lock on a file beside what is locked, held until dropped (flock(2)).
///
/// The file itself cannot carry it: it is replaced at each change.
#[derive(Debug)]
pub struct LockFile {
    _file: File,
}

impl LockFile {
    /// Locks `PATH.lock`, at once or not.
    ///
    /// # Errors
    /// [`FileError::Locked`], [`FileError::Write`].
    pub fn beside(path: &Path) -> Result<Self, FileError> {
        let path = with_suffix(path, ".lock");
        let write_error = |error: io::Error| FileError::Write {
            path: path.clone(),
            error,
        };
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&path)
            .map_err(write_error)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { _file: file }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(FileError::Locked { path }),
            Err(other) => Err(write_error(other.into())),
        }
    }
}

/// A locked configuration file.
#[derive(Debug)]
pub struct ConfigurationFile {
    path: PathBuf,
    _lock: LockFile,
}

impl ConfigurationFile {
    /// Locks the file at `path` and reads it; a file that is not there is an empty configuration.
    ///
    /// # Errors
    /// [`FileError`]. The file is left as it is.
    pub fn open(path: &Path) -> Result<(Self, Configuration), FileError> {
        let absolute = std::path::absolute(path).map_err(|error| FileError::Read {
            path: path.to_owned(),
            error,
        })?;
        let this = Self {
            _lock: LockFile::beside(&absolute)?,
            path: absolute,
        };
        let configuration = this.load()?;
        Ok((this, configuration))
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn load(&self) -> Result<Configuration, FileError> {
        let path = || self.path.clone();
        let text = match fs::read(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Configuration::default());
            }
            Err(error) => {
                return Err(FileError::Read {
                    path: path(),
                    error,
                });
            }
            Ok(text) => text,
        };
        let configuration: Configuration =
            serde_json::from_slice(&text).map_err(|error| FileError::Form {
                path: path(),
                error,
            })?;
        match configuration.validate() {
            Ok(()) => Ok(configuration),
            Err(invalid) => Err(FileError::Content {
                path: path(),
                invalid,
            }),
        }
    }

    /// Replaces the content: the new one is on stable storage when this returns, and at every moment the file is the old or
    /// the new one.
    ///
    /// # Errors
    /// [`FileError::Write`]; the file is then the old one, or the new one if only its directory could not be made stable.
    pub fn store(&self, configuration: &Configuration) -> Result<(), FileError> {
        self.replace(configuration)
            .map_err(|error| FileError::Write {
                path: self.path.clone(),
                error,
            })
    }

    fn replace(&self, configuration: &Configuration) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(configuration)?;
        text.push(b'\n');
        let temporary = with_suffix(&self.path, ".new");
        // One left by a crash is in nobody's use: the lock is held.
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new()
            .create_new(true)
            .write(true)
            .mode(0o600)
            .open(&temporary)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&temporary, &self.path)?;
        File::open(parent(&self.path))?.sync_all()
    }
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
