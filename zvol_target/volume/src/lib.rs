// SPDX-License-Identifier: Apache-2.0
//! What a logical unit stores its blocks on.
//!
//! [`Volume`] is the second of the target's two narrow traits: `scsi` calls it, and nothing of SCSI or iSCSI is known
//! below it. Offsets and lengths are bytes here; logical block addresses end one layer up.
//!
//! Futures of a volume belong to the reactor thread that polls them (they are not `Send`): an operation completes on the
//! thread that submitted it, with no hand-off. How is the business of [`engine`].
//!
//! [`open`](open()) finds out what a path is and gives the backend for it: [`FileVolume`], [`BlockVolume`] or [`ZvolVolume`].

mod block;
mod buffer;
pub mod copy;
pub mod engine;
mod file;
mod gate;
mod growth;
mod in_place;
mod ioctl;
mod open;
mod patience;
mod sharing;
mod space;
mod store;
mod zeroes;
pub mod zfs;
mod zvol;
mod zvol_clone;

pub use block::BlockVolume;
pub use buffer::Buffer;
pub use file::FileVolume;
pub use open::{Backend, Caching, OpenError, OpenOptions, Opened, Problem, open};
pub use patience::unless_given_up;
pub use sharing::{ClonesUnderWay, SharePermit};
pub use space::{Allocation, BlockUsage, Extent, Growth, Space};
pub use zvol::ZvolVolume;

use std::future::{Future, ready};
use std::pin::Pin;

use copy::{CloneEnd, CloneRefusal, CloneStep};

/// A future that stays on its reactor thread.
pub type LocalBoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Sizes of a volume, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Capacity; a multiple of `logical_block_bytes`.
    pub size_bytes: u64,
    /// Smallest addressable unit: 512 or 4096.
    pub logical_block_bytes: u32,
    /// Unit the backend writes without reading first (volblocksize of a zvol); a power-of-two multiple of the logical block.
    pub physical_block_bytes: u32,
}

/// When a write counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stability {
    /// The write survives a power cut once its future is ready (SBC: FUA, or a disabled write cache).
    Stable,
    /// The write may be lost in a power cut until [`Volume::flush`] has completed.
    Cached,
}

