// SPDX-License-Identifier: Apache-2.0
//! The engine without `io_uring`, and beside it for stable writes of regular files: each operation runs on one of the runtime's blocking threads.
//!
//! So many threads work for one volume, and so many in all; further operations wait in their tasks, first come, first served.
//! What waits is bounded by the commands in flight.

use std::io;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::urgent::is_urgent;
use super::{Backing, Failed, Operation};
use crate::Buffer;

/// Threads that work for one reactor: two volumes that answer nobody do not take them all.
const MOST_THREADS: usize = 96;

thread_local! {
    static THREADS: Arc<Semaphore> = Arc::new(Semaphore::new(MOST_THREADS));
}

pub(super) async fn run(mut operation: Operation) -> Result<Buffer, Failed> {
    let backing = Arc::clone(operation.backing());
    let ended = run_in_thread(&backing, move || {
        let result = operation.run_blocking();
        Ok((operation, result))
    });
    let (operation, result) = ended.await?;
    operation.finish(result)
}

/// Runs `work` in one of the threads that may work for `backing`, to its end whether or not anybody waits for it.
pub(super) async fn run_in_thread<T: Send + 'static>(
    backing: &Backing,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let runtime = Handle::try_current().map_err(io::Error::other)?;
    if is_urgent() {
        // As many as are admitted, and none of them in the threads of others.
        return runtime
            .spawn_blocking(work)
            .await
            .map_err(io::Error::other)?;
    }
    // The volume's first: who waits for that holds no thread others could have. Neither is ever closed.
    let volumes = Arc::clone(backing.threads());
    let of_volume = volumes.acquire_owned().await.map_err(io::Error::other)?;
    let of_all = THREADS.with(Arc::clone).acquire_owned().await;
    let of_all = of_all.map_err(io::Error::other)?;
    // Held by the thread, whether or not anybody waits, and by who waits, so that the thread is idle again for the next one.
    let held = Arc::new((of_volume, of_all));
    let _held = Arc::clone(&held);
    let finished = runtime.spawn_blocking(move || {
        let _held = held;
        work()
    });
    finished.await.map_err(io::Error::other)?
}

/// Runs what nobody waits for to its end.
pub(super) fn run_abandoned(mut operation: Operation) {
    if let Ok(runtime) = Handle::try_current() {
        runtime.spawn_blocking(move || operation.run_blocking());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Action;

    fn backing() -> Arc<Backing> {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        Arc::new(Backing::new(file))
    }

    fn read(backing: &Arc<Backing>) -> Operation {
        Operation::new(
            Arc::clone(backing),
            Action::Read,
            0,
            Buffer::new(4096),
            false,
        )
    }

    #[tokio::test]
    async fn a_volume_that_hangs_leaves_others_their_threads() {
        let (hanging, other) = (backing(), backing());
        // As if its threads never came back.
        let threads = Arc::clone(hanging.threads());
        let all = threads.available_permits() as u32;
        let held = threads.acquire_many_owned(all).await.unwrap();
        let waiting: Vec<_> = (0..2 * MOST_THREADS)
            .map(|_| tokio::spawn(run(read(&hanging))))
            .collect();
        tokio::task::yield_now().await;
        for _ in 0..2 * MOST_THREADS {
            run(read(&other)).await.unwrap();
        }
        assert!(waiting.iter().all(|task| !task.is_finished()));
        drop(held);
        for task in waiting {
            task.await.unwrap().unwrap();
        }
    }
}
