// SPDX-License-Identifier: Apache-2.0
//! Persistent reservations on stable storage: one file for each logical unit.
//!
//! They are in a directory of the logical unit, not next to the configuration: a small dataset of the same pool as the data. If
//! the pool is imported on another server, the reservations come with it.

mod document;

pub(crate) use document::{Kind, key_name};

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use scsi::sam::LocalBoxFuture;
use scsi::{PersistentReservations, ReservationStore};

/// Longest accepted file. A valid file is far smaller.
const MAXIMUM_FILE_BYTES: u64 = 4 << 20;

/// Command that writes an empty file.
const CLEAR: &str = r#"`zvaai-target call --control /run/zvaai-target/control.sock reservations.clear '{"target": "IQN", "number": N}'`"#;

/// Why the reservations of a logical unit are unknown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the error texts name the fields")]
pub enum ReservationFileError {
    /// The file is missing, although it was created with the logical unit.
    #[error(
        "{}: the LUN's reservation file is missing. Mount its dataset or restore the file. If the registrations may be lost: \
         {CLEAR}",
        path.display()
    )]
    Missing { path: PathBuf },
    /// It cannot be read.
    #[error("{}: the LUN's reservations cannot be read: {error}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
    /// The file was altered.
    #[error(
        "{}: the LUN's reservation file is damaged ({reason}). Restore the file. If the registrations may be lost: {CLEAR}. If \
         that reports no LUN, delete the file.",
        path.display()
    )]
    Damaged {
        path: PathBuf,
        /// Why it is invalid.
        reason: String,
    },
    /// It cannot be written.
    #[error("{}: the LUN's reservations cannot be stored: {error}", path.display())]
    Write {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
}

/// What is known of a logical unit's file before it is opened.
#[derive(Clone, Debug)]
pub enum Beginning {
    /// It must exist. An empty mount point must not count as a directory without reservations.
    Present,
    /// The logical unit is new: a missing file means no reservations.
    New,
    /// The logical unit comes from another directory with these reservations.
    Moved(PersistentReservations),
}

/// The file with the persistent reservations of one logical unit.
#[derive(Clone, Debug)]
pub struct ReservationFile {
    path: PathBuf,
    naa: [u8; 16],
}

impl ReservationFile {
    /// The file of the logical unit with this NAA name, in `directory`.
    pub fn new(directory: &Path, naa: [u8; 16]) -> Self {
        let name = format!("{}.json", document::naa_name(naa));
        Self {
            path: directory.join(name),
            naa,
        }
    }

    /// Removes the file of a deleted logical unit. Returns whether it existed. Does not remove a file that belongs to another
    /// unit. Blocks.
    ///
    /// # Errors
    /// [`ReservationFileError`].
    pub fn remove(&self) -> Result<bool, ReservationFileError> {
        match self.read() {
            Ok(_) => {}
            Err(ReservationFileError::Missing { .. }) => return Ok(false),
            Err(error) => return Err(error),
        }
        let remove = || match fs::remove_file(&self.path) {
            Ok(()) => {
                let directory = self.path.parent().unwrap_or(Path::new("/"));
                File::open(directory)?.sync_all().map(|()| true)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        };
        remove().map_err(|error| ReservationFileError::Write {
            path: self.path.clone(),
            error,
        })
    }

    /// Reads the stored reservations. For `New` and `Moved`, writes the file first. Blocks.
    ///
    /// # Errors
    /// [`ReservationFileError`].
    pub fn open(
        &self,
        beginning: Beginning,
    ) -> Result<PersistentReservations, ReservationFileError> {
        match beginning {
            Beginning::Present => self.read(),
            Beginning::New => match self.read() {
                Err(ReservationFileError::Missing { .. }) => {
                    self.begin(PersistentReservations::default())
                }
                loaded => loaded,
            },
            Beginning::Moved(reservations) => self.begin(reservations),
        }
    }

    fn begin(
        &self,
        reservations: PersistentReservations,
    ) -> Result<PersistentReservations, ReservationFileError> {
        match self.write(&reservations) {
            Ok(()) => Ok(reservations),
            Err(error) => Err(ReservationFileError::Write {
                path: self.path.clone(),
                error,
            }),
        }
    }

    fn read(&self) -> Result<PersistentReservations, ReservationFileError> {
        let path = || self.path.clone();
        let mut text = String::new();
        let read = File::open(&self.path)
            .and_then(|file| file.take(MAXIMUM_FILE_BYTES).read_to_string(&mut text));
        match read {
            Ok(_) => {
                document::parse(&text, self.naa).map_err(|reason| ReservationFileError::Damaged {
                    path: path(),
                    reason,
                })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(ReservationFileError::Missing { path: path() })
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Err(ReservationFileError::Damaged {
                    path: path(),
                    reason: error.to_string(),
                })
            }
            Err(error) => Err(ReservationFileError::Read {
                path: path(),
                error,
            }),
        }
    }

    /// Replaces the file atomically. The new file is on stable storage when this returns. Blocks.
    fn write(&self, reservations: &PersistentReservations) -> io::Result<()> {
        let text = document::format(reservations, self.naa)?;
        let temporary = self.path.with_extension("json.new");
        // A crash can leave one; nobody uses it.
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new()
            .create_new(true)
            .write(true)
            .mode(0o600)
            .open(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, &self.path)?;
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        File::open(directory)?.sync_all()
    }
}

impl ReservationStore for ReservationFile {
    /// On a separate thread: a pool can be slow, and the reactor serves other hosts.
    fn store(
        &self,
        reservations: PersistentReservations,
    ) -> LocalBoxFuture<'_, Result<(), io::Error>> {
        let file = self.clone();
        let written = tokio::task::spawn_blocking(move || file.write(&reservations));
        Box::pin(async move { written.await.unwrap_or_else(|error| Err(error.into())) })
    }
}

