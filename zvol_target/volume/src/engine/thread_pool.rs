// SPDX-License-Identifier: Apache-2.0
//! The engine without `io_uring`, and for operations that `io_uring` would run one by one. Each runs on one of the runtime's
//! blocking threads.
//!
//! Admission limits the number of threads, up to the runtime's `max_blocking_threads`.

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

/// Runs `work` in a thread. It runs to its end, even if the future is dropped.
pub(super) async fn run_in_thread<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let runtime = Handle::try_current().map_err(io::Error::other)?;
    let finished = runtime.spawn_blocking(work);
    finished.await.map_err(io::Error::other)?
}

/// Runs an operation whose future was dropped to its end.
pub(super) fn run_abandoned(mut operation: Operation) {
    if let Ok(runtime) = Handle::try_current() {
        runtime.spawn_blocking(move || operation.run_blocking());
    }
}