/// Why an operation on a volume failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VolumeError {
    /// The range reaches beyond the end, or is not made of whole logical blocks.
    #[error("range of {length} bytes at {offset} does not fit the volume of {size_bytes} bytes")]
    OutOfRange {
        /// First requested byte.
        offset: u64,
        /// Requested bytes.
        length: u64,
        /// Capacity of the volume.
        size_bytes: u64,
    },
    /// No space to allocate what the write needs (ENOSPC, EDQUOT).
    #[error("no space left for the write")]
    OutOfSpace,
    /// The volume is read-only.
    #[error("the volume is read-only")]
    ReadOnly,
    /// The device is not there any more: pulled, destroyed, its driver gone (ENXIO, ENODEV). What is left of the volume is of no
    /// use; opened again, it may be there.
    #[error("the device is gone: {0}")]
    Gone(#[source] std::io::Error),
    /// The backing store reported another error.
    #[error("backing store: {0}")]
    Device(#[from] std::io::Error),
}

/// A range of bytes that can be read, written and made stable.
///
/// Implementations keep POSIX semantics for overlapping operations in flight: none is ordered against another.
/// Dropping a future gives up interest in its result; the operation itself runs to its end.
pub trait Volume: Send + Sync {
    /// Present sizes. The capacity can grow between two calls, the block sizes never change.
    fn geometry(&self) -> Geometry;

    /// Checks the backing store again: after a resize, [`Volume::geometry`] has the new capacity from here on.
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

    /// Fills the whole `buffer` from `offset` and gives it back.
    ///
    /// # Errors
    /// [`VolumeError::OutOfRange`], [`VolumeError::Gone`], [`VolumeError::Device`].
    fn read(&self, offset: u64, buffer: Buffer) -> LocalBoxFuture<'_, Result<Buffer, VolumeError>>;

    /// Writes the whole `buffer` at `offset`; ready when as stable as requested.
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

    /// Unit in which [`Volume::unmap`] gives space back, bytes: a whole granule, aligned to its size, or nothing of it. `None`
    /// when the volume can't give space back.
    fn unmap_granularity(&self) -> Option<u32> {
        None
    }

    /// The range reads as zeroes from now on; whole granules of it take no space any more. Edges are written with zeroes.
    ///
    /// # Errors
    /// As [`Volume::write`].
    fn unmap(
        &self,
        offset: u64,
        length: u64,
        stability: Stability,
    ) -> LocalBoxFuture<'_, Result<(), VolumeError>> {
        self.write_zeroes(offset, length, stability)
    }

    /// The range reads as zeroes from now on. Whether it takes space is the volume's business.
    ///
    /// # Errors
    /// As [`Volume::write`].
    fn write_zeroes(
        &self,
        offset: u64,
        length: u64,
        stability: Stability,
    ) -> LocalBoxFuture<'_, Result<(), VolumeError>> {
        Box::pin(zeroes::write(self, offset, length, stability))
    }

    /// Most bytes that one [`Volume::write`] with [`Stability::Stable`], at a multiple of as many, puts down whole or not at all, also
    /// when the power fails meanwhile; a power of two. `None` when nothing of the kind is known for certain.
    fn atomic_write_bytes(&self) -> Option<u32> {
        None
    }

    /// What is known to take space in the range: extents in ascending order that cover a beginning of it, one at least, at most
    /// `most`. Neighbours differ. [`Allocation::Hole`] reads as zeroes, for certain.
    ///
    /// # Errors
    /// As [`Volume::read`].
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

    /// Whether [`Volume::allocation`] knows without reading the data, and at once: nobody that others wait for asks it otherwise.
    fn has_allocation_map(&self) -> bool {
        false
    }

    /// Space the volume takes, and how much more it can take; `None` when its store does not tell.
    ///
    /// # Errors
    /// [`VolumeError::Gone`], [`VolumeError::Device`].
    fn space(&self) -> LocalBoxFuture<'_, Result<Option<Space>, VolumeError>> {
        Box::pin(ready(Ok(None)))
    }

    /// Counts what the blocks from `offset` on use, for a part of a second: at least one block. `None` when the backend cannot.
    ///
    /// # Errors
    /// [`VolumeError::Gone`], [`VolumeError::Device`].
    fn usage(&self, offset: u64) -> LocalBoxFuture<'_, Result<Option<BlockUsage>, VolumeError>> {
        let _ = offset;
        Box::pin(ready(Ok(None)))
    }

    /// The dataset of OpenZFS that it is, by its present name, if it is a zvol.
    fn dataset(&self) -> Option<String> {
        None
    }

    /// Whether the kernel believes that no write of the device is ever cached, and drops what makes one stable.
    fn is_write_through(&self) -> bool {
        false
    }

    /// What writes that would take more space meet with from now on.
    fn set_growth(&self, growth: Growth) {
        let _ = growth;
    }

    /// What was said last, less what was written upon it.
    fn growth(&self) -> Growth {
        Growth::Allowed
    }

    /// Makes it thick or thin. The blocks of a thick volume are never shared, and a write that its store refuses for want of space is
    /// tried again as an overwrite is. Returns the clones that began before it became thick.
    fn set_thick(&self, thick: bool) -> ClonesUnderWay {
        let _ = thick;
        ClonesUnderWay::default()
    }

    /// A permit to share its blocks, for one clone; `None` when it is thick.
    fn share(&self) -> Option<SharePermit> {
        Some(SharePermit::default())
    }

    /// This volume as an end of a clone; `None` when its backend can't clone blocks.
    fn clone_end(&self) -> Option<CloneEnd<'_>> {
        None
    }

    /// Has the range share the blocks of the source, as far as one step goes: no lock of the backend is held for longer. The ranges
    /// do not overlap. `permits` are those of both volumes, and are held until the kernel is done. Not stable before
    /// [`Volume::flush`]. [`copy`](mod@copy) is what calls it.
    ///
    /// # Errors
    /// [`CloneRefusal`]: nothing beyond what its `done` says was cloned for certain; what follows must be written again.
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
