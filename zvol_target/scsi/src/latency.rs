// SPDX-License-Identifier: Apache-2.0
//! Durations of commands, in buckets of powers of two.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets of a [`LatencyHistogram`]. The last one counts 2^26 microseconds (67 seconds) or more.
pub const LATENCY_BUCKETS: usize = 28;

/// Commands counted by duration, from their entry into the task set to their status.
///
/// This is the time in the target. For a WRITE it includes the transfer of its data, but not the transfer of the response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LatencyHistogram {
    /// Commands of each bucket: less than 1 microsecond in the first, from 2^(n-1) to less than 2^n in bucket `n`.
    pub counts: [u64; LATENCY_BUCKETS],
    /// Total duration of all commands, microseconds.
    pub total_microseconds: u64,
}

impl LatencyHistogram {
    /// Exclusive upper bound of a bucket, microseconds; `None` for the last bucket.
    pub fn upper_bound_microseconds(bucket: usize) -> Option<u64> {
        (bucket < LATENCY_BUCKETS - 1).then(|| 1 << bucket)
    }

    /// Number of commands in all buckets.
    pub fn operations(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        self.total_microseconds += other.total_microseconds;
    }
}

fn bucket(microseconds: u64) -> usize {
    // 0 has no digit, 1 has one, 2 and 3 have two.
    let digits = u64::BITS - microseconds.leading_zeros();
    (digits as usize).min(LATENCY_BUCKETS - 1)
}

/// The live histogram.
#[derive(Debug, Default)]
pub(crate) struct LatencyCounters {
    counts: [AtomicU64; LATENCY_BUCKETS],
    total_microseconds: AtomicU64,
}

impl LatencyCounters {
    pub(crate) fn record(&self, elapsed: Duration) {
        let microseconds = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
        if let Some(count) = self.counts.get(bucket(microseconds)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.total_microseconds
            .fetch_add(microseconds, Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self) -> LatencyHistogram {
        LatencyHistogram {
            counts: std::array::from_fn(|bucket| {
                self.counts
                    .get(bucket)
                    .map_or(0, |count| count.load(Ordering::Relaxed))
            }),
            total_microseconds: self.total_microseconds.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_is_in_the_bounds_of_its_bucket() {
        for microseconds in (0..64).flat_map(|power| {
            let power = 1_u64 << power;
            [power - 1, power, power + 1]
        }) {
            let bucket = bucket(microseconds);
            if let Some(bound) = LatencyHistogram::upper_bound_microseconds(bucket) {
                assert!(microseconds < bound, "{microseconds}");
            }
            if bucket > 0 {
                let below = LatencyHistogram::upper_bound_microseconds(bucket - 1);
                assert!(
                    below.is_some_and(|bound| microseconds >= bound),
                    "{microseconds}"
                );
            }
        }
    }

    #[test]
    fn the_snapshot_has_all_recorded_values() {
        let counters = LatencyCounters::default();
        for microseconds in [0, 1, 100, 127, 128, 100_000_000] {
            counters.record(Duration::from_micros(microseconds));
        }
        let mut histogram = counters.snapshot();
        assert_eq!(histogram.operations(), 6);
        assert_eq!(histogram.total_microseconds, 100_000_356);
        assert_eq!(
            (
                histogram.counts[0],
                histogram.counts[1],
                histogram.counts[7],
                histogram.counts[8],
                histogram.counts[LATENCY_BUCKETS - 1]
            ),
            (1, 1, 2, 1, 1)
        );
        histogram.add(&counters.snapshot());
        assert_eq!(histogram.operations(), 12);
    }
}
