// SPDX-License-Identifier: Apache-2.0
//! The engine on `io_uring`: one ring per thread, driven by one task of the thread's runtime.
//!
//! Futures queue operations. After the ready tasks have run, the driver submits all queued operations with one system call, and
//! reaps those that completed inline. The runtime watches the ring's descriptor for later completions.
//!
//! `unsafe` is needed because the kernel accesses memory by address: see [`Shared::submit`].
#![allow(unsafe_code)]

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use io_uring::{IoUring, opcode, squeue, types};
use slab::Slab;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::operation::Progress;
use super::retry::{Retry, Verdict};
use super::{Action, EngineError, Failed, Operation, thread_pool};
use crate::Buffer;

/// Entries of the submission queue; the completion queue has twice as many (`io_uring_setup(2)`).
const SUBMISSION_ENTRIES: u32 = 256;

/// Operations that the kernel holds at a time, so that the completion queue cannot overflow. Others wait in [`Shared::queued`].
const MOST_IN_FLIGHT: usize = 2 * SUBMISSION_ENTRIES as usize;

/// Kernel threads for operations that block: flushes, and all operations on devices without `IOCB_NOWAIT`, such as zvols. A
/// thread is occupied while its operation waits for the device; the kernel creates threads on demand. With the kernel's default
/// (four per CPU), a few flushes stop everything else on a small machine. A pool may use half of this number
/// (see the admission).
pub(super) const BOUNDED_WORKERS: u32 = 512;

/// Attempts, and the pause between them, to wait for the end of a ring that returns an error for the wait.
const MOST_WAITS: u32 = 1000;
const WAIT: std::time::Duration = std::time::Duration::from_millis(10);

/// `IORING_ENTER_GETEVENTS` of `io_uring_enter(2)`.
const GETEVENTS: u32 = 1;

/// `RWF_DSYNC` of pwritev2(2).
const RWF_DSYNC: i32 = 2;

thread_local! {
    static CURRENT: RefCell<Option<Rc<Ring>>> = const { RefCell::new(None) };
}

/// The calling thread's ring, if it has one.
pub(super) fn current() -> Option<Rc<Ring>> {
    CURRENT.with_borrow(Clone::clone)
}

/// Sets up the calling thread's ring and spawns its driver.
pub(super) fn start() -> Result<(), EngineError> {
    if current().is_some() {
        return Err(EngineError::Started);
    }
    let uring = set_up().map_err(EngineError::Setup)?;
    // SAFETY: an `IoUring` owns its descriptor, always returns the same one, and closes it when the `AsyncFd` drops it.
    let uring = unsafe { AsyncFd::register_with_interest(uring, Interest::READABLE) }
        .map_err(|error| EngineError::Watch(error.into()))?;
    let ring = Rc::new(Ring {
        shared: RefCell::new(Shared {
            uring,
            slots: Slab::new(),
            queued: VecDeque::new(),
            in_flight: 0,
            pushed: 0,
            retry: Retry::default(),
            broken: false,
            driver: None,
            stopped: false,
        }),
    });
    CURRENT.set(Some(Rc::clone(&ring)));
    tokio::task::spawn_local(Driver(ring));
    Ok(())
}

/// With `IORING_SETUP_COOP_TASKRUN`, a completion does not interrupt this thread while it computes. It does wake a thread that
/// sleeps in `epoll_wait(2)`.
///
/// Not `IORING_SETUP_DEFER_TASKRUN`: with it the kernel (seen with 6.18) can hold back a completion until the next
/// `io_uring_enter(2)` without making the ring readable. A sleeping thread then never wakes.
fn set_up() -> io::Result<IoUring> {
    let uring = IoUring::builder()
        .setup_coop_taskrun()
        .build(SUBMISSION_ENTRIES)?;
    uring
        .submitter()
        .register_iowq_max_workers(&mut [BOUNDED_WORKERS, 0])?;
    Ok(uring)
}

/// One thread's ring.
pub(super) struct Ring {
    shared: RefCell<Shared>,
}

