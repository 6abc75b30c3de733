// SPDX-License-Identifier: Apache-2.0
//! When to try again what the kernel could not take for want of memory, without blocking meanwhile.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

/// The first pause and the longest; each is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// How long nothing may be taken before it is given up: less than hosts wait for a command (30 s with Linux).
const PATIENCE: Duration = Duration::from_secs(5);

/// What follows from a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Try again when the pause is over.
    Wait,
    /// It has failed for too long.
    GiveUp,
}

/// A row of failures, if there is one.
#[derive(Default)]
pub(super) struct Retry {
    since: Option<Instant>,
    length: Duration,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Retry {
    /// Whether the pause lasts.
    pub(super) fn is_pending(&self) -> bool {
        self.pause.as_ref().is_some_and(|pause| !pause.is_elapsed())
    }

    pub(super) fn succeeded(&mut self) {
        if self.since.is_some() {
            *self = Self::default();
        }
    }

    /// Begins the next pause, unless there were too many.
    pub(super) fn failed(&mut self) -> Verdict {
        let now = Instant::now();
        if now - *self.since.get_or_insert(now) > PATIENCE {
            *self = Self::default();
            return Verdict::GiveUp;
        }
        self.length = (self.length * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        self.pause = Some(Box::pin(sleep(self.length)));
        Verdict::Wait
    }

    /// Ready once, when a pause is over; the caller is woken for that.
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
