// SPDX-License-Identifier: Apache-2.0
//! Statistics of the bytes that offloads moved.

use std::sync::atomic::{AtomicU64, Ordering};

use volume::copy::{CopyReport, FallbackReason};

/// Bytes by method, from the creation of the counted object on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OffloadStatistics {
    /// Copied by sharing blocks with the source.
    pub cloned_bytes: u64,
    /// Copied by reading and writing.
    pub copied_bytes: u64,
    /// Set to zero: by WRITE SAME, or as zeroes in the source of a copy.
    pub zeroed_bytes: u64,
    /// Deallocated in whole granules: by UNMAP, or by WRITE SAME with UNMAP.
    pub unmapped_bytes: u64,
    /// Number of COMPARE AND WRITE commands with different data.
    pub miscompares: u64,
    /// Copied bytes that were not cloned, by [`FallbackReason`] as index.
    pub fallback_bytes: [u64; FallbackReason::ALL.len()],
}

impl OffloadStatistics {
    pub(crate) fn add(&mut self, other: &Self) {
        let Self {
            cloned_bytes,
            copied_bytes,
            zeroed_bytes,
            unmapped_bytes,
            miscompares,
            fallback_bytes,
        } = other;
        self.cloned_bytes += cloned_bytes;
        self.copied_bytes += copied_bytes;
        self.zeroed_bytes += zeroed_bytes;
        self.unmapped_bytes += unmapped_bytes;
        self.miscompares += miscompares;
        for (sum, bytes) in self.fallback_bytes.iter_mut().zip(fallback_bytes) {
            *sum += bytes;
        }
    }
}

impl From<&CopyReport> for OffloadStatistics {
    fn from(report: &CopyReport) -> Self {
        Self {
            cloned_bytes: report.cloned_bytes,
            copied_bytes: report.copied_bytes,
            zeroed_bytes: report.zeroed_bytes,
            fallback_bytes: report.fallback_bytes,
            ..Self::default()
        }
    }
}

/// The live counters.
#[derive(Debug, Default)]
pub(crate) struct OffloadCounters {
    cloned_bytes: AtomicU64,
    copied_bytes: AtomicU64,
    zeroed_bytes: AtomicU64,
    unmapped_bytes: AtomicU64,
    miscompares: AtomicU64,
    fallback_bytes: [AtomicU64; FallbackReason::ALL.len()],
}

impl OffloadCounters {
    pub(crate) fn add(&self, more: &OffloadStatistics) {
        let fields = [
            (&self.cloned_bytes, more.cloned_bytes),
            (&self.copied_bytes, more.copied_bytes),
            (&self.zeroed_bytes, more.zeroed_bytes),
            (&self.unmapped_bytes, more.unmapped_bytes),
            (&self.miscompares, more.miscompares),
        ];
        let fallbacks = self.fallback_bytes.iter().zip(more.fallback_bytes);
        for (counter, more) in fields.into_iter().chain(fallbacks) {
            counter.fetch_add(more, Ordering::Relaxed);
        }
    }

    pub(crate) fn snapshot(&self) -> OffloadStatistics {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        OffloadStatistics {
            cloned_bytes: load(&self.cloned_bytes),
            copied_bytes: load(&self.copied_bytes),
            zeroed_bytes: load(&self.zeroed_bytes),
            unmapped_bytes: load(&self.unmapped_bytes),
            miscompares: load(&self.miscompares),
            fallback_bytes: self.fallback_bytes.each_ref().map(load),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_the_sum_of_additions() {
        let mut report = CopyReport {
            cloned_bytes: 1,
            copied_bytes: 2,
            zeroed_bytes: 3,
            ..CopyReport::default()
        };
        report.fallback_bytes[FallbackReason::Dirty as usize] = 5;
        let once = OffloadStatistics {
            unmapped_bytes: 7,
            miscompares: 11,
            ..OffloadStatistics::from(&report)
        };
        let counters = OffloadCounters::default();
        counters.add(&once);
        counters.add(&once);
        let mut twice = once;
        twice.add(&once);
        assert_eq!(counters.snapshot(), twice);
        assert_eq!((twice.cloned_bytes, twice.miscompares), (2, 22));
        assert_eq!(twice.fallback_bytes[FallbackReason::Dirty as usize], 10);
    }
}
