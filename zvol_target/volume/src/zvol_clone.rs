// SPDX-License-Identifier: Apache-2.0
//! Clones and maps of zvols, with the kernel module `zvol_clone` (`packaging/dkms/zvol_clone` in the repository).

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::copy::{CloneRefusal, CloneStep, FallbackReason};
use crate::ioctl::{
    ZVOL_CLONE_VERSION, ZvolCloneExtent, ZvolCloneRange, zvol_clone_map, zvol_clone_range,
    zvol_clone_space,
};
use crate::store;
use crate::{Allocation, BlockUsage, Extent, VolumeError};

/// `ZVOL_CLONE_DEVICE` of `zvol_clone.h`.
const DEVICE: &str = "/dev/zvol_clone";

/// Interval between attempts to open a missing device.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Most extents per request.
const MOST_EXTENTS: usize = 1024;

/// Time limit of one call that counts blocks, nanoseconds.
const COUNTING: u64 = 200_000_000;

/// `enum zvol_clone_stopped` of `zvol_clone.h`.
mod stopped {
    pub(super) const OTHER_VERSION: u32 = 1;
    pub(super) const BAD_REQUEST: u32 = 2;
    pub(super) const NOT_BLOCK_DEVICE: u32 = 5;
    pub(super) const NOT_ZVOL: u32 = 6;
    pub(super) const PARTITION: u32 = 7;
    pub(super) const REMOVED: u32 = 8;
    pub(super) const UNKNOWN_LAYOUT: u32 = 9;
    pub(super) const READ_ONLY: u32 = 10;
    pub(super) const OTHER_POOL: u32 = 11;
    pub(super) const OTHER_KEY: u32 = 12;
    pub(super) const OTHER_BLOCK_SIZE: u32 = 13;
    pub(super) const UNALIGNED: u32 = 14;
    pub(super) const DIRTY: u32 = 17;
    pub(super) const SIGNAL: u32 = 18;
}

/// `ZVOL_CLONE_HOLE` of `enum zvol_clone_kind`.
const HOLE: u32 = 0;

/// The device, once it was found, and the time of the last attempt.
static OPENED: Mutex<(Option<Arc<File>>, Option<Instant>)> = Mutex::new((None, None));

/// The module's device, opened once. A missing device is tried again later, as the module can be loaded later.
pub(crate) fn device() -> Option<Arc<File>> {
    let (device, tried) = &mut *OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    if device.is_some() || tried.is_some_and(|last| last.elapsed() < RETRY_INTERVAL) {
        return device.clone();
    }
    let first = tried.replace(Instant::now()).is_none();
    match File::options().read(true).write(true).open(DEVICE) {
        Ok(file) => {
            tracing::info!("zvols are cloned and mapped by the module zvol_clone");
            *device = Some(Arc::new(file));
        }
        Err(error) if first => {
            tracing::warn!(%error, "no {DEVICE}: copies between zvols are read and written until the module zvol_clone is loaded");
        }
        Err(_) => {}
    }
    device.clone()
}

/// Clones `length` bytes. Blocks the calling thread.
pub(crate) fn clone_range(
    device: &File,
    destination: &File,
    destination_offset: u64,
    source: &OwnedFd,
    source_offset: u64,
    length: u64,
) -> Result<CloneStep, CloneRefusal> {
    let mut done = CloneStep::default();
    loop {
        let mut request = ZvolCloneRange {
            version: ZVOL_CLONE_VERSION,
            source_fd: source.as_raw_fd(),
            destination_fd: destination.as_raw_fd(),
            source_offset: source_offset + done.done_bytes,
            destination_offset: destination_offset + done.done_bytes,
            length: length - done.done_bytes,
            ..ZvolCloneRange::default()
        };
        let result = zvol_clone_range(device, &mut request);
        done.done_bytes += request.bytes_done;
        done.hole_bytes += request.hole_bytes;
        match result {
            Ok(()) => return Ok(done),
            Err(_) if request.stopped == stopped::SIGNAL => {}
            Err(error) => return Err(refusal(&request, done, error)),
        }
    }
}

fn refusal(request: &ZvolCloneRange, done: CloneStep, error: io::Error) -> CloneRefusal {
    use stopped::{
        BAD_REQUEST, DIRTY, NOT_BLOCK_DEVICE, NOT_ZVOL, OTHER_BLOCK_SIZE, OTHER_KEY, OTHER_POOL,
        OTHER_VERSION, PARTITION, READ_ONLY, REMOVED, UNALIGNED, UNKNOWN_LAYOUT,
    };
    let unsupported = Errno::from_io_error(&error) == Some(Errno::OPNOTSUPP);
    let (reason, error) = match request.stopped {
        DIRTY => (FallbackReason::Dirty, None),
        OTHER_POOL => (FallbackReason::OtherPool, None),
        OTHER_KEY => (FallbackReason::OtherKey, None),
        OTHER_BLOCK_SIZE => (FallbackReason::OtherBlockSize, None),
        UNALIGNED => (FallbackReason::Unaligned, None),
        READ_ONLY => (FallbackReason::Failed, Some(VolumeError::ReadOnly)),
        REMOVED => (FallbackReason::Failed, Some(VolumeError::Gone(error))),
        OTHER_VERSION | BAD_REQUEST | NOT_BLOCK_DEVICE | NOT_ZVOL | PARTITION | UNKNOWN_LAYOUT => {
            tracing::warn!(%error, stopped = request.stopped, "the module zvol_clone refused a clone");
            (FallbackReason::Unsupported, None)
        }
        // The pool's feature block_cloning is not enabled.
        _ if unsupported => (FallbackReason::Unsupported, None),
        _ => (FallbackReason::Failed, Some(store::classify(error))),
    };
    CloneRefusal {
        reason,
        done,
        length_bytes: request.dirty_length,
        error,
    }
}

