// SPDX-License-Identifier: Apache-2.0
//! Limits the memory for long data of the commands of one connection.
//!
//! A command takes memory when it runs, never while it waits for others: so it cannot block the commands that it waits for. Each
//! connection has a share of its thread's memory. If a connection does not read its answers, only [`UNREAD_COUNTED`] of its
//! memory reduces the shares of the others. Commands of a pool that hangs keep their memory: each logical unit can take
//! [`LEAST_SHARE`] whatever the others hold.
//!
//! Everything that a connection holds, including short data, counts for the budget of the process ([`HeldMemory`]).

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use scsi::sam::LogicalUnitNumber;

use crate::registry::{Registry, SessionRecord};

/// Data up to this length needs no share, bytes. The command window and the process's budget limit it.
pub(super) const SHORT: usize = 64 << 10;
/// Long data of all connections of a thread, bytes.
pub(super) const THREAD_MEMORY: usize = 24 << 20;
/// A connection may always hold this for each logical unit, bytes. A single command may hold more.
const LEAST_SHARE: usize = 1 << 20;
/// Limit of a single connection, bytes. Unread data occupies it until the connection is closed.
const MOST_SHARE: usize = THREAD_MEMORY / 3;
/// Limit of unread data that counts for the other connections, so that a connection that stalls takes no more from them.
const UNREAD_COUNTED: usize = THREAD_MEMORY / 8;

thread_local! {
    /// Sum over all connections of this thread, with unread data up to [`UNREAD_COUNTED`] each. Older connections can hold more
    /// than their present share.
    static USED: Cell<usize> = const { Cell::new(0) };
    /// Connections of this thread that hold or wait for memory.
    static ACTIVE: Cell<usize> = const { Cell::new(0) };
    /// Connections of this thread that wait: they are woken when others free memory.
    static WAITING: RefCell<Vec<Weak<Memory>>> = const { RefCell::new(Vec::new()) };
}

/// The memory of one connection.
#[derive(Default)]
pub(super) struct Memory {
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// Memory of commands for long data.
    held: usize,
    /// The same, of each logical unit that has some.
    units: Vec<(LogicalUnitNumber, usize)>,
    /// Memory of commands for short data, and of unsolicited data.
    short: usize,
    /// Memory of data that the initiator has not read.
    unread: usize,
    waiting: VecDeque<Rc<Request>>,
    /// Counted in [`ACTIVE`].
    active: bool,
    /// Counted in [`USED`].
    counted: usize,
    /// Listed in [`WAITING`].
    listed: bool,
}

struct Request {
    unit: LogicalUnitNumber,
    bytes: usize,
    granted: Cell<bool>,
    waker: RefCell<Waker>,
}

impl State {
    fn admits(&self, unit: LogicalUnitNumber, bytes: usize) -> bool {
        let of_unit = self.units.iter().find(|(other, _)| *other == unit);
        let by_unit = of_unit.map_or(0, |(_, held)| *held) + self.unread;
        let used = self.held + self.unread;
        let share = (THREAD_MEMORY / ACTIVE.get().max(1)).clamp(LEAST_SHARE, MOST_SHARE);
        by_unit == 0
            || by_unit + bytes <= LEAST_SHARE
            || (used + bytes <= share && USED.get() + bytes <= THREAD_MEMORY)
    }

    /// Whether an earlier request of the unit waits.
    fn waits(&self, unit: LogicalUnitNumber) -> bool {
        self.waiting.iter().any(|request| request.unit == unit)
    }

    fn hold(&mut self, unit: LogicalUnitNumber, bytes: usize) {
        self.held += bytes;
        match self.units.iter_mut().find(|(other, _)| *other == unit) {
            Some((_, held)) => *held += bytes,
            None => self.units.push((unit, bytes)),
        }
        self.count();
    }

    fn release(&mut self, unit: LogicalUnitNumber, bytes: usize) {
        self.held -= bytes;
        if let Some(at) = self.units.iter().position(|(other, _)| *other == unit) {
            self.units[at].1 -= bytes;
            if self.units[at].1 == 0 {
                self.units.swap_remove(at);
            }
        }
        self.count();
    }