#[cfg(test)]
mod tests {
    use scsi::{PersistentReservation, RegisteredNexus, ReservationType};

    use super::*;

    const NAA: [u8; 16] = [0x60; 16];

    fn some() -> PersistentReservations {
        let nexus = |port: u16| RegisteredNexus {
            initiator_port: "iqn.2026-11.example:host,i,0x00023d000001".to_owned(),
            relative_target_port: port,
        };
        PersistentReservations {
            registrations: [(nexus(1), 7), (nexus(2), u64::MAX)].into(),
            reservation: Some(PersistentReservation {
                kind: ReservationType::WriteExclusiveRegistrantsOnly,
                holder: Some(nexus(2)),
            }),
        }
    }

    #[test]
    fn stored_reservations_are_read_again() {
        let home = tempfile::tempdir().unwrap();
        let file = ReservationFile::new(home.path(), NAA);
        let absent = file.open(Beginning::Present);
        assert!(matches!(absent, Err(ReservationFileError::Missing { .. })));
        let new = file.open(Beginning::New).unwrap();
        assert_eq!(new, PersistentReservations::default());
        file.write(&some()).unwrap();
        for beginning in [Beginning::Present, Beginning::New] {
            assert_eq!(file.open(beginning).unwrap(), some());
        }
        // A file that a crash left is replaced.
        fs::write(file.path.with_extension("json.new"), "{").unwrap();
        let moved = file.open(Beginning::Moved(PersistentReservations::default()));
        assert_eq!(moved.unwrap(), PersistentReservations::default());
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    }

    #[test]
    fn every_byte_of_the_file_counts() {
        let home = tempfile::tempdir().unwrap();
        let file = ReservationFile::new(home.path(), NAA);
        file.write(&some()).unwrap();
        let text = fs::read(&file.path).unwrap();
        let damaged = |bytes: &[u8]| {
            fs::write(&file.path, bytes).unwrap();
            matches!(
                file.open(Beginning::New),
                Err(ReservationFileError::Damaged { .. })
            )
        };
        for at in 0..text.len() {
            if text[at].is_ascii_whitespace() {
                continue;
            }
            let mut changed = text.clone();
            changed[at] ^= 1;
            assert!(damaged(&changed), "byte {at}");
            assert!(damaged(&text[..at]), "cut at {at}");
        }
        assert!(damaged(&[0xff; 64]));
        // The file of another unit.
        fs::write(&file.path, &text).unwrap();
        let other = ReservationFile::new(home.path(), [0x61; 16]);
        fs::copy(&file.path, &other.path).unwrap();
        assert!(matches!(
            other.open(Beginning::Present),
            Err(ReservationFileError::Damaged { .. })
        ));
    }

    #[test]
    fn only_the_file_of_the_unit_is_removed() {
        let home = tempfile::tempdir().unwrap();
        let file = ReservationFile::new(home.path(), NAA);
        let other = ReservationFile::new(home.path(), [0x61; 16]);
        file.write(&some()).unwrap();
        other.write(&some()).unwrap();
        assert!(file.remove().unwrap());
        assert!(!file.remove().unwrap());
        assert_eq!(other.open(Beginning::Present).unwrap(), some());
        fs::copy(&other.path, &file.path).unwrap();
        assert!(matches!(
            file.remove(),
            Err(ReservationFileError::Damaged { .. })
        ));
        assert!(file.path.exists());
    }

    #[test]
    fn a_missing_directory_is_not_created() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("absent");
        let file = ReservationFile::new(&directory, NAA);
        assert!(matches!(
            file.open(Beginning::New),
            Err(ReservationFileError::Write { .. })
        ));
        assert!(!directory.exists());
    }
}
