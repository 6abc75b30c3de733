// SPDX-License-Identifier: Apache-2.0
//! Running copies: locks, progress reports, aborts and limits.

use std::sync::Arc;
use std::task::Poll;

use super::super::{
    BLOCKS, Event, INVALID_FIELD_IN_CDB, Initiator, RamVolume, Sent, TEST_UNIT_READY, Task,
    block_on, has_status, is_aborted, is_good, manage, poll, write_10,
};
use super::{
    COPY_ABORTED, Pair, Segment, anonymous, begin, codes, copy, copy_operation_abort,
    extended_copy, names, pair, pair_on, parameter_list, receive, receive_lid4, send,
};
use crate::address::logical_unit_number;
use crate::sam::{
    LogicalUnitNumber, Nexus, Outcome, ScsiTarget, Status, TaskAttribute, TaskManagementFunction,
};

#[test]
fn a_copy_locks_its_ranges_against_writers() {
    let Pair { volumes, initiator } = pair();
    volumes[1].hold();
    let list = anonymous(&names(), &[Segment(0, 1, 64, 0, 0)]);
    let cdb = extended_copy(list.len());
    let mut task = initiator.execute(1, TaskAttribute::Simple, &cdb, Sent::boxed(&list));
    begin(&mut task, &volumes[1]);
    let write = |unit: u16, address| {
        let cdb = write_10(address, 1);
        let to = initiator.to(logical_unit_number(unit));
        to.execute(
            u64::from(address) + 10,
            TaskAttribute::Simple,
            &cdb,
            Sent::boxed(&[1; 512]),
        )
    };
    let mut to_source = write(0, 63);
    assert!(poll(&mut to_source).is_pending());
    assert!(is_good(&poll(&mut write(0, 64))));
    // Also if the copy is aborted: its step would overwrite what is written to the destination before the step has ended.
    let begun = volumes[1].begun();
    let mut to_destination = write(1, 63);
    assert!(poll(&mut to_destination).is_pending());
    assert_eq!(volumes[1].begun(), begun);
    let mut behind = write(1, 64);
    assert!(poll(&mut behind).is_pending());
    assert_eq!(volumes[1].begun(), begun + 1);
    volumes[1].release(1000);
    assert!(is_good(&Poll::Ready(block_on(task))));
    for task in [to_source, to_destination, behind] {
        assert!(is_good(&Poll::Ready(block_on(task))));
    }
}

#[test]
fn the_status_of_a_copy_is_reported_while_it_runs_and_once_after() {
    let Pair { volumes, initiator } = pair();
    let list = parameter_list(
        5,
        0b00,
        &names(),
        &[Segment(0, 1, 1, 0, 0), Segment(0, 1, 16, 8, 8)],
    );
    let cdb = extended_copy(list.len());
    assert_eq!(initiator.code(&receive(0, 5), &[]), INVALID_FIELD_IN_CDB);
    volumes[1].hold();
    let mut task = initiator.execute(1, TaskAttribute::Simple, &cdb, Sent::boxed(&list));
    begin(&mut task, &volumes[1]);
    assert_eq!(
        initiator.data(&receive(0, 5)),
        [0, 0, 0, 8, 0x00, 0, 1, 0, 0, 0, 0, 0]
    );
    assert_eq!(
        initiator.data(&receive_lid4(5))[4..12],
        [0, 0x11, 0, 1, 0, 0, 3, 0xe8]
    );
    // No details while it runs; never any held data.
    assert_eq!(initiator.code(&receive(4, 5), &[]), INVALID_FIELD_IN_CDB);
    assert_eq!(initiator.data(&receive(1, 5)), [0; 4]);
    assert_eq!(initiator.code(&receive(1, 6), &[]), INVALID_FIELD_IN_CDB);
    // The identifier is in use only in this nexus and unit.
    let again = send(&initiator, &list);
    assert_eq!(codes(&again), (5, 0x00, 0x16));
    copy(
        &initiator.to(logical_unit_number(1)),
        &parameter_list(5, 0, &names(), &[]),
    );
    volumes[1].release(1000);
    assert!(is_good(&Poll::Ready(block_on(task))));
    assert_eq!(
        initiator.data(&receive(0, 5)),
        [0, 0, 0, 8, 0x01, 0, 2, 0, 0, 0, 0x22, 0]
    );
    assert_eq!(initiator.code(&receive(0, 5), &[]), INVALID_FIELD_IN_CDB);
    let status = initiator.data(&receive_lid4(5));
    assert_eq!(
        status,
        [
            0, 0, 0, 28, 0, 1, 0, 2, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x22, 0,
            0, 2, 0, 0, 0, 0, 0, 0
        ]
    );
    assert_eq!(initiator.data(&receive(4, 5)), [0; 4]);
    let other = Initiator::of(Arc::clone(&initiator.device));
    assert_eq!(other.code(&receive_lid4(5), &[]), INVALID_FIELD_IN_CDB);
    assert_eq!(initiator.code(&receive(0, 0), &[]), INVALID_FIELD_IN_CDB);
}

