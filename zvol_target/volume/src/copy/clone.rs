// SPDX-License-Identifier: Apache-2.0
//! What a backend that can clone blocks and a copy say to each other.

use std::os::fd::BorrowedFd;

use super::FallbackReason;
use crate::VolumeError;

/// An open volume of a backend that can clone blocks.
#[derive(Clone, Copy, Debug)]
pub enum CloneEnd<'a> {
    /// A zvol of the kernel module.
    Zvol(BorrowedFd<'a>),
    /// A regular file.
    File(BorrowedFd<'a>),
}

/// One step of a clone that went well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CloneStep {
    /// Bytes cloned, from the beginning of the requested range; more than 0, at most the whole range.
    pub done_bytes: u64,
    /// Of those, holes in the source and now in the destination: nothing is shared.
    pub hole_bytes: u64,
}

/// One step of a clone that did not.
#[derive(Debug)]
pub struct CloneRefusal {
    /// Why.
    pub reason: FallbackReason,
    /// What was cloned from the beginning of the range nevertheless.
    pub done: CloneStep,
    /// Bytes after those to which the reason is known to apply; 0 when that is not known.
    pub length_bytes: u64,
    /// What the backend said, where that is an error beyond the reason.
    pub error: Option<VolumeError>,
}

impl CloneRefusal {
    /// The backend has no way to clone.
    pub fn unsupported() -> Self {
        Self::before_all(FallbackReason::Unsupported)
    }

    /// Nothing was cloned.
    pub(crate) fn before_all(reason: FallbackReason) -> Self {
        Self {
            reason,
            done: CloneStep::default(),
            length_bytes: 0,
            error: None,
        }
    }

    /// Nothing was cloned, and the same would become of a write.
    pub(crate) fn failed(error: VolumeError) -> Self {
        Self {
            error: Some(error),
            ..Self::before_all(FallbackReason::Failed)
        }
    }
}
