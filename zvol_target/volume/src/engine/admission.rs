// SPDX-License-Identifier: Apache-2.0
//! How many operations are under way: few enough of each kind that short ones, and those of other volumes, find a kernel
//! thread free.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::urgent::is_urgent;
use super::{Action, Backing, Operation};

/// From this length on an operation is long, bytes. Flushes are long too.
const LONG: usize = 256 << 10;

/// Long operations of a reactor at a time: a quarter of the kernel threads that `io_uring` may use for it.
const LONG_OF_A_REACTOR: usize = 128;

thread_local! {
    static LONG_OPERATIONS: Arc<Semaphore> = Arc::new(Semaphore::new(LONG_OF_A_REACTOR));
}

/// Leave to be under way. An operation keeps it until it has ended, whether or not anybody still waits for it.
#[derive(Debug, Default)]
#[expect(dead_code, reason = "it is there to be dropped")]
pub(super) struct Admission([Option<OwnedSemaphorePermit>; 3]);

/// Waits until `operation` may be under way: first come, first served among those like it.
pub(super) async fn admit(operation: &mut Operation) {
    let long = operation.action() == Action::Synchronize || operation.buffer().len() >= LONG;
    let admission = admission(operation.backing(), long).await;
    operation.keep(admission);
}

/// Waits until something on `backing` may be under way.
pub(super) async fn admission(backing: &Backing, long: bool) -> Admission {
    if is_urgent() {
        return Admission([permit(backing.urgent()).await, None, None]);
    }
    // What the volume lacks is waited for first: who waits for that holds nothing others could have.
    let of_volume = [
        if long {
            permit(backing.long()).await
        } else {
            None
        },
        permit(backing.under_way()).await,
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
    // An error would mean that it was closed, and none ever is.
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
    fn long_operations_leave_room_for_short_ones_of_the_volume() {
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
    fn a_volume_that_hangs_leaves_others_theirs() {
        let hangs = backing();
        let hanging = [admit_all(&hangs, LONG), admit_all(&hangs, 4096)];
        let other = backing();
        let long = admit_all(&other, LONG);
        let short = admit_all(&other, 4096);
        assert_eq!([long.len(), short.len()], hanging.map(|list| list.len()));
    }
}
