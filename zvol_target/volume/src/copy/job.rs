// SPDX-License-Identifier: Apache-2.0
//! Runs a copy: chooses a method for each of its parts.

use std::ops::Range;

use super::cloning::Cloning;
use super::holes::{Holes, Next};
use super::{CopyError, CopyRange, CopyReport, FallbackReason, Step, Steps, transfer};
use crate::{Allocation, Stability};

/// Longest step of a hole. No data moves, but the lock is held while the map is checked and the destination discarded.
const LONGEST_HOLE: u64 = 64 << 20;

/// Parts of a copy, as ranges of bytes counted from its beginning.
pub(super) struct Job<'a> {
    pub(super) range: &'a CopyRange,
    pub(super) steps: &'a dyn Steps,
}

impl Job<'_> {
    pub(super) fn step(&self, part: &Range<u64>) -> Step {
        Step {
            source_offset: self.range.source_offset + part.start,
            destination_offset: self.range.destination_offset + part.start,
            length: part.end - part.start,
        }
    }

    /// Copies part by part, from the beginning.
    async fn forward(
        &self,
        cloning: &mut Cloning,
        report: &mut CopyReport,
    ) -> Result<(), CopyError> {
        let mut holes = if cloning.finds_holes(self.range) {
            Holes::without_map()
        } else {
            Holes::new(self.range)
        };
        let mut at = 0;
        while at < self.range.length {
            let end = match holes.next(self.range, at).await? {
                Next::Data(end) => end,
                Next::Hole(end) => {
                    let end = end.min(at + LONGEST_HOLE);
                    let cleared = self.hole(at..end, cloning.reason(), report).await?;
                    at += cleared;
                    if cleared > 0 {
                        continue;
                    }
                    // The hole was written in the meantime.
                    end
                }
            };
            self.data(at..end, cloning, report).await?;
            at = end;
        }
        Ok(())
    }

    /// Makes a hole where the source still has one. Returns its length.
    async fn hole(
        &self,
        part: Range<u64>,
        reason: Option<FallbackReason>,
        report: &mut CopyReport,
    ) -> Result<u64, CopyError> {
        let CopyRange {
            source,
            destination,
            ..
        } = self.range;
        let step = self.step(&part);
        let _locked = self.steps.lock(step).await?;
        let extents = source.allocation(step.source_offset, step.length, 1);
        let extents = extents.await.map_err(CopyError::Source)?;
        let length = match extents.first() {
            Some(first) if first.allocation == Allocation::Hole => first.length.min(step.length),
            _ => return Ok(0),
        };
        let cleared = destination.clear(step.destination_offset, length, Stability::Cached);
        cleared.await.map_err(CopyError::Destination)?;
        report.zeroed_bytes += length;
        if let Some(reason) = reason {
            report.fall_back(reason, length);
        }
        Ok(length)
    }

    async fn data(
        &self,
        part: Range<u64>,
        cloning: &mut Cloning,
        report: &mut CopyReport,
    ) -> Result<(), CopyError> {
        let [head, middle, tail] = cloning.split(self.range, part);
        let unaligned = FallbackReason::Unaligned;
        transfer::parallel(self, head, cloning.reason().unwrap_or(unaligned), report).await?;
        let rest = cloning.run(self, middle, report).await?;
        let reason = cloning.reason().unwrap_or(FallbackReason::Unsupported);
        transfer::parallel(self, rest, reason, report).await?;
        transfer::parallel(self, tail, cloning.reason().unwrap_or(unaligned), report).await
    }
}

/// Copies all of `range`.
pub(super) async fn run(
    range: &CopyRange,
    steps: &dyn Steps,
    report: &mut CopyReport,
) -> Result<(), CopyError> {
    let mut cloning = Cloning::new(range);
    Job { range, steps }.forward(&mut cloning, report).await
}