/// Counts what the blocks at the beginning of a range use. Blocks the calling thread. `None` if the module is too old.
pub(crate) fn usage(
    device: &File,
    volume: &File,
    offset: u64,
    length: u64,
) -> io::Result<Option<BlockUsage>> {
    loop {
        match zvol_clone_space(device, volume, offset, length, COUNTING) {
            Ok(counted) if counted.bytes_done == 0 => {}
            Ok(counted) => {
                return Ok(Some(BlockUsage {
                    counted_bytes: counted.bytes_done.min(length),
                    allocated_bytes: counted.allocated,
                    shared_bytes: counted.shared,
                    snapshot_bytes: counted.snapshot,
                    deduplicated_bytes: counted.deduplicated,
                }));
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NOTTY) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

/// The map of a range, from its first block on. Blocks the calling thread. `block` is the volblocksize.
pub(crate) fn map(
    device: &File,
    volume: &File,
    offset: u64,
    length: u64,
    block: u64,
    most: usize,
) -> io::Result<Vec<Extent>> {
    let first = offset - offset % block;
    let end = (offset + length).next_multiple_of(block);
    // At most MOST_EXTENTS.
    let most = most.clamp(1, MOST_EXTENTS) as u32;
    let mapped = loop {
        match zvol_clone_map(device, volume, first, end - first, most) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => break other?,
        }
    };
    Ok(extents(&mapped, first, offset, offset + length))
}

/// The extents between `from` and `to`, in a map that begins at `first`.
fn extents(mapped: &[ZvolCloneExtent], first: u64, from: u64, to: u64) -> Vec<Extent> {
    let mut mapped_extents: Vec<Extent> = Vec::new();
    let mut at = first;
    for &ZvolCloneExtent { length, kind, .. } in mapped {
        let (begin, end) = (at.max(from), (at + length).min(to));
        at += length;
        if begin >= end {
            continue;
        }
        let allocation = if kind == HOLE {
            Allocation::Hole
        } else {
            Allocation::Allocated
        };
        match mapped_extents.last_mut() {
            Some(last) if last.allocation == allocation => last.length += end - begin,
            _ => mapped_extents.push(Extent {
                offset: begin,
                length: end - begin,
                allocation,
            }),
        }
    }
    mapped_extents
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_is_cut_to_the_requested_range_and_unsynced_blocks_are_allocated() {
        let mapped = [(HOLE, 8192), (1, 8192), (2, 8192), (HOLE, 8192)];
        let mapped = mapped.map(|(kind, length)| ZvolCloneExtent {
            length,
            kind,
            reserved: 0,
        });
        let mapped_extents = extents(&mapped, 0, 4096, 25088);
        let expected = [
            (4096, 4096, Allocation::Hole),
            (8192, 16384, Allocation::Allocated),
            (24576, 512, Allocation::Hole),
        ];
        let expected = expected.map(|(offset, length, allocation)| Extent {
            offset,
            length,
            allocation,
        });
        assert_eq!(mapped_extents, expected);
    }

    #[test]
    fn each_refusal_has_its_reason() {
        let refused = |stopped, errno: Errno| {
            let request = ZvolCloneRange {
                stopped,
                dirty_length: 7,
                ..ZvolCloneRange::default()
            };
            refusal(&request, CloneStep::default(), errno.into())
        };
        let dirty = refused(stopped::DIRTY, Errno::AGAIN);
        assert_eq!(
            (dirty.reason, dirty.length_bytes),
            (FallbackReason::Dirty, 7)
        );
        let full = refused(21, Errno::DQUOT);
        assert!(matches!(full.error, Some(VolumeError::OutOfSpace)));
        let full = refused(21, Errno::NOSPC);
        assert!(matches!(full.error, Some(VolumeError::OutOfSpace)));
        let feature = refused(21, Errno::OPNOTSUPP);
        assert!(feature.error.is_none() && feature.reason == FallbackReason::Unsupported);
        let failed = refused(19, Errno::IO);
        assert!(matches!(failed.error, Some(VolumeError::Device(_))));
        let gone = refused(stopped::REMOVED, Errno::NXIO);
        assert!(matches!(gone.error, Some(VolumeError::Gone(_))));
    }
}
