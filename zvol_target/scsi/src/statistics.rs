// SPDX-License-Identifier: Apache-2.0
//! Counters of commands for logical units, nexuses and hosts.

use std::ops::Index;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::latency::{LatencyCounters, LatencyHistogram};
use crate::offload_statistics::{OffloadCounters, OffloadStatistics};
use crate::sense::SenseKey;

/// Family of a command in the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// READ(6), (10), (12), (16).
    Read,
    /// WRITE(6), (10), (12), (16), WRITE AND VERIFY(10), (12), (16).
    Write,
    /// VERIFY(10), (12), (16).
    Verify,
    /// SYNCHRONIZE CACHE(10), (16).
    SynchronizeCache,
    /// COMPARE AND WRITE.
    CompareAndWrite,
    /// WRITE SAME(10), (16).
    WriteSame,
    /// UNMAP.
    Unmap,
    /// EXTENDED COPY, RECEIVE COPY RESULTS.
    ExtendedCopy,
    /// POPULATE TOKEN, WRITE USING TOKEN, RECEIVE ROD TOKEN INFORMATION.
    Token,
    /// PERSISTENT RESERVE IN and OUT, RESERVE and RELEASE.
    Reservation,
    /// All other commands.
    Other,
}

impl Family {
    /// Every family with its name, in the order of the counters.
    pub const ALL: [(Self, &'static str); 11] = [
        (Self::Read, "read"),
        (Self::Write, "write"),
        (Self::Verify, "verify"),
        (Self::SynchronizeCache, "synchronize_cache"),
        (Self::CompareAndWrite, "compare_and_write"),
        (Self::WriteSame, "write_same"),
        (Self::Unmap, "unmap"),
        (Self::ExtendedCopy, "extended_copy"),
        (Self::Token, "token"),
        (Self::Reservation, "reservation"),
        (Self::Other, "other"),
    ];
}

/// Counters of one family, from the creation of the counted object on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FamilyStatistics {
    /// Commands that ended with a status. Commands that reported a unit attention instead are not counted.
    pub operations: u64,
    /// Bytes read, written or compared.
    pub bytes: u64,
    /// Commands among `operations` that ended with CHECK CONDITION.
    pub errors: u64,
    /// Commands in `errors` for which the volume failed: sense key MEDIUM ERROR.
    pub medium_errors: u64,
    /// Durations of `operations`.
    pub latency: LatencyHistogram,
}

impl FamilyStatistics {
    fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.medium_errors += other.medium_errors;
        self.latency.add(&other.latency);
    }
}

/// Counters at one moment. They are read one by one: sums may differ by running commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    families: [FamilyStatistics; Family::ALL.len()],
    /// Bytes that offloads moved.
    pub offload: OffloadStatistics,
    /// Tasks of any family aborted by task management, loss of a nexus or loss of access.
    pub aborted: u64,
}

impl Index<Family> for Statistics {
    type Output = FamilyStatistics;

    fn index(&self, family: Family) -> &FamilyStatistics {
        &self.families[family as usize]
    }
}

impl Statistics {
    pub(crate) fn add(&mut self, other: &Self) {
        for (family, other) in self.families.iter_mut().zip(&other.families) {
            family.add(other);
        }
        self.offload.add(&other.offload);
        self.aborted += other.aborted;
    }
}

#[derive(Debug, Default)]
struct FamilyCounters {
    bytes: AtomicU64,
    errors: AtomicU64,
    medium_errors: AtomicU64,
    latency: LatencyCounters,
}

impl FamilyCounters {
    fn snapshot(&self) -> FamilyStatistics {
        let latency = self.latency.snapshot();
        FamilyStatistics {
            operations: latency.operations(),
            bytes: self.bytes.load(Ordering::Relaxed),
            errors: self.errors.load(Ordering::Relaxed),
            medium_errors: self.medium_errors.load(Ordering::Relaxed),
            latency,
        }
    }
}

/// How a counted command ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Counted {
    /// It ran.
    Completed {
        family: Family,
        bytes: u64,
        /// Sense key of CHECK CONDITION.
        failure: Option<SenseKey>,
        elapsed: Duration,
    },
    /// It was aborted.
    Aborted,
}

/// The live counters. Every method may be called from several threads at once.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    families: [FamilyCounters; Family::ALL.len()],
    offload: OffloadCounters,
    aborted: AtomicU64,
}

impl Counters {
    pub(crate) fn count(&self, what: Counted) {
        match what {
            Counted::Completed {
                family,
                bytes,
                failure,
                elapsed,
            } => {
                let counters = &self.families[family as usize];
                counters.latency.record(elapsed);
                if bytes > 0 {
                    counters.bytes.fetch_add(bytes, Ordering::Relaxed);
                }
                if let Some(key) = failure {
                    counters.errors.fetch_add(1, Ordering::Relaxed);
                    if key == SenseKey::MediumError {
                        counters.medium_errors.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
            Counted::Aborted => {
                self.aborted.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Adds the offload statistics of a command. Most commands have none.
    pub(crate) fn count_offloaded(&self, offloaded: &OffloadStatistics) {
        if *offloaded != OffloadStatistics::default() {
            self.offload.add(offloaded);
        }
    }

    pub(crate) fn snapshot(&self) -> Statistics {
        Statistics {
            families: self.families.each_ref().map(FamilyCounters::snapshot),
            offload: self.offload.snapshot(),
            aborted: self.aborted.load(Ordering::Relaxed),
        }
    }
}

/// Most threads with separate counters; more threads share them.
const SHARDS: usize = 16;

thread_local! {
    static SHARD: usize = {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        THREADS.fetch_add(1, Ordering::Relaxed) % SHARDS
    };
}

/// Counters for all reactors. Each reactor counts in separate memory: a shared cache line would move between CPUs for each
/// command.
#[derive(Debug, Default)]
pub(crate) struct ReactorCounters {
    /// Created when their thread counts first.
    shards: [OnceLock<Box<Counters>>; SHARDS],
}

impl ReactorCounters {
    /// The counters of the calling thread.
    pub(crate) fn of_this_thread(&self) -> &Counters {
        SHARD.with(|&shard| self.shards[shard].get_or_init(Box::default))
    }

    pub(crate) fn snapshot(&self) -> Statistics {
        let mut sum = Statistics::default();
        for counters in self.shards.iter().filter_map(OnceLock::get) {
            sum.add(&counters.snapshot());
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_threads_are_added() {
        let counters = ReactorCounters::default();
        std::thread::scope(|scope| {
            for _ in 0..2 * SHARDS {
                scope.spawn(|| counters.of_this_thread().count(Counted::Aborted));
            }
        });
        assert_eq!(counters.snapshot().aborted, 2 * SHARDS as u64);
    }
}
