// SPDX-License-Identifier: Apache-2.0
//! Limits the running operations of each kind, so that short operations and other pools find a free kernel thread.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::urgent::is_urgent;
use super::uring::BOUNDED_WORKERS;
use super::{Action, Backing, Operation};
use crate::patience::{unless_given_up, wait};

/// Operations of this length or more are long, bytes. Flushes count as long too.
const LONG: usize = 256 << 10;

/// Concurrent operations of a pool on one reactor, and urgent ones in addition. Together they take half of the kernel threads. If
/// the pool hangs, the others have the rest.
const OPERATIONS_OF_A_POOL: usize = BOUNDED_WORKERS as usize / 8 * 3;
const URGENT_OPERATIONS_OF_A_POOL: usize = BOUNDED_WORKERS as usize / 8;

/// Long ones among those that are not urgent.
const LONG_OPERATIONS_OF_A_POOL: usize = OPERATIONS_OF_A_POOL / 3;

/// Permits of a pool on one reactor.
#[derive(Clone)]
struct Share {
    running: Arc<Semaphore>,
    long: Arc<Semaphore>,
    urgent: Arc<Semaphore>,
}

impl Default for Share {
    fn default() -> Self {
        Self {
            running: Arc::new(Semaphore::new(OPERATIONS_OF_A_POOL)),
            long: Arc::new(Semaphore::new(LONG_OPERATIONS_OF_A_POOL)),
            urgent: Arc::new(Semaphore::new(URGENT_OPERATIONS_OF_A_POOL)),
        }
    }
}

thread_local! {
    static SHARES: RefCell<HashMap<String, Share>> = RefCell::default();
}

/// The calling reactor's share of a pool.
fn share_of(pool: &str) -> Share {
    SHARES.with_borrow_mut(|shares| match shares.get(pool) {
        Some(share) => share.clone(),
        None => shares.entry(pool.to_owned()).or_default().clone(),
    })
}

/// Permit to run. An operation holds it to its end, even if no caller waits for the result.
#[derive(Debug, Default)]
pub(super) struct Admission([Option<OwnedSemaphorePermit>; 6]);

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
    let of_pool = share_of(backing.pool());
    let (urgent, long) = (is_urgent(), long && !is_urgent());
    // First wait for the volume's permits, so that an operation that waits for them holds none of its pool's.
    let mut permits = Admission::default();
    let semaphores = [
        (urgent, backing.urgent()),
        (long, backing.long()),
        (!urgent, backing.running()),
        (urgent, &of_pool.urgent),
        (long, &of_pool.long),
        (!urgent, &of_pool.running),
    ];
    for (held, (applies, semaphore)) in permits.0.iter_mut().zip(semaphores) {
        if applies {
            *held = Some(permit(semaphore).await?);
        }
    }
    Some(permits)
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
        backing_in(None)
    }

    fn backing_in(pool: Option<&str>) -> Arc<Backing> {
        let pool = pool.map(str::to_owned);
        Arc::new(Backing::new(tempfile::tempfile().unwrap(), pool))
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

    /// Admits an urgent operation; `None` if it has to wait.
    fn admit_urgent(backing: &Arc<Backing>) -> Option<Operation> {
        let buffer = Buffer::zeroed(512);
        let mut operation = Operation::new(Arc::clone(backing), Action::Write, 0, buffer, false);
        let polled = {
            let urgent = pin!(crate::engine::urgently(admit(&mut operation)));
            urgent.poll(&mut Context::from_waker(Waker::noop()))
        };
        polled.is_ready().then_some(operation)
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
        let admit_one = || admit_urgent(&volume);
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
    async fn a_pool_that_hangs_leaves_half_of_the_threads_to_others() {
        let mut hanging = Vec::new();
        for _ in 0..64 {
            let volume = backing_in(Some("hangs"));
            hanging.extend(admit_all(&volume, LONG));
            hanging.extend(admit_all(&volume, 4096));
            hanging.extend(std::iter::from_fn(|| admit_urgent(&volume)));
        }
        assert_eq!(hanging.len(), BOUNDED_WORKERS as usize / 2);
        let (alone, other) = (backing(), backing_in(Some("works")));
        for length in [LONG, 4096] {
            let admitted = [&alone, &other].map(|volume| admit_all(volume, length).len());
            assert_eq!(admitted[0], admitted[1]);
            assert!(admitted[0] > 0);
        }
    }
}
