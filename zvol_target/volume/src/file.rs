// SPDX-License-Identifier: Apache-2.0
//! A volume on a regular file.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, FlockOperation, OFlags, fallocate, flock, fstatfs};
use rustix::io::Errno;

use crate::copy::{CloneEnd, CloneRefusal, CloneStep, FallbackReason};
use crate::growth;
use crate::ioctl::clone_file_range;
use crate::open::{OpenOptions, Problem, open_descriptor};
use crate::store::{Clearing, Facts, Store, Way, classify, volume_on_store};
use crate::{
    Extent, Geometry, LOGICAL_BLOCK_BYTES, LocalBoxFuture, SharePermit, Space, VolumeError,
};

/// `TMPFS_MAGIC` and `RAMFS_MAGIC` of statfs(2): file systems that store data only in memory.
const MEMORY_FILE_SYSTEMS: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// `ZFS_SUPER_MAGIC` of OpenZFS. Files on it are read and written, not cloned. Up to 2.3.9 at least, it clones a hole that was
/// just punched as the old blocks, and frees them twice (openzfs#16012, #18853); no interface reports whether the hole is on
/// disk. `SEEK_DATA` of a file that was just written waits for its transaction group (`zfs_dmu_offset_next_sync`), which is too
/// long for a command that others wait for.
const ZFS_SUPER_MAGIC: u64 = 0x2fc1_2fc1;

/// A volume on a regular file, through the page cache, locked with flock(2).
///
/// The physical block is the file system's preference (`st_blksize`; on ZFS the record size).
pub struct FileVolume {
    store: Store,
    on_zfs: bool,
}

impl FileVolume {
    pub(crate) fn open(
        path: &Path,
        metadata: &Metadata,
        options: OpenOptions,
    ) -> Result<Self, Problem> {
        let file = open_descriptor(path, metadata, options, OFlags::empty())?;
        lock(&file, options.read_only)?;
        let metadata = file.metadata().map_err(Problem::system("fstat"))?;
        let size_bytes = metadata.len();
        if size_bytes == 0 {
            return Err(Problem::Empty);
        }
        if size_bytes % u64::from(LOGICAL_BLOCK_BYTES) != 0 {
            return Err(Problem::PartialBlock { size_bytes });
        }
        let statistics =
            fstatfs(&file).map_err(|error| Problem::system("fstatfs")(error.into()))?;
        let is_one_of = |magics: &[u64]| {
            u64::try_from(statistics.f_type).is_ok_and(|magic| magics.contains(&magic))
        };
        let physical_block_bytes = physical_block(metadata.blksize());
        let punches = !options.read_only && punches_holes(&file, size_bytes);
        let facts = Facts {
            geometry: Geometry {
                size_bytes,
                physical_block_bytes,
            },
            clearing: Clearing::new(
                if punches {
                    &[Way::PunchHole, Way::ZeroRange]
                } else {
                    &[Way::ZeroRange]
                },
                punches.then_some(physical_block_bytes),
            ),
            read_only: options.read_only,
            in_memory: is_one_of(&MEMORY_FILE_SYSTEMS),
            pool: None,
        };
        Ok(Self {
            store: Store::new(file, facts),
            on_zfs: is_one_of(&[ZFS_SUPER_MAGIC]),
        })
    }

    fn present_size(&self) -> Result<u64, VolumeError> {
        Ok(self.store.file().metadata()?.len())
    }
}

