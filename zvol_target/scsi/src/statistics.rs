//! Counters of a logical unit.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a command is counted under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Read,
    Write,
    Verify,
    SynchronizeCache,
    Other,
}

/// Counts of one family of commands since the logical unit came into being.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FamilyStatistics {
    /// Commands that ended with a status; those that reported a unit attention instead of running are not among them.
    pub operations: u64,
    /// Bytes read from or written to the volume, or compared with it.
    pub bytes: u64,
    /// Commands among `operations` that ended with a status other than GOOD.
    pub errors: u64,
}

/// Counters of a logical unit at one moment. They are read one after the other: sums may be off by commands in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// READ(6), (10), (12), (16).
    pub read: FamilyStatistics,
    /// WRITE(6), (10), (12), (16), WRITE AND VERIFY(10), (12), (16).
    pub write: FamilyStatistics,
    /// VERIFY(10), (12), (16).
    pub verify: FamilyStatistics,
    /// SYNCHRONIZE CACHE(10), (16).
    pub synchronize_cache: FamilyStatistics,
    /// Everything else.
    pub other: FamilyStatistics,
    /// Tasks aborted by task management or loss of a nexus, of any family.
    pub aborted: u64,
    /// Unit attentions reported.
    pub unit_attentions: u64,
}

#[derive(Debug, Default)]
struct FamilyCounters {
    operations: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
}

impl FamilyCounters {
    fn snapshot(&self) -> FamilyStatistics {
        FamilyStatistics {
            operations: self.operations.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            errors: self.errors.load(Ordering::Relaxed),
        }
    }
}

/// The live counters; every method may be called from several threads at once.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    read: FamilyCounters,
    write: FamilyCounters,
    verify: FamilyCounters,
    synchronize_cache: FamilyCounters,
    other: FamilyCounters,
    aborted: AtomicU64,
    unit_attentions: AtomicU64,
}

impl Counters {
    pub(crate) fn completed(&self, family: Family, bytes: u64, good: bool) {
        let counters = match family {
            Family::Read => &self.read,
            Family::Write => &self.write,
            Family::Verify => &self.verify,
            Family::SynchronizeCache => &self.synchronize_cache,
            Family::Other => &self.other,
        };
        counters.operations.fetch_add(1, Ordering::Relaxed);
        if bytes > 0 {
            counters.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        if !good {
            counters.errors.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn aborted(&self) {
        self.aborted.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn unit_attention(&self) {
        self.unit_attentions.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self) -> Statistics {
        Statistics {
            read: self.read.snapshot(),
            write: self.write.snapshot(),
            verify: self.verify.snapshot(),
            synchronize_cache: self.synchronize_cache.snapshot(),
            other: self.other.snapshot(),
            aborted: self.aborted.load(Ordering::Relaxed),
            unit_attentions: self.unit_attentions.load(Ordering::Relaxed),
        }
    }
}
