// SPDX-License-Identifier: Apache-2.0
//! Copies between volumes and inside one volume: clone blocks where possible, else read and write.
//!
//! Holes of the source, taken from its map, become holes of the destination if it supports them. The rest is split into an
//! aligned middle and edges. The middle is cloned in steps; the edges are read and written. If the two volumes cannot share
//! blocks, everything is read and written, several pieces at a time. The caller keeps writers off the range of each step
//! ([`Steps`]). A [`CopyReport`] counts how the bytes were copied.
//!
//! Source blocks that are not on disk yet cannot be cloned. They are read and written, which costs no more than a host's copy.
//! Waiting for their transaction group would delay every command of a host, and would not end for a source that is written all
//! the time.

mod clone;
mod cloning;
mod holes;
mod job;
mod range;
mod report;
mod transfer;

pub use clone::{CloneEnd, CloneRefusal, CloneStep};
pub use range::{Cancelled, CopyError, CopyRange, Step, Steps};
pub use report::{CopyReport, FallbackReason};

use crate::Stability;

/// Why a copy will clone nothing, if that is known before it begins. Source and destination in different pools are not seen here.
pub fn known_fallback(range: &CopyRange) -> Option<FallbackReason> {
    cloning::Cloning::new(range).reason()
}

/// Copies `range` and adds to `report` as it goes. With [`Stability::Stable`], everything is stable on success; after a failure,
/// the bytes that `report` counts are stable.
///
/// To cancel a copy, let [`Steps::lock`] fail. If the future is dropped instead, running operations continue without their locks.
///
/// # Errors
/// [`CopyError`]. `report` counts the bytes copied from the beginning of the range. If the flush fails, it counts none; the error
/// is that of the copy if there is one, else that of the flush.
pub async fn copy(
    range: &CopyRange,
    stability: Stability,
    steps: &dyn Steps,
    report: &mut CopyReport,
) -> Result<(), CopyError> {
    let before = report.clone();
    let copied = job::run(range, steps, report).await;
    if stability == Stability::Stable && *report != before {
        if let Err(error) = range.destination.flush().await {
            *report = before;
            return copied.and(Err(CopyError::Destination(error)));
        }
    }
    copied
}
