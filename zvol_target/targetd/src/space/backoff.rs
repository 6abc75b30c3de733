//! What failed is not tried at once again, and less and less often.

use std::time::{Duration, Instant};

/// After the first failure, and after many.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(64);

/// When what has failed may be tried again.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
    until: Option<Instant>,
}

impl Backoff {
    /// Whether it may be tried now.
    pub fn is_over(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| now >= until)
    }

    /// It failed.
    pub fn failed(&mut self, now: Instant) {
        self.until = Some(now + (SHORTEST * 2_u32.pow(self.failures)).min(LONGEST));
        self.failures = (self.failures + 1).min(8);
    }

    /// It did not, or something changed.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_minute() {
        let now = Instant::now();
        let mut backoff = Backoff::default();
        assert!(backoff.is_over(now));
        for seconds in [1, 2, 4, 8, 16, 32, 64, 64, 64, 64, 64] {
            backoff.failed(now);
            let after = |seconds| now + Duration::from_secs(seconds);
            assert!(!backoff.is_over(after(seconds - 1)) && backoff.is_over(after(seconds)));
        }
        backoff.reset();
        assert!(backoff.is_over(now));
    }
}