#[test]
fn details_of_a_failure_are_its_status_and_sense_data() {
    let Pair { initiator, .. } = pair();
    let list = parameter_list(9, 0b10, &names(), &[Segment(0, 1, 1, BLOCKS, 0)]);
    let completion = send(&initiator, &list);
    assert_eq!(initiator.data(&receive(0, 9))[4], 0x02);
    let details = initiator.data(&receive(4, 9));
    assert_eq!(details[..4], [0, 0, 0, 56 + completion.sense.len() as u8]);
    assert_eq!(details[56..60], [2, 0, 0, completion.sense.len() as u8]);
    assert_eq!(details[60..], completion.sense);
    assert_eq!(initiator.code(&receive(4, 9), &[]), INVALID_FIELD_IN_CDB);
    let status = initiator.data(&receive_lid4(9));
    assert_eq!(
        (status[5], status[12], usize::from(status[14])),
        (2, 2, completion.sense.len())
    );
    assert_eq!(status[32..][..completion.sense.len()], completion.sense);
    // Another copy with the identifier drops the result, and so does a reset.
    copy(&initiator, &parameter_list(9, 0, &names(), &[]));
    assert_eq!(initiator.data(&receive(0, 9))[4], 0x01);
    let reset = TaskManagementFunction::LogicalUnitReset(LogicalUnitNumber([0; 8]));
    block_on(manage(&initiator, reset));
    let _ = initiator.run(&TEST_UNIT_READY);
    assert_eq!(initiator.code(&receive_lid4(9), &[]), INVALID_FIELD_IN_CDB);
}

#[test]
fn copies_end_between_steps_when_they_are_aborted() {
    let Pair { volumes, initiator } = pair();
    let list = parameter_list(3, 0, &names(), &[Segment(0, 1, 8192, 0, 0)]);
    let cdb = extended_copy(list.len());
    let other = Initiator::of(Arc::clone(&initiator.device));
    let start = || {
        volumes[1].hold();
        let mut task = initiator.execute(1, TaskAttribute::Simple, &cdb, Sent::boxed(&list));
        begin(&mut task, &volumes[1]);
        volumes[1].events();
        task
    };
    let finish = |task| {
        volumes[1].release(1000);
        let outcome = Poll::Ready(block_on(task));
        // Of 4 MiB in total.
        let written: usize = volumes[1]
            .events()
            .into_iter()
            .map(|event| match event {
                Event::Write { length, .. } => length,
                _ => 0,
            })
            .sum();
        assert!(written < 4 << 20, "{written}");
        volumes[1].unhold();
        outcome
    };
    let unit = LogicalUnitNumber([0; 8]);
    let task = start();
    let abort = TaskManagementFunction::AbortTask {
        logical_unit: unit,
        identifier: 1,
    };
    let answer = manage(&initiator, abort);
    assert!(is_aborted(&finish(task)));
    block_on(answer);
    // Terminated.
    assert_eq!(initiator.data(&receive_lid4(3))[5], 0x60);
    let task = start();
    assert_eq!(
        initiator.code(&copy_operation_abort(4), &[]),
        INVALID_FIELD_IN_CDB
    );
    assert_eq!(
        other.code(&copy_operation_abort(3), &[]),
        INVALID_FIELD_IN_CDB
    );
    assert_eq!(initiator.run(&copy_operation_abort(3)).status, Status::Good);
    let Poll::Ready(Outcome::Completed(completion)) = finish(task) else {
        panic!("no status");
    };
    assert_eq!(codes(&completion), (COPY_ABORTED, 0x2f, 0x02));
    assert_eq!(
        initiator.code(&copy_operation_abort(3), &[]),
        INVALID_FIELD_IN_CDB
    );
    let task = start();
    let reset = manage(&other, TaskManagementFunction::LogicalUnitReset(unit));
    assert!(has_status(&finish(task), Status::TaskAborted));
    block_on(reset);
}

#[test]
fn a_copy_that_hangs_in_another_unit_fences_nothing() {
    let Pair { volumes, initiator } = pair();
    let destination = initiator.to(logical_unit_number(1));
    let unit = LogicalUnitNumber([0; 8]);
    let abort = TaskManagementFunction::AbortTask {
        logical_unit: unit,
        identifier: 1,
    };
    let reset = TaskManagementFunction::LogicalUnitReset(unit);
    for function in [abort, reset] {
        volumes[1].hold();
        let mut hanging = start(&initiator, 1, 64, 0, 0);
        begin(&mut hanging, &volumes[1]);
        let mut managed = manage(&initiator, function);
        assert!(poll(&mut managed).is_pending());
        drop(managed);
        while initiator.run(&TEST_UNIT_READY).status == Status::CheckCondition {}
        assert_eq!(initiator.run(&TEST_UNIT_READY).status, Status::Good);
        initiator.send(&write_10(64, 1), &[1; 512]);
        let begun = volumes[1].begun();
        let data = Sent::boxed(&[2; 512]);
        let mut inside = destination.execute(2, TaskAttribute::Simple, &write_10(63, 1), data);
        assert!(poll(&mut inside).is_pending());
        assert_eq!(volumes[1].begun(), begun, "it waits for the step");
        volumes[1].release(1000);
        assert!(is_aborted(&Poll::Ready(block_on(hanging))));
        assert!(is_good(&Poll::Ready(block_on(inside))));
        volumes[1].unhold();
    }
}

