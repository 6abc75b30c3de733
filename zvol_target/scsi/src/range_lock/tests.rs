// SPDX-License-Identifier: Apache-2.0
//! Order of requests, compared with the rules byte by byte.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Wake};
use std::thread;

use proptest::prelude::*;

use super::*;
use crate::tests::block_on;

type Holding<'a> = Pin<Box<dyn Future<Output = RangeGuard> + 'a>>;

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A request that is polled only after a wake-up.
struct Request<'a> {
    future: Option<Holding<'a>>,
    held: Option<RangeGuard>,
    flag: Arc<Flag>,
    parts: [Part; 2],
}

impl<'a> Request<'a> {
    fn new(locks: &'a RangeLocks, parts: [Part; 2]) -> Self {
        let future = Box::pin(Table::hold(locks.table(), parts.clone()));
        let mut requests = Self {
            future: Some(future),
            held: None,
            flag: Arc::new(Flag(AtomicBool::new(true))),
            parts,
        };
        requests.poll();
        requests
    }

    fn poll(&mut self) {
        if !self.flag.0.swap(false, Ordering::Relaxed) {
            return;
        }
        let waker = Waker::from(Arc::clone(&self.flag));
        if let Some(future) = &mut self.future {
            if let Poll::Ready(guard) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                self.held = Some(guard);
                self.future = None;
            }
        }
    }
}

/// The rules for each byte.
fn waits_for((hold, range): &Part, (other_hold, other_range): &Part) -> bool {
    let both = range
        .clone()
        .any(|byte| other_range.clone().any(|other| byte == other));
    both && *other_hold != Hold::Drain && (hold != other_hold || *hold == Hold::Exclusive)
}

fn part() -> impl Strategy<Value = Part> {
    let hold = prop_oneof![
        1 => Just(Hold::Read),
        3 => Just(Hold::Write),
        2 => Just(Hold::Exclusive),
        1 => Just(Hold::Drain),
    ];
    (hold, 0_u64..12, 0_u64..5).prop_map(|(hold, start, length)| (hold, start..start + length))
}

#[derive(Clone, Debug)]
enum Action {
    Ask(Part, Option<Part>),
    /// Drops one of the requests, granted or not.
    Release(prop::sample::Index),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        3 => (part(), prop::option::weighted(0.2, part())).prop_map(|(part, second)| Action::Ask(part, second)),
        2 => any::<prop::sample::Index>().prop_map(Action::Release),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// A request is granted if and only if no earlier existing request conflicts with it.
    #[test]
    fn a_request_is_granted_without_earlier_conflicts(actions in prop::collection::vec(action(), 1..80)) {
        let locks = RangeLocks::default();
        // In the order of the requests.
        let mut requests: Vec<Request> = Vec::new();
        for action in actions {
            match action {
                Action::Ask(part, second) => {
                    requests.push(Request::new(&locks, [part, second.unwrap_or(NOTHING)]));
                }
                Action::Release(index) if !requests.is_empty() => {
                    drop(requests.remove(index.index(requests.len())));
                }
                Action::Release(_) => {}
            }
            requests.iter_mut().for_each(Request::poll);
            for (at, request) in requests.iter().enumerate() {
                let blocked = requests[..at].iter().any(|earlier| {
                    request.parts.iter().any(|part| {
                        earlier.parts.iter().any(|other| waits_for(part, other))
                    })
                });
                prop_assert_eq!(request.held.is_some(), !blocked, "{} of {:?}", at, request.parts);
            }
        }
        drop(requests);
        let requests = lock(&locks.table().0);
        prop_assert!(requests.writes.is_empty() && requests.others.is_empty());
    }
}

#[test]
fn a_stream_of_writes_does_not_starve_one_that_waits() {
    let locks = RangeLocks::default();
    let ask = |hold| Request::new(&locks, [(hold, 0..512), NOTHING]);
    let first = ask(Hold::Write);
    let mut waits = ask(Hold::Exclusive);
    let mut stream: Vec<_> = (0..10).map(|_| ask(Hold::Write)).collect();
    assert!(stream.iter().all(|write| write.held.is_none()));
    assert!(waits.held.is_none());
    drop(first);
    waits.poll();
    assert!(waits.held.is_some());
    // Other ranges do not wait.
    let elsewhere = Request::new(&locks, [(Hold::Exclusive, 512..1024), NOTHING]);
    assert!(elsewhere.held.is_some());
    drop(waits);
    stream.iter_mut().for_each(Request::poll);
    assert!(stream.iter().all(|write| write.held.is_some()));
}

#[test]
fn a_unit_in_the_place_of_another_shares_its_ranges() {
    let (old, new) = (RangeLocks::default(), RangeLocks::default());
    let held = block_on(old.write(0..10));
    new.share(&old);
    let mut waits = Request::new(&new, [(Hold::Exclusive, 5..6), NOTHING]);
    assert!(waits.held.is_none());
    drop(held);
    waits.poll();
    assert!(waits.held.is_some());
}

#[test]
fn dropped_watches_are_removed_without_a_write() {
    let locks = RangeLocks::default();
    let other = locks.watch(vec![0..1, 5..6]);
    for _ in 0..1000 {
        drop(locks.watch(vec![0..1, 5..6]));
    }
    assert!(lock(&locks.table().0).watches.len() <= 2);
    assert!(!other.has_changed());
    block_on(locks.drain());
    assert!(!other.has_changed());
    locks.note_change_of_all();
    assert!(other.has_changed());
}

#[test]
fn threads_lose_no_update() {
    const REPEATS: u64 = 3000;
    let locks = RangeLocks::default();
    let (value, writers) = (AtomicU64::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for repeat in 0..REPEATS {
                    let _alone = block_on(locks.exclusive(0..512));
                    assert_eq!(writers.load(Ordering::Relaxed), 0);
                    let seen = value.load(Ordering::Relaxed);
                    if repeat % 16 == 0 {
                        thread::yield_now();
                    }
                    value.store(seen + 1, Ordering::Relaxed);
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..REPEATS {
                    let _neighbour = block_on(locks.write(256..1024));
                    writers.fetch_add(1, Ordering::Relaxed);
                    writers.fetch_sub(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(value.into_inner(), 3 * REPEATS);
}

#[test]
fn copies_in_opposite_directions_end() {
    let (first, second) = (RangeLocks::default(), RangeLocks::default());
    thread::scope(|scope| {
        for (from, to) in [
            (&first, &second),
            (&second, &first),
            (&first, &first),
            (&second, &second),
        ] {
            scope.spawn(move || {
                for at in 0..2000 {
                    let at = at % 7;
                    let written = (Hold::Write, 10 - at..15 - at);
                    drop(block_on(from.copy(at..at + 5, to, written)));
                }
            });
        }
    });
}
