// SPDX-License-Identifier: Apache-2.0
//! Ranges of a volume that commands hold against each other while they change it.
//!
//! A request waits for every earlier one that conflicts with it, be that held or waiting: first come, first served among those that
//! overlap, and nobody is starved. What does not overlap never meets.
//!
//! A command asks when its Data-Out has arrived, and never waits for an initiator while it holds anything: a host that is slow would
//! stop the others.

use std::future::poll_fn;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::{Poll, Waker};

use slab::Slab;

use crate::lock;

/// Ranges, in bytes of the volume, that are held or waited for. Units that serve the same disk, one after the other, share them.
#[derive(Debug, Default)]
pub(crate) struct RangeLocks(OnceLock<Arc<Table>>);

/// What may not happen in a range while it is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// It is read as one with other ranges, or in steps: [`Hold::Write`] and [`Hold::Exclusive`] wait.
    Read,
    /// It is written, concurrent with other writes; SAM orders none of them. [`Hold::Read`] and [`Hold::Exclusive`] wait.
    Write,
    /// It is read and then written: everything waits.
    Exclusive,
}

/// A requested range.
pub(crate) type Part = (Hold, Range<u64>);

/// A held range; let go when dropped.
#[derive(Debug)]
pub(crate) struct RangeGuard {
    table: Arc<Table>,
    place: Place,
}

/// The ranges that a copy step reads and writes; let go when dropped.
#[derive(Debug)]
#[expect(dead_code, reason = "it is there to be dropped")]
pub(crate) struct CopyGuard([Option<RangeGuard>; 2]);

impl RangeLocks {
    /// Holds a range that is about to be written.
    pub(crate) async fn write(&self, range: Range<u64>) -> RangeGuard {
        Table::hold(self.table(), [(Hold::Write, range), NOTHING]).await
    }

    /// Holds a range alone among those that change it, or read it as one.
    pub(crate) async fn exclusive(&self, range: Range<u64>) -> RangeGuard {
        Table::hold(self.table(), [(Hold::Exclusive, range), NOTHING]).await
    }

    /// Holds what one step of a copy reads here and holds as said in `destination`, which may be here too and may overlap.
    ///
    /// Copies in opposite directions do not wait for each other in a circle: ranges of one disk are requested at once, those of two
    /// always in the same order.
    pub(crate) async fn copy(
        &self,
        source: Range<u64>,
        destination: &Self,
        write: Part,
    ) -> CopyGuard {
        let (here, there) = (self.table(), destination.table());
        let read = (Hold::Read, source);
        if Arc::ptr_eq(here, there) {
            return CopyGuard([Some(Table::hold(here, [read, write]).await), None]);
        }
        let mut ends = [(here, read), (there, write)];
        ends.sort_by_key(|(table, _)| Arc::as_ptr(table));
        let [(first, first_part), (second, second_part)] = ends;
        let first = Table::hold(first, [first_part, NOTHING]).await;
        let second = Table::hold(second, [second_part, NOTHING]).await;
        CopyGuard([Some(first), Some(second)])
    }

    /// Holds a range that is about to be read as one.
    pub(crate) async fn read(&self, range: Range<u64>) -> RangeGuard {
        Table::hold(self.table(), [(Hold::Read, range), NOTHING]).await
    }

    /// Notes from now on whether anybody asks to write any of these ranges, until it is dropped. Who did before may still be writing.
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

    /// Everything may have changed without a write request.
    pub(crate) fn note_change_of_all(&self) {
        let everything = (Hold::Write, 0..u64::MAX);
        lock(&self.table().0).note(&[everything, NOTHING]);
    }

    /// From now on ranges are held against those of `other` too: its disk is served here. Before any request here.
    pub(crate) fn share(&self, other: &Self) {
        let _ = self.0.set(Arc::clone(other.table()));
    }

    fn table(&self) -> &Arc<Table> {
        self.0.get_or_init(Arc::default)
    }
}

/// Ranges that are to stay as they are.
#[derive(Debug)]
pub(crate) struct Watch {
    ranges: Vec<Range<u64>>,
    changed: AtomicBool,
}

impl Watch {
    /// Whether there was a request to write any of the ranges. The holder of a read lock whose range is unchanged reads it unchanged.
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

/// Requests that are held or wait.
#[derive(Debug, Default)]
struct Table(Mutex<Requests>);

#[derive(Debug, Default)]
struct Requests {
    /// How many there were: their order.
    count: u64,
    /// Those that write only: they do not conflict with each other, and with nothing at all as long as there are no others.
    writes: Slab<Request>,
    others: Slab<Request>,
    watches: Vec<Weak<Watch>>,
}

#[derive(Debug)]
struct Request {
    number: u64,
    parts: [Part; 2],
    /// Earlier requests that conflict with this one.
    blockers: usize,
    waker: Option<Waker>,
}

/// Where a request is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Writes(usize),
    Others(usize),
}

impl Request {
    fn conflicts(&self, other: &Self) -> bool {
        let pairs = self
            .parts
            .iter()
            .flat_map(|one| other.parts.iter().map(move |two| (one, two)));
        pairs.into_iter().any(|((hold, range), (others, other))| {
            let both = (*hold, *others);
            let alongside = matches!(both, (Hold::Read, Hold::Read) | (Hold::Write, Hold::Write));
            !alongside && range.start.max(other.start) < range.end.min(other.end)
        })
    }
}

impl Table {
    /// Dropped before it is ready, it has requested nothing.
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

    /// Queues a request, and says whether it is held at once.
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
                .filter(|(_, earlier)| earlier.conflicts(&request))
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

    /// Takes a request away and wakes those that waited for nothing else.
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
                    if later.number > gone.number && later.conflicts(&gone) {
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
        // What they run must not meet the lock.
        ready.into_iter().for_each(Waker::wake);
    }
}

impl Requests {
    /// Tells watches of what is about to be written; of no further interest are those that are gone or know already.
    fn note(&mut self, parts: &[Part; 2]) {
        if self.watches.is_empty() {
            return;
        }
        let written = parts.iter().filter(|(hold, _)| *hold != Hold::Read);
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
