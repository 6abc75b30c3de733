// SPDX-License-Identifier: Apache-2.0
//! The storage behind a logical unit.
//!
//! [`Volume`] is the second of the target's two traits. `scsi` calls it; this crate knows nothing of SCSI or iSCSI. Offsets and
//! lengths are in bytes, whole logical blocks. The caller converts logical block addresses.
//!
//! Futures of a volume belong to the reactor thread that polls them (they are not `Send`). An operation completes on the thread
//! that submitted it, without a hand-off; see [`engine`].
//!
//! [`open`](open()) finds the backend for a path: [`FileVolume`] or [`ZvolVolume`].

mod buffer;
pub mod copy;
pub mod engine;
mod file;
mod gate;
mod growth;
mod ioctl;
mod open;
mod patience;
mod sharing;
mod space;
mod store;
pub mod zfs;
mod zvol;
mod zvol_clone;

pub use buffer::Buffer;
pub use file::FileVolume;
pub use open::{Backend, OpenError, OpenOptions, Opened, Problem, open};
pub use patience::unless_given_up;
pub use sharing::{RunningClones, SharePermit};
pub use space::{Allocation, BlockUsage, Extent, Growth, Space};
pub use zvol::ZvolVolume;

use std::future::{Future, ready};
use std::pin::Pin;

use copy::{CloneEnd, CloneRefusal, CloneStep};

/// A future that must stay on its reactor thread.
pub type LocalBoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Smallest addressable unit of every volume. A zvol has no other.
pub const LOGICAL_BLOCK_BYTES: u32 = 512;

/// Sizes of a volume, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Capacity; a multiple of [`LOGICAL_BLOCK_BYTES`].
    pub size_bytes: u64,
    /// Unit that the backend writes without reading first (volblocksize of a zvol): a power-of-two multiple of the logical block.
    pub physical_block_bytes: u32,
}

/// When a write counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stability {
    /// When the write survives a power cut.
    Stable,
    /// When later reads return the data. A power cut can lose it until [`Volume::flush`] has completed.
    Cached,
}

