// SPDX-License-Identifier: Apache-2.0
//! The configuration file: read at start, and replaced atomically.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use serde::Deserialize;
use zeroize::Zeroizing;

use super::Configuration;
use super::document::VERSION;
use super::key_file::{KeyError, KeyFile, Vault};
use super::validation::{Invalid, invalid};

/// Why a configuration file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the error texts name the fields")]
pub enum FileError {
    /// The file cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
    /// It is not JSON of the expected form. The error contains line and column.
    #[error("{} is not a configuration: {error}; the file was not changed", path.display())]
    Form {
        path: PathBuf,
        #[source]
        error: serde_json::Error,
    },
    /// Its content is invalid.
    #[error("{}: {invalid}; the file was not changed", path.display())]
    Content {
        path: PathBuf,
        #[source]
        invalid: Invalid,
    },
    /// The file cannot be written.
    #[error("cannot write {}: {error}", path.display())]
    Write {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
    /// The file was written, but its directory entry may not be stable.
    #[error("{} is written, but a power cut may undo that: {error}", path.display())]
    NotStable {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
    /// A problem of the key for secrets.
    #[error("the key for CHAP secrets: {0}")]
    Key(#[from] KeyError),
    /// Another process holds the lock.
    #[error("{} is locked: another zvaai-target runs with it", path.display())]
    Locked { path: PathBuf },
}

impl FileError {
    /// Whether the content of the file or of its key file is invalid: reading it again cannot help.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Form { .. } | Self::Content { .. } => true,
            Self::Key(error) => {
                matches!(error, KeyError::Malformed { .. } | KeyError::Exposed { .. })
            }
            _ => false,
        }
    }
}

/// How long a lock is tried. A program that a killed target had just started holds its files until it is executed.
const LOCK_WAIT: Duration = Duration::from_secs(2);

/// A lock on a file next to the locked file (flock(2)), released when dropped.
///
/// The file itself cannot have the lock, as each change replaces it.
#[derive(Debug)]
pub struct LockFile {
    _file: File,
}

impl LockFile {
    /// Locks `PATH.lock`. Waits for 2 s at most, and blocks the thread meanwhile.
    ///
    /// # Errors
    /// [`FileError::Locked`], [`FileError::Write`].
    pub fn next_to(path: &Path) -> Result<Self, FileError> {
        Self::within(path, LOCK_WAIT, || thread::sleep(LOCK_WAIT / 40))
    }

    /// Calls `pause` between attempts.
    fn within(path: &Path, wait: Duration, mut pause: impl FnMut()) -> Result<Self, FileError> {
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
        let began = Instant::now();
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self { _file: file }),
                Err(rustix::io::Errno::WOULDBLOCK) if began.elapsed() < wait => pause(),
                Err(rustix::io::Errno::WOULDBLOCK) => return Err(FileError::Locked { path }),
                Err(other) => return Err(write_error(other.into())),
            }
        }
    }
}

/// A locked configuration file.
#[derive(Debug)]
pub struct ConfigurationFile {
    path: PathBuf,
    stable: bool,
    _lock: LockFile,
}

/// The first member of every version.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

impl ConfigurationFile {
    /// Locks the file at `path` and reads it; a missing file is an empty configuration.
    ///
    /// # Errors
    /// [`FileError`]; the file is not changed.
    pub fn open(path: &Path) -> Result<(Self, Configuration, Vault), FileError> {
        let absolute = std::path::absolute(path).map_err(|error| FileError::Read {
            path: path.to_owned(),
            error,
        })?;
        let mut this = Self {
            _lock: LockFile::next_to(&absolute)?,
            path: absolute,
            stable: true,
        };
        let key = KeyFile::next_to(&this.path);
        let (configuration, vault) = this.load(key)?;
        Ok((this, configuration, vault))
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn load(&mut self, key: KeyFile) -> Result<(Configuration, Vault), FileError> {
        let text = match fs::read(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let configuration = Configuration::default();
                let vault = Vault::open(key, &configuration)?;
                return Ok((configuration, vault));
            }
            Err(error) => return Err(self.unreadable(error)),
            Ok(text) => Zeroizing::new(text),
        };
        let text = std::str::from_utf8(&text)
            .map_err(|error| self.unreadable(io::Error::new(io::ErrorKind::InvalidData, error)))?;
        let form = |error| FileError::Form {
            path: self.path.clone(),
            error,
        };
        let Versioned { version } = serde_json::from_str(text).map_err(form)?;
        match version {
            VERSION => {
                let configuration: Configuration = serde_json::from_str(text).map_err(form)?;
                configuration
                    .validate()
                    .map_err(|invalid| self.content(invalid))?;
                let vault = Vault::open(key, &configuration)?;
                Ok((configuration, vault))
            }
            other => {
                let reason = format!("{other} is not supported, only {VERSION}");
                Err(self.content(invalid("version", reason)))
            }
        }
    }

    fn unreadable(&self, error: io::Error) -> FileError {
        FileError::Read {
            path: self.path.clone(),
            error,
        }
    }

    fn content(&self, invalid: Invalid) -> FileError {
        FileError::Content {
            path: self.path.clone(),
            invalid,
        }
    }

    /// Replaces the content atomically. The new file is on stable storage when this returns.
    ///
    /// # Errors
    /// [`FileError::Write`]: the old file is still there. [`FileError::NotStable`]: the new file is there, but until
    /// [`ConfigurationFile::sync`] succeeds, a power cut can bring the old one back.
    pub fn store(&mut self, configuration: &Configuration) -> Result<(), FileError> {
        self.replace(configuration)
            .map_err(|error| FileError::Write {
                path: self.path.clone(),
                error,
            })?;
        self.stable = false;
        self.sync()
    }

    /// Makes the last stored content stable, if it is not yet.
    ///
    /// # Errors
    /// [`FileError::NotStable`].
    pub fn sync(&mut self) -> Result<(), FileError> {
        if !self.stable {
            sync_directory_of(&self.path).map_err(|error| FileError::NotStable {
                path: self.path.clone(),
                error,
            })?;
            self.stable = true;
        }
        Ok(())
    }

    fn replace(&self, configuration: &Configuration) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(configuration)?;
        text.push(b'\n');
        let temporary = with_suffix(&self.path, ".new");
        // A crash can leave one, which nobody uses: the lock is held.
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
        fs::rename(&temporary, &self.path)
    }
}

/// Makes the entries of the directory of `path` stable.
pub(super) fn sync_directory_of(path: &Path) -> io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(directory)?.sync_all()
}

pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_held_for_a_moment_does_not_hinder() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("target.json");
        let mut held = Some(LockFile::next_to(&path).unwrap());
        let wait = Duration::from_secs(3600);
        LockFile::within(&path, wait, || held = None).unwrap();
        assert!(held.is_none(), "it was not locked");
    }
}
