// SPDX-License-Identifier: Apache-2.0
//! Limits the running operations of each kind, so that short operations and other volumes find a free kernel thread.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::urgent::is_urgent;
use super::{Action, Backing, Operation};
use crate::patience::{unless_given_up, wait};

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

/// Waits until `operation` may run. First come, first served within each kind. Returns `None` once its caller has given it up.
pub(super) async fn admit(operation: &mut Operation) -> Option<()> {
    let backing = operation.backing();
    let admission = if operation.action() == Action::Synchronize {
        // A failed flush would count as a loss of the cached writes of others.
        unless_given_up(|| false, admission(backing, true)).await
    } else {
        admission(backing, operation.buffer().len() >= LONG).await
    };
    operation.keep(admission?);
    Some(())
}

/// Waits until an operation on `backing` may run. Returns `None` once its caller has given it up.
pub(super) async fn admission(backing: &Backing, long: bool) -> Option<Admission> {
    if is_urgent() {
        let urgent = permit(backing.urgent()).await?;
        return Some(Admission([Some(urgent), None, None]));
    }
    // First wait for the volume's permits, so that an operation that waits for them holds none of the shared ones.
    let long_of_volume = if long {
        Some(permit(backing.long()).await?)
    } else {
        None
    };
    let of_volume = permit(backing.running()).await?;
    let of_reactor = if long {
        Some(permit(&LONG_OPERATIONS.with(Arc::clone)).await?)
    } else {
        None
    };
    Some(Admission([long_of_volume, Some(of_volume), of_reactor]))
}

async fn permit(semaphore: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    // An error means that none is free: no semaphore is ever closed.
    match Arc::clone(semaphore).try_acquire_owned() {
        Ok(permit) => Some(permit),
        Err(_) => wait(Arc::clone(semaphore).acquire_owned()).await?.ok(),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::Buffer;
    use crate::engine::run;

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
                Poll::Ready(_) => admitted.push(operation),
                Poll::Pending => return admitted,
            }
        }
    }

    #[tokio::test]
    async fn long_operations_do_not_block_short_ones_of_the_volume() {
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

    #[tokio::test]
    async fn urgent_operations_wait_for_each_other_only() {
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

    #[tokio::test]
    async fn a_write_that_is_given_up_before_it_began_changes_nothing() {
        let volume = backing();
        let running = admit_all(&volume, 4096);
        let data = Buffer::from(&[1; 512][..]);
        let write = Operation::new(Arc::clone(&volume), Action::Write, 0, data, false);
        let given_up = Cell::new(false);
        let mut write = pin!(unless_given_up(|| given_up.get(), run(write)));
        let polled = write.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
        given_up.set(true);
        drop(running);
        assert!(write.await.is_err());
        assert_eq!(volume.file().metadata().unwrap().len(), 0);
    }

    #[tokio::test]
    async fn a_flush_runs_even_if_it_is_given_up() {
        let volume = backing();
        let running = admit_all(&volume, LONG);
        let nothing = Buffer::new(0);
        let flush = Operation::new(Arc::clone(&volume), Action::Synchronize, 0, nothing, false);
        let mut flush = pin!(unless_given_up(|| true, run(flush)));
        let polled = flush.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
        drop(running);
        flush.await.unwrap();
    }

    #[tokio::test]
    async fn a_volume_that_hangs_does_not_block_others() {
        let hangs = backing();
        let hanging = [admit_all(&hangs, LONG), admit_all(&hangs, 4096)];
        let other = backing();
        let long = admit_all(&other, LONG);
        let short = admit_all(&other, 4096);
        assert_eq!([long.len(), short.len()], hanging.map(|list| list.len()));
    }
}
