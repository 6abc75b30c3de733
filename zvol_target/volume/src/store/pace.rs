// SPDX-License-Identifier: Apache-2.0
//! Chooses the length of the steps of a long operation, so that no step blocks the device for long.

use std::time::Duration;

const FIRST: u64 = 16 << 20;
const SHORTEST: u64 = 4 << 20;
const LONGEST: u64 = 8 << 30;
/// A step faster than the first makes the next one longer; a step slower than the second makes it shorter.
const QUICK: Duration = Duration::from_millis(10);
const SLOW: Duration = Duration::from_millis(50);

/// Doubles the steps while they are fast: an empty range needs few steps, and steps in a full range stay short. (A discard holds
/// the range lock of a zvol, and from Linux 6.15 on blocks all I/O of the device.)
#[derive(Debug)]
pub(crate) struct Pace {
    step: u64,
}

impl Pace {
    pub(crate) fn new() -> Self {
        Self { step: FIRST }
    }

    /// End of the next step from `offset`, with `left` bytes to go: a multiple of the step length, which is a power of two.
    pub(crate) fn next(&self, offset: u64, left: u64) -> u64 {
        left.min(self.step - offset % self.step)
    }

    /// Records the duration of a step.
    pub(crate) fn note(&mut self, elapsed: Duration) {
        if elapsed < QUICK {
            self.step = (self.step * 2).min(LONGEST);
        } else if elapsed > SLOW {
            self.step = (self.step / 2).max(SHORTEST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_steps_grow_and_slow_ones_shrink() {
        let mut pace = Pace::new();
        let mut offset = 512;
        let mut steps = 0;
        while offset < 64 << 40 {
            let length = pace.next(offset, (64 << 40) - offset);
            offset += length;
            assert!(offset % SHORTEST == 0, "steps end where others begin");
            pace.note(Duration::from_millis(1));
            steps += 1;
        }
        assert!(steps < 10_000, "{steps} for 64 TiB of an empty range");
        for _ in 0..64 {
            pace.note(Duration::from_secs(1));
        }
        assert_eq!(pace.next(0, u64::MAX), SHORTEST);
        pace.note(Duration::from_millis(20));
        assert_eq!(pace.next(0, u64::MAX), SHORTEST);
        assert_eq!(pace.next(SHORTEST - 512, u64::MAX), 512);
    }
}
