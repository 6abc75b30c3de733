//! Long operations: so many at a time that short ones find the way to the device free.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Action, Operation};

/// From this length on an operation is long, bytes.
const LONG: usize = 256 << 10;

/// Long operations a thread has under way at a time, flushes included: enough to keep a device busy, and a quarter of the
/// kernel threads that `io_uring` may use for them.
const MOST_UNDER_WAY: usize = 16;

thread_local! {
    static UNDER_WAY: Arc<Semaphore> = Arc::new(Semaphore::new(MOST_UNDER_WAY));
}

/// Waits until `operation` may start; a short one does not wait. Hold the permit until it has ended, or nobody waits for it.
pub(super) async fn permit(operation: &Operation) -> Option<OwnedSemaphorePermit> {
    let long = operation.action() == Action::Synchronize || operation.buffer().len() >= LONG;
    if !long {
        return None;
    }
    // An error would mean that it was closed, and it never is.
    UNDER_WAY.with(Arc::clone).acquire_owned().await.ok()
}
