// SPDX-License-Identifier: Apache-2.0
//! Copies between volumes, and within one, by one ladder: clone blocks, else read and write.
//!
//! Holes of the source are taken from its map and become holes of the destination, where that can have some. What is left is cut
//! into an aligned middle, which is cloned in steps, and edges, which are read and written; so is all of it when the two ends can't
//! share blocks, several pieces at a time. The caller keeps writers off what a step works on ([`Steps`]); how each byte went is
//! reported in a [`CopyReport`].
//!
//! Source blocks that are not on disk yet can't be cloned. They are read and written, which costs what a host's copy of them
//! costs and not more. To wait for their transaction group instead would be a wait for each command of a host, and for a source that is
//! written all the time one without end.

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

/// Copies `range`, adding to `report` as it goes. With [`Stability::Stable`] all of it is stable when ready, or what `report` counts
/// when it failed.
///
/// It is ended by [`Steps::lock`]. Dropped instead, what it has under way goes on without its locks.
///
/// # Errors
/// [`CopyError`]; `report` says how far it got, always from the beginning of the range on. When it could not be made stable, that is
/// nothing of it: with the error of the copy, or that of the flush where the copy had none.
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
