// SPDX-License-Identifier: Apache-2.0
//! What to copy, and what a copy asks of its caller.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use crate::{LocalBoxFuture, Volume, VolumeError};

/// What to copy, bytes: any, not only whole blocks of either end. What else is in a block that is written in part stays as it is. Where source
/// and destination overlap inside one volume, the copy is as if all of the source had been read before anything was written: cut into
/// several, it would not be.
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

/// One step of a copy: what is read and what is written while its lock is held, bytes. Both may be in one volume, and overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// First byte in the source.
    pub source_offset: u64,
    /// First byte in the destination.
    pub destination_offset: u64,
    /// Length of both.
    pub length: u64,
    /// Logical blocks at the edges of the destination are written in part: what else is in them is read and written back.
    pub partial: bool,
}

/// Whole logical blocks of the volume that hold these bytes.
pub(super) fn whole_blocks(volume: &dyn Volume, offset: u64, length: u64) -> Range<u64> {
    let block = logical_block(volume);
    offset - offset % block..(offset + length).next_multiple_of(block)
}

pub(super) fn logical_block(volume: &dyn Volume) -> u64 {
    volume.geometry().logical_block_bytes.into()
}

/// The copy was given up by its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the copy was cancelled")]
pub struct Cancelled;

/// What a copy asks its caller for.
pub trait Steps {
    /// Locks the ranges of a step, which may be several at a time, against writers: the source against those that change it, the destination against all
    /// that may not overlap a write; of a partial step all of the destination's blocks, against every write. Dropping the guard lets go.
    /// Never held while the copy waits for a transaction group.
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
