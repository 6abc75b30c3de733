// SPDX-License-Identifier: Apache-2.0
//! Locks on ranges of a volume, for commands that change them.
//!
//! A request waits for every earlier request that conflicts with it, granted or waiting. Overlapping requests are granted in
//! order, so none starves. [`RangeLocks::drain`] waits too, but blocks no later request. Requests that do not overlap never wait for each other.
//!
//! A command requests its lock after its Data-Out has arrived, and never waits for an initiator while it holds one: otherwise a
//! slow host would block the others.

use std::future::poll_fn;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::{Poll, Waker};

use slab::Slab;

use crate::lock;

/// Byte ranges of the volume that are locked or requested. Units that serve the same disk, one after the other, share them.
#[derive(Debug, Default)]
pub(crate) struct RangeLocks(OnceLock<Arc<Table>>);

/// Mode of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// The range is read atomically with other ranges, or in steps: [`Hold::Write`] and [`Hold::Exclusive`] wait.
    Read,
    /// The range is written. Other writes are concurrent, as SAM does not order them. [`Hold::Read`] and [`Hold::Exclusive`]
    /// wait.
    Write,
    /// The range is read and then written: all others wait.
    Exclusive,
    /// Waits for all earlier requests; no later request waits for it.
    Drain,
}

/// A requested range.
pub(crate) type Part = (Hold, Range<u64>);

/// A locked range, unlocked when dropped.
#[derive(Debug)]
pub(crate) struct RangeGuard {
    table: Arc<Table>,
    place: Place,
}

/// Locked ranges of a copy step, unlocked when dropped.
#[derive(Debug)]
#[expect(dead_code, reason = "it is there to be dropped")]
pub(crate) struct CopyGuard([Option<RangeGuard>; 2]);

impl RangeLocks {
    /// Locks a range for a write.
    pub(crate) async fn write(&self, range: Range<u64>) -> RangeGuard {
        Table::hold(self.table(), [(Hold::Write, range), NOTHING]).await
    }

    /// Locks a range against all other users that change it or read it atomically.
    pub(crate) async fn exclusive(&self, range: Range<u64>) -> RangeGuard {
        Table::hold(self.table(), [(Hold::Exclusive, range), NOTHING]).await
    }

    /// Locks the source of a copy step here, and its destination in `destination`, which can be the same disk, with overlapping
    /// ranges.
    ///
    /// Copies in opposite directions cannot deadlock: ranges of one disk are requested at once, those of two disks always in the
    /// same order.
    pub(crate) async fn copy(
        &self,
        source: Range<u64>,
        destination: &Self,
        write: Part,
    ) -> CopyGuard {
        let (table, other) = (self.table(), destination.table());
        let read = (Hold::Read, source);
        if Arc::ptr_eq(table, other) {
            return CopyGuard([Some(Table::hold(table, [read, write]).await), None]);
        }
        let mut ends = [(table, read), (other, write)];
        ends.sort_by_key(|(table, _)| Arc::as_ptr(table));
        let [(first, first_part), (second, second_part)] = ends;
        let first = Table::hold(first, [first_part, NOTHING]).await;
        let second = Table::hold(second, [second_part, NOTHING]).await;
        CopyGuard([Some(first), Some(second)])
    }

    /// Locks a range for an atomic read.
    pub(crate) async fn read(&self, range: Range<u64>) -> RangeGuard {
        Table::hold(self.table(), [(Hold::Read, range), NOTHING]).await
    }

    /// Waits until all requests so far have ended. Requests that come later do not wait for it.
    pub(crate) async fn drain(&self) {
        let everything = (Hold::Drain, 0..u64::MAX);
        drop(Table::hold(self.table(), [everything, NOTHING]).await);
    }

    /// Watches for write requests to these ranges until it is dropped. Earlier writes can still be running.
    pub(crate) fn watch(&self, ranges: Vec<Range<u64>>) -> Arc<Watch> {
        let watch = Arc::new(Watch {
            ranges,
            changed: AtomicBool::new(false),
        });
        let watches = &mut lock(&self.table().0).watches;
        watches.retain(|watch| watch.strong_count() > 0);
        watches.push(Arc::downgrade(&watch));
        watch
    }

    /// The whole volume can have changed without a write request.
    pub(crate) fn note_change_of_all(&self) {
        let everything = (Hold::Write, 0..u64::MAX);
        lock(&self.table().0).note(&[everything, NOTHING]);
    }

    /// Shares the locks of `other`, which serves the same disk. Call it before the first request.
    pub(crate) fn share(&self, other: &Self) {
        let _ = self.0.set(Arc::clone(other.table()));
    }

    fn table(&self) -> &Arc<Table> {
        self.0.get_or_init(Arc::default)
    }
}

/// Ranges that are watched for writes.
#[derive(Debug)]
pub(crate) struct Watch {
    ranges: Vec<Range<u64>>,
    changed: AtomicBool,
}

impl Watch {
    /// Whether a write to one of the ranges was requested. If not, the holder of a read lock reads the data unchanged.
    pub(crate) fn has_changed(&self) -> bool {
        self.changed.load(Ordering::Acquire)
    }

