// SPDX-License-Identifier: Apache-2.0
//! Limits the running operations of each kind, so that short operations and other volumes find a free kernel thread.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::urgent::is_urgent;
use super::{Action, Backing, Operation};

/// Operations of this length or more are long, bytes. Flushes count as long too.
const LONG: usize = 256 << 10;

/// Concurrent long operations of a reactor: a quarter of the kernel threads that `io_uring` may use for it.
const LONG_OF_A_REACTOR: usize = 128;

thread_local! {
    static LONG_OPERATIONS: Arc<Semaphore> = Arc::new(Semaphore::new(LONG_OF_A_REACTOR));
}

/// Permit to run. An operation holds it to its end, even if no caller waits for the result.
#[derive(Debug, Default)]
#[expect(dead_code, reason = "it is there to be dropped")]
pub(super) struct Admission([Option<OwnedSemaphorePermit>; 3]);

/// Waits until `operation` may run. First come, first served within each kind.
pub(super) async fn admit(operation: &mut Operation) {
    let long = operation.action() == Action::Synchronize || operation.buffer().len() >= LONG;
    let admission = admission(operation.backing(), long).await;
    operation.keep(admission);
}

/// Waits until an operation on `backing` may run.
pub(super) async fn admission(backing: &Backing, long: bool) -> Admission {
    if is_urgent() {
        return Admission([permit(backing.urgent()).await, None, None]);
    }
    // First wait for the volume's permits, so that an operation that waits for them holds none of the shared ones.
    let of_volume = [
        if long {
            permit(backing.long()).await
        } else {
            None
        },
        permit(backing.running()).await,
    ];
    let of_reactor = if long {
        permit(&LONG_OPERATIONS.with(Arc::clone)).await
    } else {
        None
    };
    let [long_of_volume, of_volume] = of_volume;
    Admission([long_of_volume, of_volume, of_reactor])
}

async fn permit(semaphore: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    // It fails only for a closed semaphore, and none is ever closed.
    Arc::clone(semaphore).acquire_owned().await.ok()
}

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::Buffer;

    fn backing() -> Arc<Backing> {
        Arc::new(Backing::new(tempfile::tempfile().unwrap()))
    }

    /// Admits operations until one has to wait.
    fn admit_all(backing: &Arc<Backing>, length: usize) -> Vec<Operation> {
        let mut admitted = Vec::new();
        loop {
            let buffer = Buffer::zeroed(length);
            let mut operation = Operation::new(Arc::clone(backing), Action::Read, 0, buffer, false);
            let polled = {
                let admission = pin!(admit(&mut operation));
                admission.poll(&mut Context::from_waker(Waker::noop()))
            };
            match polled {
                Poll::Ready(()) => admitted.push(operation),
                Poll::Pending => return admitted,
            }
        }
    }

    #[test]
    fn long_operations_do_not_block_short_ones_of_the_volume() {
        let volume = backing();
        let long = admit_all(&volume, LONG);
        let short = admit_all(&volume, 4096);
        assert!(long.len() < short.len(), "{} {}", long.len(), short.len());
        assert!(admit_all(&volume, 4096).is_empty());
        drop((long, short));
        assert!(
            !admit_all(&volume, LONG).is_empty(),
            "given back when it ended"
        );
    }

    #[test]
    fn urgent_operations_wait_for_each_other_only() {
        let volume = backing();
        let _bulk = [admit_all(&volume, LONG), admit_all(&volume, 4096)];
        let admit_one = || {
            let mut operation = Operation::new(
                Arc::clone(&volume),
                Action::Write,
                0,
                Buffer::zeroed(512),
                false,
            );
            let polled = {
                let urgent = pin!(crate::engine::urgently(admit(&mut operation)));
                urgent.poll(&mut Context::from_waker(Waker::noop()))
            };
            polled.is_ready().then_some(operation)
        };
        let first = admit_one();
        assert!(first.is_some());
        let all: Vec<_> = std::iter::from_fn(admit_one).collect();
        assert!((1..64).contains(&all.len()));
        drop(first);
        assert!(admit_one().is_some());
        // The other polled operation is not urgent.
        assert!(admit_all(&volume, 512).is_empty());
    }

    #[test]
    fn a_volume_that_hangs_does_not_block_others() {
        let hangs = backing();
        let hanging = [admit_all(&hangs, LONG), admit_all(&hangs, 4096)];
        let other = backing();
        let long = admit_all(&other, LONG);
        let short = admit_all(&other, 4096);
        assert_eq!([long.len(), short.len()], hanging.map(|list| list.len()));
    }
}
