// SPDX-License-Identifier: Apache-2.0
//! Selects the cached writes to a regular file that run in the calling thread, if the file system permits it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Longest write that runs in place. A longer one costs more than a hand-off, and delays other sessions.
const LONGEST: usize = 64 << 10;
/// The kernel delayed a write that took longer than this. Less can be the cost of another process on the CPU.
const SLOW: Duration = Duration::from_millis(10);
/// Writes that go to the engine after the first slow one, and the maximum.
const FIRST_PENALTY: u32 = 64;
const MOST_PENALTY: u32 = 1 << 16;
/// After this many fast writes in a row, earlier slow ones are forgotten.
const FORGIVEN_AFTER: u32 = 4096;

/// History of the cached writes that ran in place.
///
/// A write into the page cache is a copy that takes microseconds; a hand-off to a thread and back takes many times that. File
/// systems without `IOCB_NOWAIT` for cached writes (ext4) make `io_uring` hand off every one. But the kernel can delay a writer
/// (dirty pages, a full journal). So a slow write sends the next ones to the engine, each time twice as many. In the worst case
/// the calling thread waits once in thousands of writes.
#[derive(Debug, Default)]
pub(crate) struct InPlace {
    /// Number of next writes that go to the engine.
    elsewhere: AtomicU32,
    /// Penalty after the last slow write; 0 if it was forgotten.
    penalty: AtomicU32,
    /// Fast writes after the last slow one.
    good: AtomicU32,
}

impl InPlace {
    /// Whether the next write, of `length` bytes, runs in place.
    pub(crate) fn admits(&self, length: usize) -> bool {
        if length > LONGEST {
            return false;
        }
        // A race lets one write more or less pass, which affects only speed.
        let left = self.elsewhere.load(Ordering::Relaxed);
        if left > 0 {
            self.elsewhere.store(left - 1, Ordering::Relaxed);
        }
        left == 0
    }

    /// Runs a write in place and records how long it took.
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
    fn each_slow_write_doubles_the_penalty() {
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
