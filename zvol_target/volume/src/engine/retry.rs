// SPDX-License-Identifier: Apache-2.0
//! Pauses before submissions that the kernel refused for lack of memory. The thread is not blocked meanwhile.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

/// The first and the longest pause; each is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Give up after failures for this long. It is less than a host's command timeout (30 s on Linux).
const PATIENCE: Duration = Duration::from_secs(5);

/// What to do after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Try again after the pause.
    Wait,
    /// It has failed for too long.
    GiveUp,
}

/// State of a series of failures.
#[derive(Default)]
pub(super) struct Retry {
    first_failure: Option<Instant>,
    length: Duration,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Retry {
    /// Whether a pause is running.
    pub(super) fn is_pending(&self) -> bool {
        self.pause.as_ref().is_some_and(|pause| !pause.is_elapsed())
    }

    pub(super) fn succeeded(&mut self) {
        if self.first_failure.is_some() {
            *self = Self::default();
        }
    }

    /// Begins the next pause, or gives up.
    pub(super) fn failed(&mut self) -> Verdict {
        let now = Instant::now();
        if now - *self.first_failure.get_or_insert(now) > PATIENCE {
            *self = Self::default();
            return Verdict::GiveUp;
        }
        self.length = (self.length * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        self.pause = Some(Box::pin(sleep(self.length)));
        Verdict::Wait
    }

    /// Ready once per pause, at its end; wakes the caller then.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(pause) = &mut self.pause else {
            return Poll::Pending;
        };
        std::task::ready!(pause.as_mut().poll(context));
        self.pause = None;
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_and_end() {
        let mut retry = Retry::default();
        let began = Instant::now();
        let mut pauses = Vec::new();
        while retry.failed() == Verdict::Wait {
            let began_pause = Instant::now();
            assert!(retry.is_pending());
            poll_fn(|context| retry.poll(context)).await;
            assert!(!retry.is_pending());
            pauses.push(began_pause.elapsed());
        }
        assert!(pauses.is_sorted() && pauses[0] < pauses[pauses.len() - 1]);
        assert!(pauses.iter().all(|pause| *pause <= LONGEST_PAUSE * 2));
        let total = began.elapsed();
        assert!((PATIENCE..PATIENCE + 2 * LONGEST_PAUSE).contains(&total));
    }

    #[tokio::test(start_paused = true)]
    async fn a_success_forgets_earlier_failures() {
        let mut retry = Retry::default();
        for _ in 0..1000 {
            assert_eq!(retry.failed(), Verdict::Wait);
            poll_fn(|context| retry.poll(context)).await;
            retry.succeeded();
        }
    }
}
