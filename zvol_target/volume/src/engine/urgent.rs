// SPDX-License-Identifier: Apache-2.0
//! Operations with priority over the others of their volume.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;

thread_local! {
    /// Whether the future that is polled now is urgent.
    static URGENT: Cell<bool> = const { Cell::new(false) };
}

/// Runs `future`. Volume operations that begin in it wait only for urgent ones, not for the running bulk operations.
///
/// For the few short operations that others depend on: a host gives up a VMFS datastore if heartbeats take seconds.
pub async fn urgently<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context| {
        let _polled = Polled(URGENT.replace(true));
        future.as_mut().poll(context)
    })
    .await
}

/// Restores the previous value, also after a panic.
struct Polled(bool);

impl Drop for Polled {
    fn drop(&mut self) {
        URGENT.set(self.0);
    }
}

pub(super) fn is_urgent() -> bool {
    URGENT.get()
}
