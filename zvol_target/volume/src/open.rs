// SPDX-License-Identifier: Apache-2.0
//! Opens a path as a volume: finds its type and backend, and locks it.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, major, minor};

use crate::{FileVolume, LOGICAL_BLOCK_BYTES, Volume, ZvolVolume};

/// How a volume is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// The volume is only read. Several users can then serve one file, but a zvol has one user.
    pub read_only: bool,
}

/// The backend that serves a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// [`FileVolume`]
    File,
    /// [`ZvolVolume`]
    Zvol,
}

/// An opened volume.
pub struct Opened {
    /// The volume.
    pub volume: Arc<dyn Volume>,
    /// Its backend.
    pub backend: Backend,
}

/// Why a path could not be opened as a volume.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct OpenError {
    /// The requested path.
    pub path: PathBuf,
    /// The reason and the remedy.
    #[source]
    pub problem: Problem,
}

/// Why a path cannot be a volume, with the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// ENOENT, or a dangling symbolic link.
    #[error("there is no such file or device; create it, or import the pool it is in")]
    Missing,
    /// Neither zvol nor regular file.
    #[error("it is {0}; give a zvol or a regular file")]
    NotAVolume(&'static str),
    /// Another user has it open exclusively, has it mounted, or serves it.
    #[error("it is in use by another process or mounted; stop its other user first")]
    InUse,
    /// EACCES, EPERM, EROFS.
    #[error(
        "it may not be opened for writing ({0}); correct its permissions, or serve it read-only"
    )]
    NotWritable(#[source] io::Error),
    /// Size 0.
    #[error("it is empty; give it a size with truncate -s")]
    Empty,
    /// The size is not a multiple of the logical block.
    #[error(
        "its size of {size_bytes} bytes is not a multiple of {LOGICAL_BLOCK_BYTES}; correct it with truncate -s"
    )]
    PartialBlock {
        /// Size found.
        size_bytes: u64,
    },
    /// Any other error of the system.
    #[error("{doing}: {error}")]
    System {
        /// The system call or step that failed.
        doing: &'static str,
        #[source]
        /// Error of the system.
        error: io::Error,
    },
}

impl Problem {
    pub(crate) fn system(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::System { doing, error }
    }
}

/// Opens the volume at `path` and locks it against other users: a file with flock(2), a zvol with `O_EXCL` (which also
/// refuses a mounted zvol). The lock lasts until the volume and its last operation have ended.
///
/// Blocks until the system has opened the path and stored its dirty pages.
///
/// # Errors
/// [`OpenError`], with the path and the remedy.
pub fn open(path: &Path, options: OpenOptions) -> Result<Opened, OpenError> {
    open_opened(path, options).map_err(|problem| OpenError {
        path: path.to_owned(),
        problem,
    })
}

fn open_opened(path: &Path, options: OpenOptions) -> Result<Opened, Problem> {
    // Check before opening: opening a FIFO blocks, and opening a character device can act on it.
    let metadata = fs::metadata(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Problem::Missing,
        _ => Problem::system("stat")(error),
    })?;
    let kind = metadata.file_type();
    if kind.is_file() {
        let volume = Arc::new(FileVolume::open(path, &metadata, options)?);
        return Ok(Opened {
            volume,
            backend: Backend::File,
        });
    }
    if kind.is_block_device()
        && is_zvol(metadata.rdev()).map_err(Problem::system("reading /proc/devices"))?
    {
        let volume = Arc::new(ZvolVolume::open(path, &metadata, options)?);
        return Ok(Opened {
            volume,
            backend: Backend::Zvol,
        });
    }
    // Who may create LUNs must not be able to read or write the server's own disks.
    Err(Problem::NotAVolume(if kind.is_block_device() {
        "a block device that is not a whole zvol"
    } else if kind.is_dir() {
        "a directory"
    } else if kind.is_char_device() {
        "a character device"
    } else {
        "a FIFO or socket"
    }))
}

/// Opens `path` with `flags` in addition to those that follow from `options`. Checks that it is still the file of `metadata`.
pub(crate) fn open_descriptor(
    path: &Path,
    metadata: &Metadata,
    options: OpenOptions,
    flags: OFlags,
) -> Result<File, Problem> {
    let access = if options.read_only {
        OFlags::RDONLY
    } else {
        OFlags::RDWR
    };
    let file = rustix::fs::open(path, access | flags | OFlags::CLOEXEC, Mode::empty())
        .map(File::from)
        .map_err(io::Error::from)
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Problem::Missing,
            io::ErrorKind::ResourceBusy => Problem::InUse,
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
                if !options.read_only =>
            {
                Problem::NotWritable(error)
            }
            _ => Problem::system("open")(error),
        })?;
    let opened = file.metadata().map_err(Problem::system("fstat"))?;
    let same = opened.file_type() == metadata.file_type()
        && opened.dev() == metadata.dev()
        && opened.ino() == metadata.ino()
        && opened.rdev() == metadata.rdev();
    if same {
        Ok(file)
    } else {
        Err(Problem::Missing)
    }
}

/// Whether a device number belongs to a whole zvol: it has the driver's major number, and is not a partition.
fn is_zvol(device: u64) -> io::Result<bool> {
    let devices = fs::read_to_string("/proc/devices")?;
    if !has_driver(&devices, major(device), "zvol") {
        return Ok(false);
    }
    let partition = format!(
        "/sys/dev/block/{}:{}/partition",
        major(device),
        minor(device)
    );
    Ok(!fs::exists(partition)?)
}

/// Whether /proc/devices gives the block device major number `major` to `driver` (proc(5)).
fn has_driver(devices: &str, major: u32, driver: &str) -> bool {
    devices
        .lines()
        .skip_while(|line| *line != "Block devices:")
        .filter_map(|line| line.trim().split_once(' '))
        .any(|(number, name)| number.parse() == Ok(major) && name == driver)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICES: &str =
        "Character devices:\n230 zvol\n  7 vcs\n\nBlock devices:\n  7 loop\n230 zvol\n259 blkext\n";

    #[test]
    fn a_zvol_is_known_by_its_block_major() {
        assert!(has_driver(DEVICES, 230, "zvol"));
        assert!(!has_driver(DEVICES, 7, "zvol"));
        let only_character = &DEVICES[..DEVICES.find("230 zvol\n259").unwrap()];
        assert!(!has_driver(only_character, 230, "zvol"));
    }
}
