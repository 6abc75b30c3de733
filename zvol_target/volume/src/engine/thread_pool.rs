//! The engine without `io_uring`: each operation runs on one of the runtime's blocking threads.
//!
//! The runtime bounds how many there are (`max_blocking_threads`); what waits is bounded by the commands in flight.

use std::io;

use tokio::runtime::Handle;

use super::Operation;
use crate::Buffer;

pub(super) async fn run(mut operation: Operation) -> io::Result<Buffer> {
    let runtime = Handle::try_current().map_err(io::Error::other)?;
    let finished = runtime.spawn_blocking(move || {
        operation.run_blocking()?;
        Ok(operation.into_buffer())
    });
    finished.await.map_err(io::Error::other)?
}