struct Shared {
    uring: AsyncFd<IoUring>,
    /// Operations that are not done, and results that no future has taken yet.
    slots: Slab<Slot>,
    /// Keys of operations that wait for submission, in order.
    queued: VecDeque<usize>,
    /// Operations in the submission queue or in the kernel.
    in_flight: usize,
    /// Count of entries put into the submission queue so far.
    pushed: u64,
    /// The pause in submissions while the kernel lacks memory.
    retry: Retry,
    /// The ring accepts no more submissions. Operations that the kernel already holds still complete.
    broken: bool,
    driver: Option<Waker>,
    /// The driver has ended; nothing completes any more.
    stopped: bool,
}

struct Slot {
    operation: Operation,
    /// Whether a kernel thread may block for it, because it cannot be done otherwise.
    may_block: bool,
    /// Value of [`Shared::pushed`] at its last submission.
    pushed: u64,
    state: SlotState,
}

enum SlotState {
    /// Queued, or in the kernel. The waker belongs to the future that waits, once it has been polled.
    Running(Option<Waker>),
    /// As `Running`, but the future was dropped.
    Abandoned,
    Finished(io::Result<()>),
    /// The ring broke before the kernel took the operation: the thread pool must run it.
    Refused,
}

impl Ring {
    /// Queues `operation` and waits for its end. If the future is dropped, the operation still runs.
    pub(super) async fn run(self: Rc<Self>, operation: Operation) -> Result<Buffer, Failed> {
        let key = {
            let shared = &mut *self.shared.borrow_mut();
            let key = shared.slots.insert(Slot {
                operation,
                may_block: false,
                pushed: 0,
                state: SlotState::Running(None),
            });
            shared.queued.push_back(key);
            if let Some(driver) = &shared.driver {
                driver.wake_by_ref();
            }
            key
        };
        let completion = Completion {
            ring: self,
            key: Some(key),
        };
        match completion.await {
            Ended::Completed(result) => result,
            Ended::Refused(operation) => thread_pool::run(operation).await,
        }
    }

    /// Submits and reaps until no progress is possible. Wakes the futures of operations that ended.
    fn turn(&self) {
        loop {
            let mut ended = Vec::new();
            let mut abandoned = Vec::new();
            let again = {
                let shared = &mut *self.shared.borrow_mut();
                shared.submit();
                shared.reap(&mut ended);
                if shared.broken {
                    abandoned = shared.refuse(&mut ended);
                }
                // The kernel stops at an entry that fails: entries behind it are still in the queue.
                let left = !shared.uring.get_mut().submission().is_empty();
                let room = !shared.queued.is_empty() && shared.in_flight < MOST_IN_FLIGHT;
                (left || room) && !shared.broken && !shared.retry.is_pending()
            };
            // Outside the borrow: dropping the last waker drops its task, and perhaps other completions with it.
            ended.into_iter().for_each(Waker::wake);
            abandoned.into_iter().for_each(thread_pool::run_abandoned);
            if !again {
                return;
            }
        }
    }
}

