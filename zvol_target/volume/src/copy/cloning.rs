// SPDX-License-Identifier: Apache-2.0
//! The first choice of a copy: clone the range in steps. Parts that cannot be cloned are read and written.

use std::ops::Range;

use super::job::Job;
use super::{
    CloneEnd, CloneRefusal, CloneStep, CopyError, CopyRange, CopyReport, FallbackReason, transfer,
};
use crate::{Growth, SharePermit};

/// Longest step, bytes. A range lock covers one step at a time.
pub(super) const STEP: u64 = 4 << 20;

/// After this many refusals, the rest of the step is read and written: more calls cost more than they save.
const MOST_REFUSALS: u32 = 8;

/// Whether source and destination can share blocks, as far as is known.
pub(super) struct Cloning {
    unit: u64,
    /// Set once cloning has stopped.
    given_up: Option<FallbackReason>,
}

impl Cloning {
    pub(super) fn new(range: &CopyRange) -> Self {
        let source = range.source.geometry().physical_block_bytes;
        let destination = range.destination.geometry().physical_block_bytes;
        let unit = u64::from(source.max(destination));
        let ends = (range.source.clone_end(), range.destination.clone_end());
        let given_up = if permits(range).is_none() {
            Some(FallbackReason::Thick)
        } else if !matches!(ends, (Some(_), Some(_))) {
            Some(FallbackReason::Unsupported)
        } else if source != destination {
            Some(FallbackReason::OtherBlockSize)
        } else if range.source_offset % unit != range.destination_offset % unit {
            Some(FallbackReason::Unaligned)
        } else {
            None
        };
        Self { unit, given_up }
    }

    /// Whether one step clones the whole range and reports the holes in it. Then a check of the map is one call too many. Where
    /// no new space may be allocated, a hole must be distinguished from a clone, as it needs none.
    pub(super) fn finds_holes(&self, range: &CopyRange) -> bool {
        self.given_up.is_none()
            && range.length <= STEP
            && matches!(range.destination.clone_end(), Some(CloneEnd::Zvol(_)))
            && range.destination.growth() == Growth::Allowed
    }

    /// Why cloning has stopped.
    pub(super) fn reason(&self) -> Option<FallbackReason> {
        self.given_up
    }

    pub(super) fn give_up(&mut self, reason: FallbackReason) {
        self.given_up.get_or_insert(reason);
    }

    /// Splits a part at the cloning unit: before the aligned middle, the middle, and behind it. Without cloning, the middle is
    /// the whole part.
    pub(super) fn split(&self, range: &CopyRange, part: Range<u64>) -> [Range<u64>; 3] {
        let Range { start, end } = part;
        if self.given_up.is_some() {
            return [start..start, start..end, end..end];
        }
        let from = range.source_offset + start;
        let to = range.source_offset + end;
        let first = from.next_multiple_of(self.unit) - from + start;
        let last = (to - to % self.unit).saturating_sub(range.source_offset);
        if first >= last {
            return [start..end, end..end, end..end];
        }
        [start..first, first..last, last..end]
    }

    /// Clones an aligned part from its beginning. Returns the rest, from the point where cloning stopped.
    pub(super) async fn run(
        &mut self,
        job: &Job<'_>,
        part: Range<u64>,
        report: &mut CopyReport,
    ) -> Result<Range<u64>, CopyError> {
        let mut at = part.start;
        while at < part.end && self.given_up.is_none() {
            let end = (at + STEP.max(self.unit)).min(part.end);
            at = self.step(job, at..end, report).await?;
        }
        Ok(at..part.end)
    }

    /// Clones one step under one range lock. Returns its end. That is before the end of the step only if cloning stopped.
    async fn step(
        &mut self,
        job: &Job<'_>,
        part: Range<u64>,
        report: &mut CopyReport,
    ) -> Result<u64, CopyError> {
        let _locked = job.steps.lock(job.step(&part)).await?;
        let mut at = part.start;
        let mut refusals = 0;
        while at < part.end {
            let refusal = match clone(job, at..part.end).await {
                Ok(step) => {
                    at += count(step, report);
                    continue;
                }
                Err(refusal) => refusal,
            };
            at += count(refusal.done, report);
            refusals += 1;
            let rest = part.end - at;
            let length = match (refusal.reason, refusal.error) {
                (FallbackReason::Dirty, _) if refusals < MOST_REFUSALS => {
                    match refusal.length_bytes {
                        0 => rest,
                        known => known.next_multiple_of(self.unit).min(rest),
                    }
                }
                (FallbackReason::Dirty, _) => rest,
                // Where reading or writing fails too, its error names the right end.
                (reason, error) => {
                    if let Some(error) = error {
                        tracing::warn!(%error, "a clone failed; the rest of the copy is read and written");
                    }
                    self.give_up(reason);
                    return Ok(at);
                }
            };
            transfer::locked(job, at..at + length, refusal.reason, report).await?;
            at += length;
        }
        Ok(at)
    }
}

/// The permits of source and destination; `None` if one of them is thick.
fn permits(range: &CopyRange) -> Option<[SharePermit; 2]> {
    Some([range.source.share()?, range.destination.share()?])
}

async fn clone(job: &Job<'_>, part: Range<u64>) -> Result<CloneStep, CloneRefusal> {
    let step = job.step(&part);
    let Some(source) = job.range.source.clone_end() else {
        return Err(CloneRefusal::unsupported());
    };
    // A volume can have become thick after the last step.
    let Some(permits) = permits(job.range) else {
        return Err(CloneRefusal::before_all(FallbackReason::Thick));
    };
    let (from, to) = (step.source_offset, step.destination_offset);
    let destination = &job.range.destination;
    let cloned = destination.clone_range(to, source, from, step.length, permits);
    cloned.await
}

fn count(step: CloneStep, report: &mut CopyReport) -> u64 {
    report.cloned_bytes += step.done_bytes - step.hole_bytes;
    report.zeroed_bytes += step.hole_bytes;
    step.done_bytes
}
