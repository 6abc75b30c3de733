// SPDX-License-Identifier: Apache-2.0
//! The interface between a copy and a backend that can clone blocks.

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

/// Successful step of a clone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CloneStep {
    /// Bytes cloned, from the beginning of the requested range; more than 0, at most the whole range.
    pub done_bytes: u64,
    /// Of those, holes in the source and now in the destination: nothing is shared.
    pub hole_bytes: u64,
}

/// Step of a clone that failed, perhaps after a part of it succeeded.
#[derive(Debug)]
pub struct CloneRefusal {
    /// Why cloning stopped.
    pub reason: FallbackReason,
    /// The part from the beginning of the range that was cloned before the failure.
    pub done: CloneStep,
    /// Bytes after that part to which the reason also applies; 0 if unknown.
    pub length_bytes: u64,
    /// The backend's error, if there is more than the reason.
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

    /// Nothing was cloned; the backend has an error.
    pub(crate) fn failed(error: VolumeError) -> Self {
        Self {
            error: Some(error),
            ..Self::before_all(FallbackReason::Failed)
        }
    }
}