impl Shared {
    /// Submits queued operations with one system call, up to the limit.
    fn submit(&mut self) {
        if self.broken || self.retry.is_pending() {
            return;
        }
        let uring = self.uring.get_mut();
        let mut submission = uring.submission();
        while self.in_flight < MOST_IN_FLIGHT && !submission.is_full() {
            let Some(key) = self.queued.pop_front() else {
                break;
            };
            let Some(slot) = self.slots.get_mut(key) else {
                continue;
            };
            let entry = entry(slot).user_data(key as u64);
            // SAFETY: the entry's descriptor and memory belong to the operation in the slot. A slot stays until the
            // kernel has completed it (`reap` is what frees it, and dropping `Shared` waits), and the operation's
            // memory is on the heap and is not touched before.
            let pushed = unsafe { submission.push(&entry) };
            if pushed.is_err() {
                self.queued.push_front(key);
                break;
            }
            self.in_flight += 1;
            self.pushed += 1;
            slot.pushed = self.pushed;
        }
        let nothing = submission.is_empty();
        drop(submission);
        if nothing {
            return;
        }
        match enter(uring) {
            Ok(_) => self.retry.succeeded(),
            // The next turn follows at once, after reaping.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // EAGAIN: the kernel lacks memory. EBUSY: completions must be reaped, which comes next. Entries that the kernel did
            // not take are still in the queue.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::ResourceBusy
                ) =>
            {
                if self.retry.failed() == Verdict::GiveUp {
                    self.give_up(&error);
                }
            }
            Err(error) => self.give_up(&error),
        }
    }

    /// Marks the ring as broken: system calls on it fail, or have failed for too long.
    fn give_up(&mut self, error: &io::Error) {
        tracing::error!(%error, "io_uring_enter failed; this thread's I/O goes to the thread pool from now on");
        self.broken = true;
        self.in_flight -= self.uring.get_mut().submission().len();
        let _ = CURRENT.try_with(RefCell::take);
    }

    /// Removes all operations that the kernel does not hold. Pushes the wakers of waiting futures; returns operations without a
    /// future.
    fn refuse(&mut self, ended: &mut Vec<Waker>) -> Vec<Operation> {
        let untaken = self.uring.get_mut().submission().len() as u64;
        let taken = self.pushed - untaken;
        let queued = std::mem::take(&mut self.queued);
        let keys = self.slots.iter().filter_map(|(key, slot)| {
            let with_kernel = slot.pushed <= taken && !queued.contains(&key);
            let ours = matches!(slot.state, SlotState::Running(_) | SlotState::Abandoned);
            (ours && !with_kernel).then_some(key)
        });
        let keys: Vec<_> = keys.collect();
        let mut abandoned = Vec::new();
        for key in keys {
            let slot = &mut self.slots[key];
            if let SlotState::Running(waker) =
                std::mem::replace(&mut slot.state, SlotState::Refused)
            {
                ended.extend(waker);
            } else {
                abandoned.push(self.slots.remove(key).operation);
            }
        }
        abandoned
    }

    /// Takes the kernel's completions. Pushes the wakers of the waiting futures.
    fn reap(&mut self, ended: &mut Vec<Waker>) {
        for completed in self.uring.get_mut().completion() {
            self.in_flight -= 1;
            let Ok(key) = usize::try_from(completed.user_data()) else {
                continue;
            };
            let Some(slot) = self.slots.get_mut(key) else {
                continue;
            };
            let result = usize::try_from(completed.result())
                .map_err(|_| io::Error::from_raw_os_error(-completed.result()));
            match slot.operation.advance(result) {
                Progress::Continue => self.queued.push_back(key),
                Progress::Repeat => {
                    slot.may_block = true;
                    self.queued.push_back(key);
                }
                Progress::Finished(result) => {
                    match std::mem::replace(&mut slot.state, SlotState::Finished(result)) {
                        SlotState::Running(waker) => ended.extend(waker),
                        SlotState::Abandoned | SlotState::Finished(_) | SlotState::Refused => {
                            self.slots.remove(key);
                        }
                    }
                }
            }
        }
    }
}

/// Submits the queue to the kernel.
fn enter(uring: &IoUring) -> io::Result<usize> {
    #[cfg(test)]
    if let Some(error) = tests::fault() {
        return Err(error);
    }
    uring.submitter().submit()
}

fn entry(slot: &mut Slot) -> squeue::Entry {
    let file = types::Fd(slot.operation.backing().file().as_raw_fd());
    let position = slot.operation.position();
    let action = slot.operation.action();
    let rest = slot.operation.rest();
    // The kernel moves at most MAX_RW_COUNT (below 2 GiB) at a time; the rest is submitted again.
    let length = u32::try_from(rest.len()).unwrap_or(u32::MAX);
    let memory = rest.as_mut_ptr();
    let entry = match action {
        Action::Read => opcode::Read::new(file, memory, length)
            .offset(position)
            .build(),
        Action::Write => opcode::Write::new(file, memory, length)
            .offset(position)
            .build(),
        Action::WriteStable => opcode::Write::new(file, memory, length)
            .offset(position)
            .rw_flags(RWF_DSYNC)
            .build(),
        Action::Synchronize => opcode::Fsync::new(file)
            .flags(types::FsyncFlags::DATASYNC)
            .build(),
    };
    if slot.may_block {
        entry.flags(squeue::Flags::ASYNC)
    } else {
        entry
    }
}