volume_on_store!(
    FileVolume,
    /// One sector: file systems write whole sectors, and a disk writes a sector or does not.
    fn atomic_write_bytes(&self) -> Option<u32> {
        Some(LOGICAL_BLOCK_BYTES)
    },
    fn has_allocation_map(&self) -> bool {
        !self.on_zfs
    },
    fn allocation(
        &self,
        offset: u64,
        length: u64,
        most: usize,
    ) -> LocalBoxFuture<'_, Result<Vec<Extent>, VolumeError>> {
        Box::pin(self.store.holes(offset, length, most))
    },
    fn space(&self) -> LocalBoxFuture<'_, Result<Option<Space>, VolumeError>> {
        Box::pin(self.store.file_space())
    },
    fn clone_end(&self) -> Option<CloneEnd<'_>> {
        let file = self.store.file().as_fd();
        (!self.on_zfs).then_some(CloneEnd::File(file))
    },
    fn clone_range<'a>(
        &'a self,
        offset: u64,
        source: CloneEnd<'a>,
        source_offset: u64,
        length: u64,
        permits: [SharePermit; 2],
    ) -> LocalBoxFuture<'a, Result<CloneStep, CloneRefusal>> {
        Box::pin(self.clone_from(offset, source, source_offset, length, permits))
    },
);

impl FileVolume {
    async fn clone_from(
        &self,
        offset: u64,
        source: CloneEnd<'_>,
        source_offset: u64,
        length: u64,
        permits: [SharePermit; 2],
    ) -> Result<CloneStep, CloneRefusal> {
        let CloneEnd::File(source) = source else {
            return Err(CloneRefusal::unsupported());
        };
        growth::admit_clone(self, &self.store, offset, length)
            .await
            .map_err(CloneRefusal::failed)?;
        let failed = |error| CloneRefusal::failed(classify(error));
        // The thread can outlive both volumes.
        let source = source.try_clone_to_owned().map_err(failed)?;
        let cloned = self.store.change(offset, length, move |file| {
            let source = source.as_fd();
            let cloned = clone_file_range(file, offset, source, source_offset, length);
            drop(permits);
            Ok(cloned)
        });
        match cloned.await {
            Ok(Ok(())) => Ok(CloneStep {
                done_bytes: length,
                hole_bytes: 0,
            }),
            Ok(Err(error)) => Err(clone_refusal(error)),
            Err(error) => Err(CloneRefusal::failed(error)),
        }
    }
}

/// Maps an error of `FICLONERANGE` (`ioctl_ficlonerange(2)`).
fn clone_refusal(error: io::Error) -> CloneRefusal {
    let reason = match Errno::from_io_error(&error) {
        Some(Errno::OPNOTSUPP | Errno::NOTTY | Errno::NOSYS) => FallbackReason::Unsupported,
        Some(Errno::XDEV) => FallbackReason::OtherPool,
        Some(Errno::INVAL) => FallbackReason::Unaligned,
        Some(Errno::AGAIN) => FallbackReason::Dirty,
        _ => return CloneRefusal::failed(classify(error)),
    };
    CloneRefusal::before_all(reason)
}

/// Whether the file system can free a part of the file. Tries it far behind the end of the file, where there is no data.
fn punches_holes(file: &File, size_bytes: u64) -> bool {
    let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let beyond = size_bytes.next_multiple_of(1 << 20) + (1 << 20);
    !matches!(
        fallocate(file, mode, beyond, 1 << 20),
        Err(Errno::OPNOTSUPP | Errno::NOSYS)
    )
}

fn lock(file: &File, shared: bool) -> Result<(), Problem> {
    let operation = if shared {
        FlockOperation::NonBlockingLockShared
    } else {
        FlockOperation::NonBlockingLockExclusive
    };
    flock(file, operation).map_err(|error| match error {
        rustix::io::Errno::WOULDBLOCK => Problem::InUse,
        other => Problem::system("flock")(other.into()),
    })
}

/// `st_blksize` if it is a power of two that SCSI can report, else 4096.
fn physical_block(preferred: u64) -> u32 {
    match u32::try_from(preferred) {
        Ok(bytes @ LOGICAL_BLOCK_BYTES..=0x0100_0000) if bytes.is_power_of_two() => bytes,
        _ => 4096,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn physical_block_is_a_power_of_two_of_whole_logical_blocks() {
        assert_eq!(physical_block(131_072), 131_072);
        for odd in [0, 1, 96 << 10, u64::MAX] {
            assert_eq!(physical_block(odd), 4096);
        }
    }
}
