// SPDX-License-Identifier: Apache-2.0
//! The engine without `io_uring`, and with `io_uring` for what that would take one by one: each operation runs on one of the runtime's
//! blocking threads.
//!
//! There are as many threads as operations are admitted, up to the runtime's `max_blocking_threads`.

use std::io;

use tokio::runtime::Handle;

use super::{Failed, Operation};
use crate::Buffer;

pub(super) async fn run(mut operation: Operation) -> Result<Buffer, Failed> {
    let ended = run_in_thread(move || {
        let result = operation.run_blocking();
        Ok((operation, result))
    });
    let (operation, result) = ended.await?;
    operation.finish(result)
}

/// Runs `work` in a thread, to its end whether or not anybody waits for it.
pub(super) async fn run_in_thread<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let runtime = Handle::try_current().map_err(io::Error::other)?;
    let finished = runtime.spawn_blocking(work);
    finished.await.map_err(io::Error::other)?
}

/// Runs what nobody waits for to its end.
pub(super) fn run_abandoned(mut operation: Operation) {
    if let Ok(runtime) = Handle::try_current() {
        runtime.spawn_blocking(move || operation.run_blocking());
    }
}
