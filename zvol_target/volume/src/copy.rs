//! Copies between volumes, and within one, by one ladder: clone blocks, else read and write.
//!
//! The caller keeps writers off what a step works on ([`Steps`]); how each byte went is told in a [`CopyReport`].

use std::any::Any;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::{LocalBoxFuture, Stability, Volume, VolumeError};

/// Why bytes were not cloned; a fallback is counted under one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FallbackReason {
    /// The backends of source and destination can't clone from one to the other, or there is no means to ask them (`zvol_clone`
    /// is not loaded).
    Unsupported,
    /// Offsets or length are no multiples of the unit of cloning: edges, or all where the two ends are not aligned alike.
    Unaligned,
    /// Source and destination are in different pools or file systems.
    OtherPool,
    /// Different volblocksize or record size.
    OtherBlockSize,
    /// Encrypted with different keys.
    OtherKey,
    /// Source blocks were not on disk yet.
    Dirty,
    /// Source and destination overlap.
    Overlap,
    /// What a clone in a thick volume would cost can't be reserved.
    Reservation,
    /// The backend failed a clone; the log says how.
    Failed,
}

impl FallbackReason {
    /// All of them, in the order of their discriminants.
    pub const ALL: [Self; 9] = [
        Self::Unsupported,
        Self::Unaligned,
        Self::OtherPool,
        Self::OtherBlockSize,
        Self::OtherKey,
        Self::Dirty,
        Self::Overlap,
        Self::Reservation,
        Self::Failed,
    ];
}

/// How the bytes of a copy went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyReport {
    /// Shared with the source.
    pub cloned_bytes: u64,
    /// Read and written.
    pub copied_bytes: u64,
    /// Zero in the source, unmapped or written as zeroes in the destination, and neither read whole nor counted above.
    pub zeroed_bytes: u64,
    /// Of `copied_bytes` and `zeroed_bytes`, those that were not cloned for this reason, by [`FallbackReason`] as index.
    pub fallback_bytes: [u64; FallbackReason::ALL.len()],
}

impl CopyReport {
    /// Bytes done, whichever way.
    pub fn total_bytes(&self) -> u64 {
        self.cloned_bytes + self.copied_bytes + self.zeroed_bytes
    }
}

/// An open volume of a backend that can clone blocks.
#[derive(Clone, Copy, Debug)]
pub enum CloneEnd<'a> {
    /// A zvol of the kernel module.
    Zvol(BorrowedFd<'a>),
    /// A regular file.
    File(BorrowedFd<'a>),
}

/// One step of a clone that went well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloneStep {
    /// Bytes cloned, from the beginning of the range asked for; more than 0, at most what was asked for.
    pub done_bytes: u64,
}

/// One step of a clone that did not.
#[derive(Debug)]
pub struct CloneRefusal {
    /// Why.
    pub reason: FallbackReason,
    /// Bytes from the beginning of the range that were cloned nevertheless.
    pub done_bytes: u64,
    /// Bytes after those to which the reason is known to apply; 0 when that is not known.
    pub length_bytes: u64,
    /// What the backend said, where that is an error beyond the reason.
    pub error: Option<VolumeError>,
}

impl CloneRefusal {
    /// The backend has no way to clone.
    pub fn unsupported() -> Self {
        Self {
            reason: FallbackReason::Unsupported,
            done_bytes: 0,
            length_bytes: 0,
            error: None,
        }
    }
}

/// What to copy, bytes.
#[derive(Clone)]
pub struct CopyRange {
    /// Where from.
    pub source: Arc<dyn Volume>,
    /// First byte there.
    pub source_offset: u64,
    /// Where to; may be the same volume.
    pub destination: Arc<dyn Volume>,
    /// First byte there.
    pub destination_offset: u64,
    /// How much.
    pub length: u64,
}

/// One step of a copy: what is read and what is written while its lock is held, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// First byte in the source.
    pub source_offset: u64,
    /// First byte in the destination.
    pub destination_offset: u64,
    /// Length of both.
    pub length: u64,
}

/// The copy was given up by its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the copy was cancelled")]
pub struct Cancelled;

/// What a copy asks its caller for.
pub trait Steps {
    /// Locks the ranges of a step against writers (the source against those that change it, the destination against all that
    /// may not overlap a write). Dropping the guard lets go. Never held while the copy waits for a transaction group.
    ///
    /// # Errors
    /// [`Cancelled`] to end the copy before this step.
    fn lock(&self, step: Step) -> LocalBoxFuture<'_, Result<Box<dyn Any>, Cancelled>>;
}

/// Why a copy ended early. What its report counts was copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// By the caller.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// Reading failed.
    #[error("reading the source: {0}")]
    Source(#[source] VolumeError),
    /// Writing or cloning failed.
    #[error("writing the destination: {0}")]
    Destination(#[source] VolumeError),
}

/// Copies `range`, adding to `report` as it goes. With [`Stability::Stable`] all of it is stable when ready.
///
/// # Errors
/// [`CopyError`]; `report` says how far it got, always from the beginning of the range on.
pub async fn copy(
    range: &CopyRange,
    stability: Stability,
    steps: &dyn Steps,
    report: &mut CopyReport,
) -> Result<(), CopyError> {
    const STEP_BYTES: u64 = 1 << 20;
    let mut done = 0;
    while done < range.length {
        let step = Step {
            source_offset: range.source_offset + done,
            destination_offset: range.destination_offset + done,
            length: (range.length - done).min(STEP_BYTES),
        };
        let _locked = steps.lock(step).await?;
        let buffer = crate::Buffer::new(step.length as usize);
        let data = range.source.read(step.source_offset, buffer).await;
        let data = data.map_err(CopyError::Source)?;
        let written = range
            .destination
            .write(step.destination_offset, data, stability)
            .await;
        written.map_err(CopyError::Destination)?;
        done += step.length;
        report.copied_bytes += step.length;
        report.fallback_bytes[FallbackReason::Unsupported as usize] += step.length;
    }
    Ok(())
}