    fn note(&self, written: &Range<u64>) {
        let meets =
            |range: &Range<u64>| range.start.max(written.start) < range.end.min(written.end);
        if self.ranges.iter().any(meets) {
            self.changed.store(true, Ordering::Release);
        }
    }
}

/// No range.
const NOTHING: Part = (Hold::Write, 0..0);

/// Granted and waiting requests.
#[derive(Debug, Default)]
struct Table(Mutex<Requests>);

#[derive(Debug, Default)]
struct Requests {
    /// Number of requests so far; their order.
    count: u64,
    /// Requests that only write. They do not conflict with each other, and conflict with nothing if no others exist.
    writes: Slab<Request>,
    others: Slab<Request>,
    watches: Vec<Weak<Watch>>,
}

#[derive(Debug)]
struct Request {
    number: u64,
    parts: [Part; 2],
    /// Number of earlier requests that conflict with this one.
    blockers: usize,
    waker: Option<Waker>,
}

/// Position of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Writes(usize),
    Others(usize),
}

impl Request {
    fn waits_for(&self, earlier: &Self) -> bool {
        let pairs = self
            .parts
            .iter()
            .flat_map(|part| earlier.parts.iter().map(move |held| (part, held)));
        pairs.into_iter().any(|((hold, range), (others, other))| {
            let both = (*hold, *others);
            let alongside = matches!(
                both,
                (Hold::Read, Hold::Read) | (Hold::Write, Hold::Write) | (_, Hold::Drain)
            );
            !alongside && range.start.max(other.start) < range.end.min(other.end)
        })
    }
}

impl Table {
    /// If dropped before it was first polled, it has requested nothing.
    async fn hold(this: &Arc<Self>, parts: [Part; 2]) -> RangeGuard {
        let (guard, held) = Self::request(this, parts);
        if !held {
            poll_fn(|context| {
                let mut requests = lock(&this.0);
                let Some(request) = requests.request(guard.place) else {
                    return Poll::Ready(());
                };
                if request.blockers == 0 {
                    return Poll::Ready(());
                }
                match &mut request.waker {
                    Some(waker) => waker.clone_from(context.waker()),
                    None => request.waker = Some(context.waker().clone()),
                }
                Poll::Pending
            })
            .await;
        }
        guard
    }

    /// Adds a request. Returns whether it is granted at once.
    fn request(this: &Arc<Self>, parts: [Part; 2]) -> (RangeGuard, bool) {
        let mut requests = lock(&this.0);
        requests.note(&parts);
        requests.count += 1;
        let mut request = Request {
            number: requests.count,
            parts,
            blockers: 0,
            waker: None,
        };
        let conflicting = |requests: &Slab<Request>| {
            requests
                .iter()
                .filter(|(_, earlier)| request.waits_for(earlier))
                .count()
        };
        let writes = request.parts.iter().all(|(hold, _)| *hold == Hold::Write);
        let mut blockers = conflicting(&requests.others);
        if !writes {
            blockers += conflicting(&requests.writes);
        }
        request.blockers = blockers;
        let place = if writes {
            Place::Writes(requests.writes.insert(request))
        } else {
            Place::Others(requests.others.insert(request))
        };
        drop(requests);
        let guard = RangeGuard {
            table: Arc::clone(this),
            place,
        };
        (guard, blockers == 0)
    }

    /// Removes a request, and wakes requests that waited only for it.
    fn release(&self, place: Place) {
        let mut ready = Vec::new();
        {
            let mut requests = lock(&self.0);
            let Requests { writes, others, .. } = &mut *requests;
            let gone = match place {
                Place::Writes(key) => writes.try_remove(key),
                Place::Others(key) => others.try_remove(key),
            };
            let Some(gone) = gone else { return };
            let mut unblock = |requests: &mut Slab<Request>| {
                for (_, later) in requests {
                    if later.number > gone.number && later.waits_for(&gone) {
                        later.blockers -= 1;
                        if later.blockers == 0 {
                            ready.extend(later.waker.take());
                        }
                    }
                }
            };
            unblock(others);
            if matches!(place, Place::Others(_)) {
                unblock(writes);
            }
        }
        // Wake them outside the lock.
        ready.into_iter().for_each(Waker::wake);
    }
}

impl Requests {
    /// Notifies watches of a coming write, and removes those that were dropped or already notified.
    fn note(&mut self, parts: &[Part; 2]) {
        if self.watches.is_empty() {
            return;
        }
        let written = parts
            .iter()
            .filter(|(hold, _)| matches!(hold, Hold::Write | Hold::Exclusive));
        self.watches.retain(|watch| {
            watch.upgrade().is_some_and(|watch| {
                written.clone().for_each(|(_, range)| watch.note(range));
                !watch.has_changed()
            })
        });
    }

    fn request(&mut self, place: Place) -> Option<&mut Request> {
        match place {
            Place::Writes(key) => self.writes.get_mut(key),
            Place::Others(key) => self.others.get_mut(key),
        }
    }
}

impl Drop for RangeGuard {
    fn drop(&mut self) {
        self.table.release(self.place);
    }
}

#[cfg(test)]
mod tests;
