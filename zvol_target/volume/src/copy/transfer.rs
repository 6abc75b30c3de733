// SPDX-License-Identifier: Apache-2.0
//! The fallback: read and write several pieces at a time. Zeroes become holes if the destination supports them.

use std::cell::RefCell;
use std::ops::Range;
use std::pin::pin;

use futures_util::stream::{StreamExt, iter};

use super::job::Job;
use super::{CopyError, CopyRange, CopyReport, FallbackReason, Step};
use crate::{Buffer, Stability, buffer};

/// Bytes of a piece, and concurrent pieces: together the memory that a copy needs.
const PIECE: u64 = 1 << 20;
const PIECES: usize = 4;

/// Shorter runs of zeroes are written like the data around them.
const SHORTEST_ZEROES: u64 = 64 << 10;

/// Copies a part, each piece under a separate lock.
pub(super) async fn parallel(
    job: &Job<'_>,
    part: Range<u64>,
    reason: FallbackReason,
    report: &mut CopyReport,
) -> Result<(), CopyError> {
    in_order(job, part, true, reason, report).await
}

/// Copies a part that the caller has locked.
pub(super) async fn locked(
    job: &Job<'_>,
    part: Range<u64>,
    reason: FallbackReason,
    report: &mut CopyReport,
) -> Result<(), CopyError> {
    in_order(job, part, false, reason, report).await
}

async fn in_order(
    job: &Job<'_>,
    part: Range<u64>,
    lock: bool,
    reason: FallbackReason,
    report: &mut CopyReport,
) -> Result<(), CopyError> {
    let offset = job.range.destination_offset;
    let mut at = part.start;
    let failed = RefCell::new(None);
    let parts = std::iter::from_fn(|| {
        let end = end_of_piece(offset + at, offset + part.end) - offset;
        let piece = at..end;
        at = end;
        (!piece.is_empty() && failed.borrow().is_none()).then_some(piece)
    });
    // Lock one after the other, in order.
    let locked = iter(parts).then(|part| async move {
        let step = job.step(&part);
        let held = if lock {
            Some(job.steps.lock(step).await)
        } else {
            None
        };
        (step, held.transpose())
    });
    let copied = locked.map(|(step, held)| async move {
        let _held = held?;
        piece(job.range, step).await
    });
    let mut results = pin!(copied.buffered(PIECES));
    // After a failure, still wait for the running pieces: their locks are released at their end.
    while let Some(result) = results.next().await {
        match result {
            Ok(piece) if failed.borrow().is_none() => piece.count(reason, report),
            Ok(_) => {}
            Err(error) => {
                failed.borrow_mut().get_or_insert(error);
            }
        }
    }
    failed.take().map_or(Ok(()), Err)
}

/// Result of a piece.
struct Piece {
    copied: u64,
    zeroed: u64,
}

impl Piece {
    fn count(&self, reason: FallbackReason, report: &mut CopyReport) {
        report.copied_bytes += self.copied;
        report.zeroed_bytes += self.zeroed;
        report.fall_back(reason, self.copied + self.zeroed);
    }
}

/// End of the piece that begins at `at` in the destination, for a part that ends at `end`: whole blocks, as they divide [`PIECE`].
fn end_of_piece(at: u64, end: u64) -> u64 {
    end.min(at / PIECE * PIECE + PIECE)
}

async fn piece(range: &CopyRange, step: Step) -> Result<Piece, CopyError> {
    let buffer = Buffer::new(step.length as usize);
    let read = range.source.read(step.source_offset, buffer).await;
    let data = read.map_err(CopyError::Source)?;
    let destination = &range.destination;
    let offset = step.destination_offset;
    let granularity = destination.unmap_granularity().map_or(0, u64::from);
    let mut piece = Piece {
        copied: 0,
        zeroed: 0,
    };
    let runs = runs(&data, offset, granularity);
    if let [(_, false)] = runs[..] {
        piece.copied = step.length;
        let written = destination.write(offset, data, Stability::Cached).await;
        return written.map(|()| piece).map_err(CopyError::Destination);
    }
    for (run, zero) in runs {
        let length = (run.end - run.start) as u64;
        let at = offset + run.start as u64;
        let done = if zero {
            piece.zeroed += length;
            destination.clear(at, length, Stability::Cached).await
        } else {
            piece.copied += length;
            let part = Buffer::from(&data[run]);
            destination.write(at, part, Stability::Cached).await
        };
        done.map_err(CopyError::Destination)?;
    }
    Ok(piece)
}

/// Splits data for `offset` into runs: whole granules of zeroes (flag true), and other data. Without granularity, there is one
/// run.
fn runs(data: &[u8], offset: u64, granularity: u64) -> Vec<(Range<usize>, bool)> {
    let whole = vec![(0..data.len(), false)];
    if granularity == 0 {
        return whole;
    }
    let unit = SHORTEST_ZEROES.next_multiple_of(granularity);
    let head = (offset.next_multiple_of(unit) - offset).min(data.len() as u64) as usize;
    let mut runs: Vec<(Range<usize>, bool)> = Vec::new();
    let mut add = |from: usize, bytes: &[u8], zero: bool| match runs.last_mut() {
        _ if bytes.is_empty() => {}
        Some((last, same)) if *same == zero => last.end = from + bytes.len(),
        _ => runs.push((from..from + bytes.len(), zero)),
    };
    let (first, rest) = data.split_at(head);
    add(0, first, false);
    let mut at = head;
    for part in rest.chunks(unit as usize) {
        let zero = part.len() as u64 == unit && buffer::is_zero(part);
        add(at, part, zero);
        at += part.len();
    }
    if runs.is_empty() { whole } else { runs }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: usize = SHORTEST_ZEROES as usize;

    #[test]
    fn zeroes_are_found_in_whole_granules() {
        let mut data = vec![0; 8 * UNIT];
        assert_eq!(runs(&data, 0, 4096), [(0..8 * UNIT, true)]);
        assert_eq!(runs(&data, 0, 0), [(0..8 * UNIT, false)]);
        data[3 * UNIT + 5] = 1;
        let actual = runs(&data, 0, 16384);
        let expected = [
            (0..3 * UNIT, true),
            (3 * UNIT..4 * UNIT, false),
            (4 * UNIT..8 * UNIT, true),
        ];
        assert_eq!(actual, expected);
        // Not aligned in the destination: the edges are written.
        let actual = runs(&data[4 * UNIT..], 512, 16384);
        let expected = [
            (0..UNIT - 512, false),
            (UNIT - 512..4 * UNIT - 512, true),
            (4 * UNIT - 512..4 * UNIT, false),
        ];
        assert_eq!(actual, expected);
        assert_eq!(runs(&data[..512], 512, 16384), [(0..512, false)]);
        // A larger granule.
        assert_eq!(
            runs(&data[..2 * UNIT], 0, 4 * SHORTEST_ZEROES),
            [(0..2 * UNIT, false)]
        );
    }
}
