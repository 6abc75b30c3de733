// SPDX-License-Identifier: Apache-2.0
//! How long commands take, in buckets of powers of two.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets of a [`LatencyHistogram`]: the last is for everything of 2^26 microseconds (67 seconds) or more.
pub const LATENCY_BUCKETS: usize = 28;

/// Commands counted by the time they took, from their entry into the task set to their status.
///
/// That is what the target took, and for a WRITE the time its data was on the way; not what the response waited for the
/// network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LatencyHistogram {
    /// Commands of each bucket: the first took less than 1 microsecond, bucket `n` from 2^(n-1) to less than 2^n.
    pub counts: [u64; LATENCY_BUCKETS],
    /// Microseconds of all of them together.
    pub total_microseconds: u64,
}

impl LatencyHistogram {
    /// Microseconds that no command of the bucket reached; `None` for the last bucket, which has no bound.
    pub fn upper_bound_microseconds(bucket: usize) -> Option<u64> {
        (bucket < LATENCY_BUCKETS - 1).then(|| 1 << bucket)
    }

    /// Commands of all buckets.
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
    fn every_duration_is_below_the_bound_of_its_bucket_and_not_below_the_one_before() {
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
    fn what_was_recorded_is_in_the_snapshot() {
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
