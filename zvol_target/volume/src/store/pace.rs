// SPDX-License-Identifier: Apache-2.0
//! How long the steps of a long operation are, so that none holds a device for long.

use std::time::Duration;

const FIRST: u64 = 16 << 20;
const SHORTEST: u64 = 4 << 20;
const LONGEST: u64 = 8 << 30;
/// A step that took less than the first may have a longer one after it; one that took more than the second a shorter one.
const QUICK: Duration = Duration::from_millis(10);
const SLOW: Duration = Duration::from_millis(50);

/// Lengthens steps while they are quick: a range that holds nothing is done in a few, and one that is full never keeps others
/// out for long. (A discard holds the range lock of a zvol, and from Linux 6.15 on all I/O to the device.)
#[derive(Debug)]
pub(crate) struct Pace {
    step: u64,
}

impl Pace {
    pub(crate) fn new() -> Self {
        Self { step: FIRST }
    }

    /// The next step from `offset` on, of `left` bytes: it ends at a multiple of the steps, which are powers of two.
    pub(crate) fn next(&self, offset: u64, left: u64) -> u64 {
        left.min(self.step - offset % self.step)
    }

    /// A step took so long.
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
        assert!(steps < 10_000, "{steps} for 64 TiB that hold nothing");
        for _ in 0..64 {
            pace.note(Duration::from_secs(1));
        }
        assert_eq!(pace.next(0, u64::MAX), SHORTEST);
        pace.note(Duration::from_millis(20));
        assert_eq!(pace.next(0, u64::MAX), SHORTEST);
        assert_eq!(pace.next(SHORTEST - 512, u64::MAX), 512);
    }
}
