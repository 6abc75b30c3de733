// SPDX-License-Identifier: Apache-2.0
//! New sessions are spread over the reactors by load.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use iscsi::ServerOptions;

use crate::support::{FAST, Fixture, HOST, Initiator, TARGET};

/// A server with two reactors, whose READs cost processor time.
fn two_reactors(load_interval: Duration) -> Fixture {
    let options = ServerOptions {
        reactors: 2,
        load_interval,
        ..ServerOptions::default()
    };
    let fixture = Fixture::with(options, |_| {});
    // The share of the time must be clear on a loaded machine too.
    fixture.device.read_cost.store(5000, Ordering::Relaxed);
    fixture
}

fn log_in(fixture: &Fixture, number: u8) -> Initiator {
    let mut initiator = Initiator::connect(fixture.address);
    initiator.isid[5] = number;
    initiator.log_in(HOST, TARGET, FAST);
    initiator.ping(); // then the nexus is there
    initiator
}

/// Reads for `time`, not counting the time in which this process does not run.
fn work(initiator: &mut Initiator, time: Duration) {
    let mut worked = Duration::ZERO;
    while worked < time {
        let began = Instant::now();
        initiator.read(0, 2048);
        worked += began.elapsed().min(Duration::from_millis(20));
    }
}

#[test]
fn a_new_session_goes_to_the_reactor_with_the_least_load() {
    let fixture = two_reactors(ServerOptions::default().load_interval);
    let reactor = |session: usize| fixture.device.reactors.lock().unwrap()[session];
    let mut busy = log_in(&fixture, 0);
    let _idle = log_in(&fixture, 1);
    assert_ne!(reactor(0), reactor(1), "both are idle: one session on each");
    work(&mut busy, Duration::from_millis(1500));
    let _third = log_in(&fixture, 2);
    assert_eq!(reactor(2), reactor(1));
}

#[test]
fn old_load_does_not_count() {
    let fixture = two_reactors(Duration::from_millis(1100));
    let reactor = |session: usize| fixture.device.reactors.lock().unwrap()[session];
    let [mut first, mut second] = [0, 1].map(|number| log_in(&fixture, number));
    work(&mut first, Duration::from_secs(5));
    work(&mut second, Duration::from_millis(2500));
    let _third = log_in(&fixture, 2);
    assert_eq!(reactor(2), reactor(0), "the first session is idle by now");
}
