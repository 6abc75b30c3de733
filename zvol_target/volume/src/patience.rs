// SPDX-License-Identifier: Apache-2.0
//! Waits for space, and for permits to run, that end when the caller no longer needs the result.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::sleep;

tokio::task_local! {
    /// Whether the future that is polled now was given up.
    static GIVEN_UP: Cell<bool>;
}

/// How often a wait checks whether it was given up.
const CHECK: Duration = Duration::from_millis(250);

/// Runs `future` to its end. Once `is_given_up` returns true, its waits end within half a second with
/// [`OutOfSpace`](crate::VolumeError::OutOfSpace): waits for space, and of operations that have not begun. Flushes, and
/// operations that have begun, still complete.
pub async fn unless_given_up<F: Future>(is_given_up: impl Fn() -> bool, future: F) -> F::Output {
    let mut future = pin!(future);
    let checked = poll_fn(|context| {
        GIVEN_UP.with(|given_up| given_up.set(is_given_up()));
        future.as_mut().poll(context)
    });
    GIVEN_UP.scope(Cell::new(false), checked).await
}

/// Waits for `future`, which must change nothing. Returns its output. Returns `None`, and drops it, once it is given up.
pub(crate) async fn wait<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut check = pin!(sleep(CHECK));
    poll_fn(|context| {
        if GIVEN_UP.try_with(Cell::get) == Ok(true) {
            return Poll::Ready(None);
        }
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        while check.as_mut().poll(context).is_ready() {
            check.set(sleep(CHECK));
        }
        Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use futures_util::stream::{FuturesUnordered, StreamExt as _};
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_soon_after_it_was_given_up_wherever_it_is_polled() {
        let began = Instant::now();
        let is_given_up = || began.elapsed() >= Duration::from_secs(5);
        let mut inner = FuturesUnordered::new();
        inner.push(wait(pending::<()>()));
        let ended = unless_given_up(is_given_up, async { inner.next().await }).await;
        assert_eq!(ended, Some(None));
        let took = began.elapsed();
        assert!((5.0..5.6).contains(&took.as_secs_f64()), "{took:?}");
        // This future is not given up.
        assert_eq!(wait(std::future::ready(3)).await, Some(3));
    }
}
