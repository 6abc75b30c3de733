// SPDX-License-Identifier: Apache-2.0
//! A volume on a zvol of the OpenZFS kernel module.

use std::fs::{self, File, Metadata};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{OFlags, ioctl_blkpbszget, ioctl_blksszget, major, minor};

use crate::copy::{CloneEnd, CloneRefusal, CloneStep};
use crate::gate::Gate;
use crate::growth;
use crate::open::{OpenOptions, Problem, open_descriptor};
use crate::store::{Clearing, Facts, Store, Way, classify, volume_on_store};
use crate::{
    Allocation, BlockUsage, Buffer, Extent, Geometry, LOGICAL_BLOCK_BYTES, LocalBoxFuture,
    SharePermit, VolumeError, buffer, zfs, zvol_clone,
};

/// A volume on a zvol (/dev/zvol/POOL/NAME), opened with `O_EXCL`: a zvol that is mounted, or has another exclusive user, is
/// refused.
///
/// The physical block is the volblocksize. `O_DIRECT` makes the write that caused an error return it: through the page cache, a
/// zvol's ENOSPC is lost at writeback (openzfs#2889).
pub struct ZvolVolume {
    store: Store,
    /// `queue/write_cache` of the device in sysfs.
    write_cache: PathBuf,
    write_through: AtomicBool,
}

impl ZvolVolume {
    pub(crate) fn open(
        path: &Path,
        metadata: &Metadata,
        options: OpenOptions,
    ) -> Result<Self, Problem> {
        let file = open_descriptor(path, metadata, options, OFlags::EXCL | OFlags::DIRECT)?;
        let geometry = geometry(&file).map_err(Problem::system("reading the zvol's sizes"))?;
        let dataset = zfs::dataset_of(&file).ok();
        let facts = Facts {
            geometry,
            read_only: options.read_only,
            in_memory: false,
            // A zvol reads zeroes where it was discarded, and frees whole volblocks. It rounds a discard inward, and returns
            // success for the edges that it skipped (zvol_discard() of OpenZFS 2.3). So discard only whole volblocks.
            clearing: Clearing::new(&[Way::Discard], Some(geometry.physical_block_bytes)),
            pool: dataset.map(|name| zfs::pool_of(&name).to_owned()),
        };
        let mut store = Store::new(file, facts);
        store.gate = Gate::of_zvol();
        let (major, minor) = (major(metadata.rdev()), minor(metadata.rdev()));
        let write_cache = format!("/sys/dev/block/{major}:{minor}/queue/write_cache");
        let volume = Self {
            store,
            write_cache: write_cache.into(),
            write_through: AtomicBool::new(false),
        };
        volume.find_write_cache();
        Ok(volume)
    }

    /// A zvol has a write cache: Linux sends it `REQ_FUA` and flushes. If a user sets its queue to "write through", the block
    /// layer drops both (`submit_bio_noacct()` of Linux 6.12), and stable writes are not stable.
    fn find_write_cache(&self) {
        let text = fs::read_to_string(&self.write_cache);
        let write_through = text.is_ok_and(|text| text.trim() == "write through");
        if write_through && !self.write_through.swap(write_through, Ordering::Relaxed) {
            tracing::warn!(
                file = %self.write_cache.display(),
                "the queue of a zvol is set to write through: a power cut loses its stable writes. Write \"write back\" to the file"
            );
        }
        self.write_through.store(write_through, Ordering::Relaxed);
    }

    fn present_size(&self) -> Result<u64, VolumeError> {
        self.find_write_cache();
        // An export of the pool waits until its zvols are closed. Until then they have the same size, and all I/O fails with EIO.
        // Only open(2) returns ENXIO (zvol_open() of OpenZFS 2.3).
        let path = format!("/proc/self/fd/{}", self.store.file().as_raw_fd());
        if let Err(error) = File::open(path).map_err(classify) {
            if matches!(error, VolumeError::Gone(_)) {
                return Err(error);
            }
        }
        Ok(size(self.store.file())?)
    }
}