    /// Updates [`USED`] and [`ACTIVE`] after a change.
    fn count(&mut self) {
        let used = self.held + self.unread;
        // More unread data than this does not reduce the memory of others.
        let counted = self.held + self.unread.min(UNREAD_COUNTED);
        let less = counted < self.counted;
        USED.set(USED.get() - self.counted + counted);
        self.counted = counted;
        if less {
            wake_waiting();
        }
        let active = used > 0 || !self.waiting.is_empty();
        if active != self.active {
            self.active = active;
            let count = ACTIVE.get();
            ACTIVE.set(if active { count + 1 } else { count - 1 });
        }
    }
}

/// Wakes connections that wait for memory. The connection that is borrowed checks at the end of its turn anyway.
fn wake_waiting() {
    WAITING.with_borrow_mut(|waiting| {
        waiting.retain(|memory| {
            let Some(memory) = memory.upgrade() else {
                return false;
            };
            let Ok(mut state) = memory.state.try_borrow_mut() else {
                return true;
            };
            state.listed = !state.waiting.is_empty();
            if let Some(request) = state.waiting.front() {
                request.waker.borrow().wake_by_ref();
            }
            state.listed
        });
    });
}

impl Memory {
    /// Waits for memory for `bytes` of long data. Requests of a logical unit are granted in their order.
    pub fn take(self: &Rc<Self>, unit: LogicalUnitNumber, bytes: usize) -> Take {
        Take {
            memory: Rc::clone(self),
            unit,
            bytes,
            request: None,
        }
    }

    /// Memory for `bytes` of data, if available now.
    pub fn try_take(self: &Rc<Self>, unit: LogicalUnitNumber, bytes: usize) -> Option<Share> {
        let state = &mut *self.state.borrow_mut();
        if state.waits(unit) || !state.admits(unit, bytes) {
            return None;
        }
        state.hold(unit, bytes);
        Some(self.share(Some(unit), bytes))
    }

    /// Counts `bytes` of short data.
    pub fn charge(self: &Rc<Self>, bytes: usize) -> Share {
        self.state.borrow_mut().short += bytes;
        self.share(None, bytes)
    }

    fn share(self: &Rc<Self>, unit: Option<LogicalUnitNumber>, bytes: usize) -> Share {
        Share {
            memory: Rc::clone(self),
            unit,
            bytes,
        }
    }

    /// Bytes of commands, and of data that waits for them or for the initiator.
    pub fn total(&self) -> usize {
        let state = self.state.borrow();
        state.held + state.short + state.unread
    }

    /// Sets the unread data, and grants waiting requests. Returns whether a request was granted.
    pub fn serve(&self, unread: usize) -> bool {
        self.set_unread(unread);
        let state = &mut *self.state.borrow_mut();
        let before = state.waiting.len();
        // Requests that wait are put back, in their order.
        for request in std::mem::take(&mut state.waiting) {
            if state.waits(request.unit) || !state.admits(request.unit, request.bytes) {
                state.waiting.push_back(request);
                continue;
            }
            state.hold(request.unit, request.bytes);
            request.granted.set(true);
            request.waker.borrow().wake_by_ref();
        }
        state.count();
        state.waiting.len() < before
    }

    /// Sets the data that the initiator has not read.
    pub fn set_unread(&self, unread: usize) {
        let state = &mut *self.state.borrow_mut();
        state.unread = unread;
        state.count();
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        USED.set(USED.get() - state.counted);
        if state.active {
            ACTIVE.set(ACTIVE.get() - 1);
        }
    }
}

/// A wait for memory.
pub(super) struct Take {
    memory: Rc<Memory>,
    unit: LogicalUnitNumber,
    bytes: usize,
    request: Option<Rc<Request>>,
}

impl Future for Take {
    type Output = Share;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Share> {
        let this = &mut *self;
        let state = &mut *this.memory.state.borrow_mut();
        match &this.request {
            Some(request) if request.granted.get() => this.request = None,
            Some(request) => {
                request.waker.borrow_mut().clone_from(context.waker());
                return Poll::Pending;
            }
            None if !state.waits(this.unit) && state.admits(this.unit, this.bytes) => {
                state.hold(this.unit, this.bytes);
            }
            None => {
                let request = Rc::new(Request {
                    unit: this.unit,
                    bytes: this.bytes,
                    granted: Cell::new(false),
                    waker: RefCell::new(context.waker().clone()),
                });
                state.waiting.push_back(Rc::clone(&request));
                if !state.listed {
                    state.listed = true;
                    WAITING.with_borrow_mut(|list| list.push(Rc::downgrade(&this.memory)));
                }
                this.request = Some(request);
                state.count();
                return Poll::Pending;
            }
        }
        Poll::Ready(this.memory.share(Some(this.unit), this.bytes))
    }
}