/// Another nexus of the same host.
fn other_nexus(initiator: &Initiator) -> Initiator {
    let nexus = Arc::new(Nexus {
        id: initiator.nexus.id + 1_000_000,
        ..Nexus::clone(&initiator.nexus)
    });
    initiator.device.nexus_established(&nexus);
    let other = Initiator {
        nexus,
        ..initiator.to(initiator.logical_unit)
    };
    while other.run(&TEST_UNIT_READY).status != Status::Good {}
    other
}

/// A copy from unit 0 to unit 1.
fn start(initiator: &Initiator, identifier: u16, blocks: u16, from: u64, to: u64) -> Task {
    let list = anonymous(&names(), &[Segment(0, 1, blocks, from, to)]);
    let cdb = extended_copy(list.len());
    let data_out = Sent::boxed(&list);
    initiator.execute(identifier.into(), TaskAttribute::Simple, &cdb, data_out)
}

#[test]
fn copies_of_a_host_above_the_limit_wait() {
    let Pair { volumes, initiator } = pair();
    let other_nexus = other_nexus(&initiator);
    volumes[1].hold();
    let mut tasks: Vec<_> = (0..12)
        .map(|number: u16| {
            let by = if number % 2 == 0 {
                &initiator
            } else {
                &other_nexus
            };
            let at = u64::from(number) * 64;
            start(by, number, 8, at, at)
        })
        .collect();
    for _ in 0..20 {
        assert!(tasks.iter_mut().all(|task| poll(task).is_pending()));
    }
    assert_eq!(volumes[1].begun(), 8);
    // A waiting copy is aborted at once; another host gets its turn.
    let mut ended = tasks.pop().unwrap();
    let abort = TaskManagementFunction::AbortTask {
        logical_unit: LogicalUnitNumber([0; 8]),
        identifier: 11,
    };
    let answer = manage(&other_nexus, abort);
    assert!(is_aborted(&poll(&mut ended)));
    block_on(answer);
    let other = Initiator::of(Arc::clone(&initiator.device));
    copy(
        &other,
        &anonymous(&names(), &[Segment(0, 0, 8, 4000, 5000)]),
    );
    volumes[1].release(1000);
    for task in tasks {
        assert!(is_good(&Poll::Ready(block_on(task))));
    }
}

#[test]
fn an_aborted_copy_whose_step_hangs_gives_up_its_turn() {
    let Pair { volumes, initiator } = pair();
    volumes[1].hold();
    let mut hanging: Vec<_> = (0..8)
        .map(|number: u16| {
            let at = u64::from(number) * 64;
            start(&initiator, number, 8, at, at)
        })
        .collect();
    for _ in 0..20 {
        assert!(hanging.iter_mut().all(|task| poll(task).is_pending()));
    }
    assert_eq!(volumes[1].begun(), 8);
    let list = anonymous(&names(), &[Segment(0, 0, 8, 4000, 5000)]);
    let cdb = extended_copy(list.len());
    let mut healthy = initiator.execute(100, TaskAttribute::Simple, &cdb, Sent::boxed(&list));
    assert!(poll(&mut healthy).is_pending());
    let abort = TaskManagementFunction::AbortTask {
        logical_unit: LogicalUnitNumber([0; 8]),
        identifier: 0,
    };
    let mut answer = manage(&initiator, abort);
    assert!(hanging.iter_mut().all(|task| poll(task).is_pending()));
    assert!(poll(&mut answer).is_pending());
    let mut ended = (0..100).map(|_| poll(&mut healthy));
    assert!(ended.any(|polled| is_good(&polled)));
    volumes[1].release(1000);
    let mut hanging = hanging.into_iter();
    assert!(is_aborted(&Poll::Ready(block_on(hanging.next().unwrap()))));
    block_on(answer);
    for task in hanging {
        assert!(is_good(&Poll::Ready(block_on(task))));
    }
}

#[test]
fn a_long_copy_gives_others_their_turn_before_it_has_ended() {
    const BETWEEN_PIECES: u64 = (64 << 20) / 512;
    let blocks = 2 * BETWEEN_PIECES;
    let Pair { volumes, initiator } = pair_on([RamVolume::new(blocks), RamVolume::new(blocks)]);
    volumes[1].hold();
    let mut long: Vec<_> = (0..8)
        .map(|number| start(&initiator, number, 16, 0, BETWEEN_PIECES - 8))
        .collect();
    let mut short = start(&initiator, 8, 8, 0, 0);
    for _ in 0..20 {
        assert!(long.iter_mut().all(|task| poll(task).is_pending()));
        assert!(poll(&mut short).is_pending());
    }
    volumes[1].release(1000);
    while poll(&mut short).is_pending() {
        assert!(long.iter_mut().all(|task| poll(task).is_pending()));
    }
    for task in long {
        assert!(is_good(&Poll::Ready(block_on(task))));
    }
}
