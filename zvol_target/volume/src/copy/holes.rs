// SPDX-License-Identifier: Apache-2.0
//! Reads the source's map for the next part of a copy. The map is a hint: the copy checks a hole again under its lock.

use std::collections::VecDeque;
use std::ops::Range;

use super::{CopyError, CopyRange};
use crate::{Allocation, Extent};

/// Shorter holes are copied with the data around them.
const SHORTEST: u64 = 256 << 10;
/// Extents requested at a time.
const EXTENTS: usize = 256;

/// A part of the copy, from the requested offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Data, up to this offset at least.
    Data(u64),
    /// A hole, up to this offset at least.
    Hole(u64),
}

/// Extents that the source reported and the copy has not processed yet.
pub(super) struct Holes {
    extents: VecDeque<Extent>,
    /// Shortest hole to report; `None`: report none.
    shortest: Option<u64>,
}

impl Holes {
    pub(super) fn new(range: &CopyRange) -> Self {
        let granularity = range.destination.unmap_granularity();
        let mapped = range.source.has_allocation_map();
        Self {
            extents: VecDeque::new(),
            shortest: granularity
                .filter(|_| mapped)
                .map(|granularity| SHORTEST.max(granularity.into())),
        }
    }

    /// Everything is reported as data.
    pub(super) fn without_map() -> Self {
        Self {
            extents: VecDeque::new(),
            shortest: None,
        }
    }

    /// The next part from `at` on, counted from the beginning of `range`.
    pub(super) async fn next(&mut self, range: &CopyRange, at: u64) -> Result<Next, CopyError> {
        let Some(shortest) = self.shortest.filter(|&least| range.length - at >= least) else {
            return Ok(Next::Data(range.length));
        };
        let offset = range.source_offset + at;
        self.drop_before(offset);
        if self.extents.is_empty() {
            let length = range.length - at;
            let extents = range.source.allocation(offset, length, EXTENTS).await;
            self.extents = extents.map_err(CopyError::Source)?.into();
        }
        let mut end = range.length;
        for extent in &self.extents {
            let hole = hole(range, extent);
            if hole.end.saturating_sub(hole.start) >= shortest {
                if hole.start == at {
                    return Ok(Next::Hole(hole.end));
                }
                end = hole.start;
                break;
            }
            end = (extent.offset + extent.length - range.source_offset).min(range.length);
        }
        Ok(Next::Data(end))
    }

    fn drop_before(&mut self, offset: u64) {
        while let Some(first) = self.extents.front_mut() {
            let end = first.offset + first.length;
            if end > offset {
                let from = first.offset.max(offset);
                *first = Extent {
                    offset: from,
                    length: end - from,
                    ..*first
                };
                return;
            }
            self.extents.pop_front();
        }
    }
}

/// The part of `range` in a hole of the source, counted from its beginning; empty if the extent is none.
fn hole(range: &CopyRange, extent: &Extent) -> Range<u64> {
    if extent.allocation != Allocation::Hole {
        return 0..0;
    }
    let from = extent.offset - range.source_offset;
    from..(from + extent.length).min(range.length)
}