impl Drop for Take {
    fn drop(&mut self) {
        let Some(request) = self.request.take() else {
            return;
        };
        let state = &mut *self.memory.state.borrow_mut();
        if request.granted.get() {
            state.release(self.unit, self.bytes);
            return;
        }
        state.waiting.retain(|other| !Rc::ptr_eq(other, &request));
        state.count();
    }
}

/// Granted memory, freed when dropped.
pub(super) struct Share {
    memory: Rc<Memory>,
    /// `None`: of short data.
    unit: Option<LogicalUnitNumber>,
    bytes: usize,
}

impl Drop for Share {
    fn drop(&mut self) {
        let state = &mut *self.memory.state.borrow_mut();
        match self.unit {
            Some(unit) => state.release(unit, self.bytes),
            None => state.short -= self.bytes,
        }
    }
}

/// A connection's part of the process's budget, until its last command has ended.
pub(super) struct HeldMemory {
    registry: Arc<Registry>,
    record: Arc<SessionRecord>,
}

/// A smaller change is not reported to the registry, bytes: all threads write to that memory location.
const STEP: usize = 64 << 10;

impl HeldMemory {
    pub fn new(registry: &Arc<Registry>, record: &Arc<SessionRecord>) -> Self {
        Self {
            registry: Arc::clone(registry),
            record: Arc::clone(record),
        }
    }

    /// Reports the memory of the connection. If the process exceeds its budget, the connection that holds the most is closed.
    pub fn set(&self, bytes: usize) {
        let known = self.record.held_bytes.load(Ordering::Relaxed);
        if bytes.abs_diff(known) >= STEP {
            self.registry.set_held(&self.record, bytes);
        }
    }
}