/// Why an operation on a volume failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VolumeError {
    /// The range reaches beyond the end, or does not consist of whole logical blocks.
    #[error("range of {length} bytes at {offset} does not fit the volume of {size_bytes} bytes")]
    OutOfRange {
        /// First requested byte.
        offset: u64,
        /// Requested bytes.
        length: u64,
        /// Capacity of the volume.
        size_bytes: u64,
    },
    /// The store cannot allocate the space that the write needs (ENOSPC, EDQUOT).
    #[error("no space left for the write")]
    OutOfSpace,
    /// The volume is read-only.
    #[error("the volume is read-only")]
    ReadOnly,
    /// The device no longer exists: removed, destroyed, or without a driver (ENXIO, ENODEV). This volume fails from now on;
    /// opening the path again can succeed.
    #[error("the device is gone: {0}")]
    Gone(#[source] std::io::Error),
    /// Another error of the backing store.
    #[error("backing store: {0}")]
    Device(#[from] std::io::Error),
}

/// A range of bytes that can be read, written and flushed.
///
/// Concurrent operations that overlap are not ordered, as in POSIX. Dropping a future abandons only its result: the operation
/// runs to its end.
pub trait Volume: Send + Sync {
    /// Current sizes. The capacity can grow between two calls. The physical block never changes.
    fn geometry(&self) -> Geometry;

    /// Reads the size of the backing store. After a resize, [`Volume::geometry`] returns the new capacity from now on.
    ///
    /// # Errors
    /// [`VolumeError::Device`].
    fn refresh(&self) -> Result<Geometry, VolumeError> {
        Ok(self.geometry())
    }

    /// Whether writes are refused with [`VolumeError::ReadOnly`].
    fn read_only(&self) -> bool {
        false
    }

    /// Fills all of `buffer` with the data at `offset`, and returns it.
    ///
    /// # Errors
    /// [`VolumeError::OutOfRange`], [`VolumeError::Gone`], [`VolumeError::Device`].
    fn read(&self, offset: u64, buffer: Buffer) -> LocalBoxFuture<'_, Result<Buffer, VolumeError>>;

    /// Writes all of `buffer` at `offset`. Ready once the data is as stable as requested.
    ///
    /// # Errors
    /// [`VolumeError::OutOfRange`], [`VolumeError::OutOfSpace`], [`VolumeError::ReadOnly`], [`VolumeError::Gone`],
    /// [`VolumeError::Device`].
    fn write(
        &self,
        offset: u64,
        buffer: Buffer,
        stability: Stability,
    ) -> LocalBoxFuture<'_, Result<(), VolumeError>>;

    /// Makes every write that completed before this call stable.
    ///
    /// # Errors
    /// [`VolumeError::OutOfSpace`], [`VolumeError::Gone`], [`VolumeError::Device`].
    fn flush(&self) -> LocalBoxFuture<'_, Result<(), VolumeError>>;

    /// Unit in which [`Volume::clear`] frees space, bytes. Only whole, aligned granules are freed. `None` if the volume cannot
    /// free space.
    fn unmap_granularity(&self) -> Option<u32> {
        None
    }

    /// Makes the range read as zeroes, and frees its whole granules. Writes zeroes to its edges.
    ///
    /// # Errors
    /// The errors of [`Volume::write`].
    fn clear(
        &self,
        offset: u64,
        length: u64,
        stability: Stability,
    ) -> LocalBoxFuture<'_, Result<(), VolumeError>> {
        self.write(offset, Buffer::zeroed(length as usize), stability)
    }

    /// Most bytes that one [`Volume::write`] with [`Stability::Stable`] writes atomically, even if the power fails. The write
    /// must be aligned to this size, a power of two. `None` if no size is certain.
    fn atomic_write_bytes(&self) -> Option<u32> {
        None
    }

    /// Space allocation of the range. Returns 1 to `most` extents of whole logical blocks in ascending order, from the beginning
    /// of the range. Neighbours differ. An [`Allocation::Hole`] certainly reads as zeroes.
    ///
    /// # Errors
    /// The errors of [`Volume::read`].
    fn allocation(
        &self,
        offset: u64,
        length: u64,
        most: usize,
    ) -> LocalBoxFuture<'_, Result<Vec<Extent>, VolumeError>> {
        let _ = most;
        Box::pin(ready(Ok(vec![Extent {
            offset,
            length,
            allocation: Allocation::Unknown,
        }])))
    }

    /// Whether [`Volume::allocation`] is fast, because it does not read the data. Otherwise, do not call it where other
    /// operations wait for the result.
    fn has_allocation_map(&self) -> bool {
        false
    }

    /// Space that the volume takes, and how much more it can take; `None` if its store does not report it.
    ///
    /// # Errors
    /// [`VolumeError::Gone`], [`VolumeError::Device`].
    fn space(&self) -> LocalBoxFuture<'_, Result<Option<Space>, VolumeError>> {
        Box::pin(ready(Ok(None)))
    }

    /// Counts what the blocks from `offset` on use. Runs for a part of a second, for at least one block. `None` if the backend
    /// cannot count.
    ///
    /// # Errors
    /// [`VolumeError::Gone`], [`VolumeError::Device`].
    fn usage(&self, offset: u64) -> LocalBoxFuture<'_, Result<Option<BlockUsage>, VolumeError>> {
        let _ = offset;
        Box::pin(ready(Ok(None)))
    }

    /// Current name of the OpenZFS dataset, if the volume is a zvol.
    fn dataset(&self) -> Option<String> {
        None
    }

    /// Whether the kernel's queue is set to write through: then the kernel drops the flags that make a write stable.
    fn is_write_through(&self) -> bool {
        false
    }

    /// Sets whether writes may allocate new space from now on.
    fn set_growth(&self, growth: Growth) {
        let _ = growth;
    }

    /// The growth set last, less the bytes written since.
    fn growth(&self) -> Growth {
        Growth::Allowed
    }

    /// Makes the volume thick or thin. A thick volume never shares blocks; if its store refuses a write for lack of space, the
    /// write is retried like an overwrite. Returns the clones that began before the volume became thick.
    fn set_thick(&self, thick: bool) -> RunningClones {
        let _ = thick;
        RunningClones::default()
    }

    /// A permit for one clone to share blocks of the volume; `None` if it is thick.
    fn share(&self) -> Option<SharePermit> {
        Some(SharePermit::default())
    }

    /// The volume as source or destination of a clone; `None` if its backend cannot clone blocks.
    fn clone_end(&self) -> Option<CloneEnd<'_>> {
        None
    }

    /// Clones one step: the range shares the blocks of the source from its beginning. A step is short, as the backend holds its
    /// locks for that time. The ranges must not overlap. `permits` are those of both volumes; they are held until the kernel is
    /// done. Not stable before [`Volume::flush`]. Called by [`copy`](mod@copy).
    ///
    /// # Errors
    /// [`CloneRefusal`]: only the part in its `done` is certainly cloned. The rest must be written again.
    fn clone_range<'a>(
        &'a self,
        offset: u64,
        source: CloneEnd<'a>,
        source_offset: u64,
        length: u64,
        permits: [SharePermit; 2],
    ) -> LocalBoxFuture<'a, Result<CloneStep, CloneRefusal>> {
        let _ = (offset, source, source_offset, length, permits);
        Box::pin(ready(Err(CloneRefusal::unsupported())))
    }
}
