// SPDX-License-Identifier: Apache-2.0
//! The range to copy, and the locks that a copy needs from its caller.

use std::any::Any;
use std::sync::Arc;

use crate::{LocalBoxFuture, Volume, VolumeError};

/// A range to copy, in bytes: whole logical blocks. Source and destination must not overlap in one volume.
#[derive(Clone)]
pub struct CopyRange {
    /// Volume to read.
    pub source: Arc<dyn Volume>,
    /// First byte in the source.
    pub source_offset: u64,
    /// May be the same volume as `source`.
    pub destination: Arc<dyn Volume>,
    /// First byte in the destination.
    pub destination_offset: u64,
    /// Bytes to copy.
    pub length: u64,
}

/// One step of a copy, in bytes: the range that is read and the range that is written under one lock. Both can be in one volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// First byte in the source.
    pub source_offset: u64,
    /// First byte in the destination.
    pub destination_offset: u64,
    /// Length of both.
    pub length: u64,
}

/// The caller cancelled the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the copy was cancelled")]
pub struct Cancelled;

/// Locks that the caller of a copy provides.
pub trait Steps {
    /// Locks the ranges of a step; several steps can be locked at a time. The source is locked against writes, the destination
    /// against everything that must not overlap a write. Dropping the guard releases the lock. It is never held while the copy
    /// waits for a transaction group.
    ///
    /// # Errors
    /// [`Cancelled`] to end the copy before this step.
    fn lock(&self, step: Step) -> LocalBoxFuture<'_, Result<Box<dyn Any>, Cancelled>>;
}

/// Why a copy ended early. Its report counts what was copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The caller cancelled it.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// Reading failed.
    #[error("reading the source: {0}")]
    Source(#[source] VolumeError),
    /// Writing or cloning failed.
    #[error("writing the destination: {0}")]
    Destination(#[source] VolumeError),
}