impl Drop for HeldMemory {
    fn drop(&mut self) {
        self.registry.set_held(&self.record, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::task::Wake;

    use super::*;

    const MIB: usize = 1 << 20;
    const UNIT: LogicalUnitNumber = LogicalUnitNumber([0; 8]);

    fn poll(take: &mut Take) -> Option<Share> {
        let mut context = Context::from_waker(Waker::noop());
        match Pin::new(take).poll(&mut context) {
            Poll::Ready(share) => Some(share),
            Poll::Pending => None,
        }
    }

    fn take(memory: &Rc<Memory>, bytes: usize) -> (Take, Option<Share>) {
        let mut take = memory.take(UNIT, bytes);
        let share = poll(&mut take);
        (take, share)
    }

    #[test]
    fn a_single_connection_has_an_upper_limit() {
        let memory = Rc::new(Memory::default());
        let count = MOST_SHARE / MIB;
        let held: Vec<_> = (0..count).map(|_| take(&memory, MIB).1.unwrap()).collect();
        let (mut waiting, none) = take(&memory, MIB);
        assert!(none.is_none());
        assert!(!memory.serve(0), "there is nothing to grant");
        drop(held);
        assert!(memory.serve(0));
        assert!(poll(&mut waiting).is_some());
    }

    #[test]
    fn unread_data_counts() {
        let memory = Rc::new(Memory::default());
        memory.serve(MOST_SHARE);
        let (mut waiting, none) = take(&memory, MIB);
        assert!(none.is_none());
        assert!(!memory.serve(MOST_SHARE));
        assert!(memory.serve(MOST_SHARE - MIB));
        assert!(poll(&mut waiting).is_some());
    }

    #[test]
    fn a_connection_that_frees_nothing_does_not_reduce_the_shares_of_others() {
        let stalled = Rc::new(Memory::default());
        stalled.serve(THREAD_MEMORY);
        let others: Vec<_> = (0..40).map(|_| Rc::new(Memory::default())).collect();
        let held: Vec<_> = others.iter().map(|memory| take(memory, MIB).1).collect();
        assert!(held.iter().all(Option::is_some));
        // Each connection has used its share.
        let (_waiting, none) = take(&others[0], MIB);
        assert!(none.is_none());
    }

    #[test]
    fn earlier_connections_leave_only_the_rest() {
        let connections: Vec<_> = (0..16).map(|_| Rc::new(Memory::default())).collect();
        let mut held = Vec::new();
        for memory in &connections {
            while let (_, Some(share)) = take(memory, MIB / 2) {
                held.push(share);
            }
        }
        assert!(USED.get() >= THREAD_MEMORY);
        assert!(USED.get() <= THREAD_MEMORY + connections.len() * LEAST_SHARE);
        drop(held);
        assert_eq!(USED.get(), 0);
    }

    #[test]
    fn waiting_connections_are_woken_when_others_free_memory() {
        struct Flag(AtomicBool);
        impl Wake for Flag {
            fn wake(self: Arc<Self>) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let holders: [_; THREAD_MEMORY / MOST_SHARE] =
            std::array::from_fn(|_| Rc::new(Memory::default()));
        let waiter = Rc::new(Memory::default());
        let held: Vec<_> = (0..THREAD_MEMORY / MIB - 1)
            .map(|turn| take(&holders[turn % holders.len()], MIB).1.unwrap())
            .collect();
        let _memory = take(&waiter, MIB).1.unwrap();
        let woken = Arc::new(Flag(AtomicBool::new(false)));
        let waker = Waker::from(Arc::clone(&woken));
        let mut second = waiter.take(UNIT, MIB);
        let polled = Pin::new(&mut second).poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        drop(held);
        assert!(woken.0.load(Ordering::Relaxed));
        assert!(waiter.serve(0));
        assert!(poll(&mut second).is_some());
    }

    #[test]
    fn unread_data_of_one_does_not_reduce_the_shares_of_others() {
        let (stalled, other) = (Rc::new(Memory::default()), Rc::new(Memory::default()));
        let _memory = take(&other, MIB).1.unwrap();
        stalled.serve(4 * THREAD_MEMORY);
        let held: Vec<_> = (0..7).map(|_| take(&other, MIB).1).collect();
        assert!(held.iter().all(Option::is_some));
    }

    #[test]
    fn a_command_larger_than_the_share_runs_when_no_other_does() {
        let memory = Rc::new(Memory::default());
        let first = take(&memory, 2 * THREAD_MEMORY).1.unwrap();
        let (mut second, none) = take(&memory, MIB);
        assert!(none.is_none());
        drop(first);
        memory.serve(0);
        assert!(poll(&mut second).is_some());
    }

    #[test]
    fn a_unit_that_frees_nothing_does_not_stop_the_others() {
        let other = LogicalUnitNumber([0, 1, 0, 0, 0, 0, 0, 0]);
        let memory = Rc::new(Memory::default());
        let _hanging = take(&memory, MOST_SHARE).1.unwrap();
        let (mut waiting, none) = take(&memory, MIB);
        assert!(none.is_none());
        // Its own requests wait for each other.
        let mut half = memory.take(other, MIB / 2);
        let first = poll(&mut half).unwrap();
        let _second = memory.try_take(other, MIB / 2).unwrap();
        let mut third = memory.take(other, MIB / 2);
        assert!(poll(&mut third).is_none());
        assert!(memory.try_take(other, MIB / 4).is_none());
        drop(first);
        assert!(memory.serve(0), "behind the other unit's request");
        assert!(poll(&mut third).is_some());
        assert!(poll(&mut waiting).is_none());
        // Alone, a command can be longer.
        assert!(
            memory
                .try_take(LogicalUnitNumber([0, 2, 0, 0, 0, 0, 0, 0]), 4 * MIB)
                .is_some()
        );
    }

    #[test]
    fn a_dropped_wait_frees_its_request() {
        let memory = Rc::new(Memory::default());
        let all = take(&memory, MOST_SHARE).1.unwrap();
        let (given_up_waiting, _) = take(&memory, MIB);
        let (given_up_granted, _) = take(&memory, MIB);
        drop(given_up_waiting);
        drop(all);
        assert!(memory.serve(0));
        drop(given_up_granted);
        assert!(take(&memory, MOST_SHARE).1.is_some());
        drop(memory);
        assert_eq!(ACTIVE.get(), 0);
    }
}
