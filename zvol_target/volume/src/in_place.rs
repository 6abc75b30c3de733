// SPDX-License-Identifier: Apache-2.0
//! Which cached writes to a regular file run in the calling thread, where its file system allows that.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Longest write that runs in place. Longer ones cost more than a hand-off, and would hold up other sessions.
const LONGEST: usize = 64 << 10;
/// A write that took longer than this was held back; less is also what another process on the CPU costs.
const SLOW: Duration = Duration::from_millis(10);
/// Writes that go to the engine after the first slow one, and at most.
const FIRST_PENALTY: u32 = 64;
const MOST_PENALTY: u32 = 1 << 16;
/// Writes in a row that were not slow, after which earlier slow ones are forgotten.
const FORGIVEN_AFTER: u32 = 4096;

/// Remembers how cached writes fared in place.
///
/// Into the page cache a write is a copy that takes microseconds, a hand-off to another thread and back takes many times
/// that, and file systems without `IOCB_NOWAIT` for cached writes (ext4) make `io_uring` hand off every one. Yet the kernel may
/// hold a writer back (dirty pages, a full journal). So a slow write sends the next ones to the engine, each time twice as
/// many as before: the calling thread stands still once in thousands of writes at worst.
#[derive(Debug, Default)]
pub(crate) struct InPlace {
    /// Writes that still go to the engine.
    elsewhere: AtomicU32,
    /// What the last slow write cost; 0 if none is remembered.
    penalty: AtomicU32,
    /// Writes since then that were not slow.
    good: AtomicU32,
}

impl InPlace {
    /// Whether the next write, of `length` bytes, runs in place.
    pub(crate) fn admits(&self, length: usize) -> bool {
        if length > LONGEST {
            return false;
        }
        // Threads that meet here may let one write more or less through: all that is decided is speed.
        let left = self.elsewhere.load(Ordering::Relaxed);
        if left > 0 {
            self.elsewhere.store(left - 1, Ordering::Relaxed);
        }
        left == 0
    }

    /// Runs a write in place and remembers how long it took.
    pub(crate) fn run<T>(&self, write: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let result = write();
        self.note(started.elapsed());
        result
    }

    fn note(&self, elapsed: Duration) {
        let penalty = self.penalty.load(Ordering::Relaxed);
        if elapsed > SLOW {
            let penalty = (penalty * 2).clamp(FIRST_PENALTY, MOST_PENALTY);
            self.penalty.store(penalty, Ordering::Relaxed);
            self.elsewhere.store(penalty, Ordering::Relaxed);
            self.good.store(0, Ordering::Relaxed);
        } else if penalty > 0 {
            let good = self.good.load(Ordering::Relaxed) + 1;
            self.good.store(good, Ordering::Relaxed);
            if good >= FORGIVEN_AFTER {
                self.penalty.store(0, Ordering::Relaxed);
                self.good.store(0, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COPY: Duration = Duration::from_micros(5);
    const STALL: Duration = Duration::from_millis(50);

    fn refused_in_a_row(in_place: &InPlace) -> u32 {
        (0..=MOST_PENALTY)
            .take_while(|_| !in_place.admits(4096))
            .count() as u32
    }

    #[test]
    fn each_slow_write_keeps_twice_as_many_out() {
        let in_place = InPlace::default();
        assert_eq!(refused_in_a_row(&in_place), 0);
        let mut expected = FIRST_PENALTY;
        while expected < MOST_PENALTY {
            in_place.note(STALL);
            assert_eq!(refused_in_a_row(&in_place), expected);
            expected *= 2;
        }
        in_place.note(STALL);
        in_place.note(STALL);
        assert_eq!(refused_in_a_row(&in_place), MOST_PENALTY);
    }

    #[test]
    fn slow_writes_are_forgotten_after_many_good_ones() {
        let in_place = InPlace::default();
        in_place.note(STALL);
        in_place.note(STALL);
        for _ in 0..FORGIVEN_AFTER {
            in_place.note(COPY);
        }
        in_place.note(STALL);
        assert_eq!(refused_in_a_row(&in_place), FIRST_PENALTY);
    }

    #[test]
    fn long_writes_never_run_in_place() {
        let in_place = InPlace::default();
        assert!(in_place.admits(LONGEST));
        assert!(!in_place.admits(LONGEST + 1));
    }
}
