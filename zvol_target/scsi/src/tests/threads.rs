// SPDX-License-Identifier: Apache-2.0
//! Tasks on several threads, each with a reactor.

use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::thread;

use super::{
    Event, Initiator, Sent, UNIT, block_on, has_status, is_good, manage, pattern, poll, read,
    setup, stuck_write, write_10,
};
use crate::sam::{
    Completion, FunctionResponse, Outcome, Status, TaskAttribute, TaskManagementFunction,
};
use crate::task_set::Abort;
use crate::{Family, LogicalUnitAccess};

#[test]
fn a_task_in_the_volume_runs_to_its_end_on_its_thread_before_the_reset_completes() {
    let (volume, initiator) = setup();
    let other = Initiator::of(Arc::clone(&initiator.device));
    let data = pattern(1, 1);
    volume.hold();
    let (send, outcomes) = mpsc::channel();
    thread::scope(|scope| {
        // Two threads, each a reactor with a write: one in the volume, one waiting for data.
        let of_writer = send.clone();
        scope.spawn(|| {
            let of_writer = of_writer;
            let write = initiator.execute(
                1,
                TaskAttribute::Simple,
                &write_10(0, 1),
                Sent::boxed(&data),
            );
            let aborted = matches!(block_on(write), Outcome::Aborted);
            of_writer.send(("writing", aborted)).unwrap();
        });
        block_on(volume.wait_for_operation());
        let (entered, wait_for_entry) = mpsc::channel();
        let of_other = send.clone();
        scope.spawn(|| {
            let (of_other, entered) = (of_other, entered);
            let write = stuck_write(&other, 1);
            entered.send(()).unwrap();
            let aborted = has_status(&Poll::Ready(block_on(write)), Status::TaskAborted);
            of_other.send(("waiting", aborted)).unwrap();
        });
        wait_for_entry.recv().unwrap();
        let mut reset = manage(&initiator, TaskManagementFunction::LogicalUnitReset(UNIT));
        // The waiting task ends without the volume.
        assert_eq!(outcomes.recv().unwrap(), ("waiting", true));
        assert!(poll(&mut reset).is_pending());
        assert_eq!(volume.events(), []);
        volume.release(1);
        assert_eq!(block_on(reset), FunctionResponse::Complete);
        // Completed, so that it cannot overwrite a later write.
        assert_eq!(volume.events().len(), 1);
        assert_eq!(outcomes.recv().unwrap(), ("writing", true));
    });
}

#[test]
fn threads_that_write_and_one_that_resets() {
    const WRITES: u64 = 300;
    let (volume, initiator) = setup();
    let device = Arc::clone(&initiator.device);
    let (good, attentions, aborted) = thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|_| {
                let device = Arc::clone(&device);
                scope.spawn(move || {
                    let initiator = Initiator::fresh(device);
                    let attributes = [
                        TaskAttribute::Simple,
                        TaskAttribute::Ordered,
                        TaskAttribute::HeadOfQueue,
                    ];
                    let mut counts = (0_u64, 0_u64, 0_u64);
                    for (identifier, attribute) in (0..WRITES).zip(attributes.into_iter().cycle()) {
                        let data = Sent::boxed(&pattern(1, 1));
                        match block_on(initiator.execute(
                            identifier,
                            attribute,
                            &write_10(0, 1),
                            data,
                        )) {
                            Outcome::Completed(Completion {
                                status: Status::Good,
                                ..
                            }) => counts.0 += 1,
                            Outcome::Aborted
                            | Outcome::Completed(Completion {
                                status: Status::TaskAborted,
                                ..
                            }) => counts.2 += 1,
                            Outcome::Completed(Completion { sense, .. }) => {
                                assert_eq!((sense[2], sense[12]), (6, 0x29));
                                counts.1 += 1;
                            }
                        }
                    }
                    counts
                })
            })
            .collect();
        while writers.iter().any(|writer| !writer.is_finished()) {
            let reset = manage(&initiator, TaskManagementFunction::LogicalUnitReset(UNIT));
            assert_eq!(block_on(reset), FunctionResponse::Complete);
            thread::yield_now();
        }
        writers
            .into_iter()
            .map(|writer| writer.join().unwrap())
            .fold((0, 0, 0), |sum, counts| {
                (sum.0 + counts.0, sum.1 + counts.1, sum.2 + counts.2)
            })
    });
    assert_eq!(good + attentions + aborted, 3 * WRITES);
    // Every write with GOOD reached the volume; aborted writes may have.
    let written = volume
        .events()
        .iter()
        .filter(|event| matches!(event, Event::Write { .. }))
        .count() as u64;
    assert!(
        (good..=good + aborted).contains(&written),
        "{good} good, {aborted} aborted, {written} written"
    );
    let statistics = device.logical_unit(0).unwrap().statistics();
    assert_eq!(
        (statistics[Family::Write].operations, statistics.aborted),
        (good, aborted)
    );
}

#[test]
fn threads_that_read_while_their_access_changes() {
    const READS: u64 = 500;
    let (_, initiator) = setup();
    let device = Arc::clone(&initiator.device);
    let hosts: Vec<_> = (0..2)
        .map(|_| Initiator::fresh(Arc::clone(&device)))
        .collect();
    let name = &hosts[0].nexus.initiator_device;
    let only_first = LogicalUnitAccess::Initiators([name.clone()].into());
    let attentions = thread::scope(|scope| {
        let readers: Vec<_> = hosts
            .iter()
            .map(|host| {
                scope.spawn(move || {
                    let mut attentions = 0;
                    for identifier in 0..READS {
                        match block_on(read(host, identifier, TaskAttribute::Simple)) {
                            Outcome::Completed(completion) => match completion.status {
                                Status::Good | Status::TaskAborted => {}
                                // Power on or LUNs changed; no unit.
                                _ if completion.sense[2] == 6 => attentions += 1,
                                _ => assert_eq!(completion.sense[2], 5),
                            },
                            Outcome::Aborted => panic!("no task was aborted"),
                        }
                    }
                    attentions
                })
            })
            .collect();
        while readers.iter().any(|reader| !reader.is_finished()) {
            device.set_access(0, only_first.clone()).unwrap();
            thread::yield_now();
            device.set_access(0, LogicalUnitAccess::Any).unwrap();
        }
        let attentions: Vec<u64> = readers
            .into_iter()
            .map(|reader| reader.join().unwrap())
            .collect();
        attentions[0]
    });
    // The host with permanent access lost nothing.
    let mine = device.host_statistics().remove(name).unwrap();
    assert_eq!(
        (mine[Family::Read].operations + attentions, mine.aborted),
        (READS, 0)
    );
    let unit = device.logical_unit(0).unwrap();
    assert!(unit.tasks.abort(|_, _| Some(Abort::Silent)).is_empty());
}

#[test]
fn tasks_on_two_threads_wake_each_other() {
    let (_, initiator) = setup();
    let other = Initiator::of(Arc::clone(&initiator.device));
    thread::scope(|scope| {
        for initiator in [&initiator, &other] {
            scope.spawn(move || {
                for identifier in 0..300 {
                    let outcome = block_on(read(initiator, identifier, TaskAttribute::Ordered));
                    assert!(is_good(&Poll::Ready(outcome)));
                }
            });
        }
    });
    let unit = initiator.device.logical_unit(0).unwrap();
    assert_eq!(unit.statistics()[Family::Read].operations, 600);
    // No task remains.
    assert!(unit.tasks.abort(|_, _| Some(Abort::Silent)).is_empty());
}
