// SPDX-License-Identifier: Apache-2.0
//! Operations that go ahead of the others of their volume.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;

thread_local! {
    /// What is polled now is urgent.
    static URGENT: Cell<bool> = const { Cell::new(false) };
}

/// Runs `future`; operations of volumes that begin in it wait for urgent ones only, not for all that bulk work has under way.
///
/// For the few short operations that others depend on: hosts give up a VMFS datastore whose heartbeats take seconds.
pub async fn urgently<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context| {
        let _polled = Polled(URGENT.replace(true));
        future.as_mut().poll(context)
    })
    .await
}

/// Restores what was polled before, also after a panic.
struct Polled(bool);

impl Drop for Polled {
    fn drop(&mut self) {
        URGENT.set(self.0);
    }
}

pub(super) fn is_urgent() -> bool {
    URGENT.get()
}
