// SPDX-License-Identifier: Apache-2.0
//! Counters of commands for logical units, nexuses and hosts.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::latency::{LatencyCounters, LatencyHistogram};
use crate::offload_statistics::{OffloadCounters, OffloadStatistics};
use crate::sense::SenseKey;

/// Family of a command in the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Read,
    Write,
    Verify,
    SynchronizeCache,
    CompareAndWrite,
    WriteSame,
    Unmap,
    ExtendedCopy,
    Token,
    Reservation,
    Other,
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
    /// READ(6), (10), (12), (16).
    pub read: FamilyStatistics,
    /// WRITE(6), (10), (12), (16), WRITE AND VERIFY(10), (12), (16).
    pub write: FamilyStatistics,
    /// VERIFY(10), (12), (16).
    pub verify: FamilyStatistics,
    /// SYNCHRONIZE CACHE(10), (16).
    pub synchronize_cache: FamilyStatistics,
    /// COMPARE AND WRITE.
    pub compare_and_write: FamilyStatistics,
    /// WRITE SAME(10), (16).
    pub write_same: FamilyStatistics,
    /// UNMAP.
    pub unmap: FamilyStatistics,
    /// EXTENDED COPY, RECEIVE COPY RESULTS.
    pub extended_copy: FamilyStatistics,
    /// POPULATE TOKEN, WRITE USING TOKEN, RECEIVE ROD TOKEN INFORMATION.
    pub token: FamilyStatistics,
    /// PERSISTENT RESERVE IN and OUT, RESERVE and RELEASE.
    pub reservation: FamilyStatistics,
    /// All other commands.
    pub other: FamilyStatistics,
    /// Bytes that offloads moved.
    pub offload: OffloadStatistics,
    /// Tasks of any family aborted by task management, loss of a nexus or loss of access.
    pub aborted: u64,
    /// Unit attentions reported.
    pub unit_attentions: u64,
}

impl Statistics {
    pub(crate) fn add(&mut self, other: &Self) {
        self.read.add(&other.read);
        self.write.add(&other.write);
        self.verify.add(&other.verify);
        self.synchronize_cache.add(&other.synchronize_cache);
        self.compare_and_write.add(&other.compare_and_write);
        self.write_same.add(&other.write_same);
        self.unmap.add(&other.unmap);
        self.extended_copy.add(&other.extended_copy);
        self.token.add(&other.token);
        self.reservation.add(&other.reservation);
        self.other.add(&other.other);
        self.offload.add(&other.offload);
        self.aborted += other.aborted;
        self.unit_attentions += other.unit_attentions;
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
    /// It reported a unit attention instead.
    UnitAttention,
    /// It was aborted.
    Aborted,
}

/// The live counters. Every method may be called from several threads at once.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    read: FamilyCounters,
    write: FamilyCounters,
    verify: FamilyCounters,
    synchronize_cache: FamilyCounters,
    compare_and_write: FamilyCounters,
    write_same: FamilyCounters,
    unmap: FamilyCounters,
    extended_copy: FamilyCounters,
    token: FamilyCounters,
    reservation: FamilyCounters,
    other: FamilyCounters,
    offload: OffloadCounters,
    aborted: AtomicU64,
    unit_attentions: AtomicU64,
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
                let counters = self.family(family);
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
            Counted::UnitAttention => {
                self.unit_attentions.fetch_add(1, Ordering::Relaxed);
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

    fn family(&self, family: Family) -> &FamilyCounters {
        match family {
            Family::Read => &self.read,
            Family::Write => &self.write,
            Family::Verify => &self.verify,
            Family::SynchronizeCache => &self.synchronize_cache,
            Family::CompareAndWrite => &self.compare_and_write,
            Family::WriteSame => &self.write_same,
            Family::Unmap => &self.unmap,
            Family::ExtendedCopy => &self.extended_copy,
            Family::Token => &self.token,
            Family::Reservation => &self.reservation,
            Family::Other => &self.other,
        }
    }

    pub(crate) fn snapshot(&self) -> Statistics {
        Statistics {
            read: self.read.snapshot(),
            write: self.write.snapshot(),
            verify: self.verify.snapshot(),
            synchronize_cache: self.synchronize_cache.snapshot(),
            compare_and_write: self.compare_and_write.snapshot(),
            write_same: self.write_same.snapshot(),
            unmap: self.unmap.snapshot(),
            extended_copy: self.extended_copy.snapshot(),
            token: self.token.snapshot(),
            reservation: self.reservation.snapshot(),
            other: self.other.snapshot(),
            offload: self.offload.snapshot(),
            aborted: self.aborted.load(Ordering::Relaxed),
            unit_attentions: self.unit_attentions.load(Ordering::Relaxed),
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