impl Drop for Shared {
    /// Waits for the operations that the kernel still holds: their memory is freed next.
    fn drop(&mut self) {
        let mut failures = 0;
        while self.in_flight > 0 {
            let waited = if self.broken {
                // Entries in the submission queue are not submitted: their operations no longer exist.
                // SAFETY: no argument is passed.
                unsafe {
                    self.uring
                        .get_ref()
                        .submitter()
                        .enter::<()>(0, 1, GETEVENTS, None)
                }
            } else {
                self.uring.get_ref().submitter().submit_and_wait(1)
            };
            let reaped = self.uring.get_mut().completion().count();
            self.in_flight -= reaped.min(self.in_flight);
            if waited.is_ok() || reaped > 0 {
                continue;
            }
            failures += 1;
            if failures > MOST_WAITS {
                // A leak is better than a write by the kernel to memory that has a new owner.
                tracing::error!(
                    operations = self.in_flight,
                    "their memory is left to the kernel"
                );
                std::mem::forget(std::mem::take(&mut self.slots));
                return;
            }
            std::thread::sleep(WAIT);
        }
    }
}

/// How an operation ended for the ring.
enum Ended {
    Completed(Result<Buffer, Failed>),
    /// The kernel did not take all of it.
    Refused(Operation),
}

/// Future of an operation's end. Dropping it abandons only the result.
struct Completion {
    ring: Rc<Ring>,
    /// `None` after the result was returned.
    key: Option<usize>,
}

impl Future for Completion {
    type Output = Ended;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        // Dropped after the borrow ends, see `Ring::turn`.
        let mut _replaced = None;
        let shared = &mut *this.ring.shared.borrow_mut();
        let stopped = || {
            let error = io::Error::other("the I/O engine has stopped");
            Poll::Ready(Ended::Completed(Err(error.into())))
        };
        let Some(key) = this.key else {
            return stopped();
        };
        match shared.slots.get_mut(key).map(|slot| &mut slot.state) {
            Some(SlotState::Running(waker)) if !shared.stopped => {
                if !waker
                    .as_ref()
                    .is_some_and(|waker| waker.will_wake(context.waker()))
                {
                    _replaced = waker.replace(context.waker().clone());
                }
                Poll::Pending
            }
            Some(SlotState::Finished(_) | SlotState::Refused) => {
                this.key = None;
                let slot = shared.slots.remove(key);
                Poll::Ready(match slot.state {
                    SlotState::Finished(result) => Ended::Completed(slot.operation.finish(result)),
                    SlotState::Refused => Ended::Refused(slot.operation),
                    _ => return stopped(),
                })
            }
            _ => stopped(),
        }
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        let Some(key) = self.key else { return };
        let mut shared = self.ring.shared.borrow_mut();
        let Some(slot) = shared.slots.get_mut(key) else {
            return;
        };
        let before = std::mem::replace(&mut slot.state, SlotState::Abandoned);
        let mut refused = None;
        match before {
            SlotState::Finished(_) => drop(shared.slots.remove(key)),
            SlotState::Refused => refused = Some(shared.slots.remove(key).operation),
            SlotState::Running(_) | SlotState::Abandoned => {}
        }
        // Dropping `before` can run foreign code, which must not happen inside the borrow: see `Ring::turn`.
        drop(shared);
        drop(before);
        refused.into_iter().for_each(thread_pool::run_abandoned);
    }
}

/// The task that submits and reaps.
struct Driver(Rc<Ring>);

impl Future for Driver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        loop {
            self.0.turn();
            let shared = &mut *self.0.shared.borrow_mut();
            if shared.retry.poll(context).is_ready() {
                // The pause has ended.
                continue;
            }
            match &mut shared.driver {
                Some(waker) => waker.clone_from(context.waker()),
                None => shared.driver = Some(context.waker().clone()),
            }
            match shared.uring.poll_read_ready(context) {
                // The next turn reaps completions from before this call. Later completions make the ring readable again.
                Poll::Ready(Ok(mut ready)) => ready.clear_ready(),
                // The runtime is shutting down.
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let wakers: Vec<_> = {
            let shared = &mut *self.0.shared.borrow_mut();
            shared.stopped = true;
            let slots = shared.slots.iter_mut();
            slots
                .filter_map(|(_, slot)| match &mut slot.state {
                    SlotState::Running(waker) => waker.take(),
                    _ => None,
                })
                .collect()
        };
        wakers.into_iter().for_each(Waker::wake);
        let _ = CURRENT.try_with(std::cell::RefCell::take);
    }
}
