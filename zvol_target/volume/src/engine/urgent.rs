// SPDX-License-Identifier: Apache-2.0
//! Operations with priority over the others of their volume.

use std::future::Future;

tokio::task_local! {
    /// Set while an urgent future is polled.
    static URGENT: ();
}

/// Runs `future`. Volume operations that begin in it wait only for urgent ones, not for the running bulk operations.
///
/// For the few short operations that others depend on: a host gives up a VMFS datastore if heartbeats take seconds.
pub async fn urgently<F: Future>(future: F) -> F::Output {
    URGENT.scope((), future).await
}

pub(super) fn is_urgent() -> bool {
    URGENT.try_with(|()| ()).is_ok()
}