volume_on_store!(
    ZvolVolume,
    /// A synchronous write of at most `zil_maxcopied` bytes (7680) is one record of the ZIL, in one log block. OpenZFS can split
    /// a longer one into records of several log blocks (`zil_lwb_assign()` of OpenZFS 2.3), of which only the first may survive.
    /// So a write of a whole volblock is not atomic.
    fn atomic_write_bytes(&self) -> Option<u32> {
        Some(ATOMIC_WRITE_BYTES)
    },
    fn dataset(&self) -> Option<String> {
        zfs::dataset_of(self.store.file()).ok()
    },
    fn is_write_through(&self) -> bool {
        self.write_through.load(Ordering::Relaxed)
    },
    fn has_allocation_map(&self) -> bool {
        zvol_clone::device().is_some()
    },
    fn allocation(
        &self,
        offset: u64,
        length: u64,
        most: usize,
    ) -> LocalBoxFuture<'_, Result<Vec<Extent>, VolumeError>> {
        Box::pin(async move {
            match zvol_clone::device() {
                Some(device) => self.mapped(&device, offset, length, most).await,
                None => self.read_map(offset, length, most).await,
            }
        })
    },
    fn usage(&self, offset: u64) -> LocalBoxFuture<'_, Result<Option<BlockUsage>, VolumeError>> {
        Box::pin(async move {
            let Some(device) = zvol_clone::device() else {
                return Ok(None);
            };
            let length = self.store.geometry().size_bytes.saturating_sub(offset);
            let count = move |file: &File| zvol_clone::usage(&device, file, offset, length);
            self.store.inspect(offset, length, count).await
        })
    },
    fn clone_end(&self) -> Option<CloneEnd<'_>> {
        zvol_clone::device().map(|_| CloneEnd::Zvol(self.store.file().as_fd()))
    },
    fn clone_range<'a>(
        &'a self,
        offset: u64,
        source: CloneEnd<'a>,
        source_offset: u64,
        length: u64,
        permits: [SharePermit; 2],
    ) -> LocalBoxFuture<'a, Result<CloneStep, CloneRefusal>> {
        Box::pin(async move {
            let (CloneEnd::Zvol(source), Some(device)) = (source, zvol_clone::device()) else {
                return Err(CloneRefusal::unsupported());
            };
            growth::admit_clone(self, &self.store, offset, length)
                .await
                .map_err(CloneRefusal::failed)?;
            let failed = |error| CloneRefusal::failed(classify(error));
            // The thread can outlive both volumes.
            let source = source.try_clone_to_owned().map_err(failed)?;
            let cloned = self.store.change(offset, length, move |file| {
                let clone = zvol_clone::clone_range;
                let cloned = clone(&device, file, offset, &source, source_offset, length);
                drop(permits);
                Ok(cloned)
            });
            cloned
                .await
                .unwrap_or_else(|error| Err(CloneRefusal::failed(error)))
        })
    },
);

/// A power of two that fits into one record of the ZIL; also the smallest useful volblocksize.
const ATOMIC_WRITE_BYTES: u32 = 4096;

/// Sizes as the zvol reports them: BLKSSZGET, BLKPBSZGET (the volblocksize).
fn geometry(file: &File) -> io::Result<Geometry> {
    let logical_block_bytes = ioctl_blksszget(file)?;
    if logical_block_bytes != LOGICAL_BLOCK_BYTES {
        let other = format!("logical blocks of {logical_block_bytes} bytes are not supported");
        return Err(io::Error::other(other));
    }
    Ok(Geometry {
        size_bytes: size(file)?,
        physical_block_bytes: ioctl_blkpbszget(file)?,
    })
}

/// Size by a seek to the end (equal to BLKGETSIZE64). No other code uses the descriptor's position.
fn size(mut file: &File) -> io::Result<u64> {
    file.seek(SeekFrom::End(0))
}

/// Bytes to read at a time to find the allocation, if no map is available.
const READ_BYTES: u64 = 1 << 20;

impl ZvolVolume {
    /// The allocation as the module reports it: in the pool now, and of dirty blocks.
    async fn mapped(
        &self,
        device: &Arc<File>,
        offset: u64,
        length: u64,
        most: usize,
    ) -> Result<Vec<Extent>, VolumeError> {
        let device = Arc::clone(device);
        let block = u64::from(self.store.geometry().physical_block_bytes);
        self.store
            .inspect(offset, length, move |file| {
                zvol_clone::map(&device, file, offset, length, block, most)
            })
            .await
    }

    /// Finds the allocation of the beginning of the range from its data. A block that is not zero certainly takes space. A block
    /// of zeroes is reported as a hole. Without compression, it takes space if zeroes were written to it.
    async fn read_map(
        &self,
        offset: u64,
        length: u64,
        most: usize,
    ) -> Result<Vec<Extent>, VolumeError> {
        let Geometry {
            size_bytes,
            physical_block_bytes,
            ..
        } = self.store.geometry();
        let block = u64::from(physical_block_bytes);
        let first = offset - offset % block;
        let end = offset + length.min(READ_BYTES);
        let last = end.next_multiple_of(block).min(size_bytes.max(end));
        let buffer = Buffer::new((last - first) as usize);
        let data = self.store.read(first, buffer).await?;
        let mut extents: Vec<Extent> = Vec::new();
        let mut at = first;
        for bytes in data.chunks(physical_block_bytes as usize) {
            let (begin, until) = (at.max(offset), (at + block).min(end));
            at += block;
            let allocation = if buffer::is_zero(bytes) {
                Allocation::Hole
            } else {
                Allocation::Allocated
            };
            let full = extents.len() == most.max(1);
            match extents.last_mut() {
                _ if begin >= until => {}
                Some(known) if known.allocation == allocation => known.length += until - begin,
                _ if full => break,
                _ => extents.push(Extent {
                    offset: begin,
                    length: until - begin,
                    allocation,
                }),
            }
        }
        Ok(extents)
    }
}
