// SPDX-License-Identifier: Apache-2.0
//! Task attributes.

use std::sync::Arc;

use super::{
    Broken, Initiator, Sent, TEST_UNIT_READY, block_10, is_good, poll, read, setup, write_10,
};
use crate::sam::{Buffer, DataOut, DeliveryError, LocalBoxFuture, Status, TaskAttribute};
use crate::task_set::MAXIMUM_TASKS;

#[test]
fn ordered_waits_for_older_and_holds_younger_tasks() {
    let (volume, initiator) = setup();
    volume.hold();
    let mut older = read(&initiator, 1, TaskAttribute::Simple);
    let mut ordered = read(&initiator, 2, TaskAttribute::Ordered);
    let mut younger = read(&initiator, 3, TaskAttribute::Simple);
    let mut first = read(&initiator, 4, TaskAttribute::HeadOfQueue);
    let mut all = [&mut older, &mut ordered, &mut younger, &mut first];
    assert!(all.iter_mut().all(|task| poll(task).is_pending()));
    // Only the older task and the head of queue are in the volume: two permits end exactly those.
    volume.release(2);
    assert!(poll(&mut ordered).is_pending());
    assert!(poll(&mut younger).is_pending());
    assert!(is_good(&poll(&mut first)));
    assert!(poll(&mut ordered).is_pending());
    assert!(is_good(&poll(&mut older)));
    assert!(poll(&mut younger).is_pending());
    volume.release(2);
    assert!(poll(&mut younger).is_pending());
    assert!(is_good(&poll(&mut ordered)));
    assert!(is_good(&poll(&mut younger)));
}

#[test]
fn head_of_queue_holds_those_that_come_after_it() {
    let (volume, initiator) = setup();
    volume.hold();
    let mut first = read(&initiator, 1, TaskAttribute::HeadOfQueue);
    let mut second = read(&initiator, 2, TaskAttribute::HeadOfQueue);
    let mut simple = read(&initiator, 3, TaskAttribute::Simple);
    assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
    volume.release(3);
    assert!(poll(&mut simple).is_pending());
    assert!(is_good(&poll(&mut second)));
    assert!(poll(&mut simple).is_pending());
    assert!(is_good(&poll(&mut first)));
    assert!(is_good(&poll(&mut simple)));
}

#[test]
fn tasks_of_one_host_hold_none_of_another() {
    let (_, initiator) = setup();
    let other = Initiator::of(Arc::clone(&initiator.device));
    let stuck = |attribute| {
        let write = Box::new(Broken::Missing);
        initiator.execute(1, attribute, &write_10(0, 1), write)
    };
    let mut first = stuck(TaskAttribute::HeadOfQueue);
    let mut second = stuck(TaskAttribute::Ordered);
    assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
    assert!(poll(&mut read(&initiator, 3, TaskAttribute::Simple)).is_pending());
    for attribute in [TaskAttribute::Simple, TaskAttribute::Ordered] {
        assert!(is_good(&poll(&mut read(&other, 1, attribute))));
    }
}

#[test]
fn a_small_read_passes_a_long_write_and_a_long_verify() {
    let (volume, initiator) = setup();
    // Four chunks; the data of the first has arrived.
    let mut write = initiator.execute(
        1,
        TaskAttribute::Simple,
        &write_10(0, 8192),
        Box::new(Trickling(1)),
    );
    assert!(poll(&mut write).is_pending());
    assert_eq!(volume.events().len(), 1);
    assert!(is_good(&poll(&mut read(
        &initiator,
        2,
        TaskAttribute::Simple
    ))));
    // A verify runs one chunk per turn, even if the volume never makes it wait.
    let verify = block_10(0x2f, 0, 0, 8192);
    let mut verify = initiator.execute(3, TaskAttribute::Simple, &verify, Sent::boxed(&[]));
    for _ in 0..3 {
        volume.events();
        assert!(poll(&mut verify).is_pending());
        assert_eq!(volume.events().len(), 1);
        assert!(is_good(&poll(&mut read(
            &initiator,
            4,
            TaskAttribute::Simple
        ))));
    }
    assert!(is_good(&poll(&mut verify)));
}

/// Data-Out of which only this number of parts arrives.
struct Trickling(u32);

impl DataOut for Trickling {
    fn receive(&mut self, length: u32) -> LocalBoxFuture<'_, Result<Buffer, DeliveryError>> {
        if self.0 == 0 {
            return Box::pin(std::future::pending());
        }
        self.0 -= 1;
        Box::pin(std::future::ready(Ok(Buffer::new(length as usize))))
    }
}

#[test]
fn ordered_tasks_run_one_after_the_other() {
    let (_, initiator) = setup();
    let mut tasks: Vec<_> = (0..5)
        .map(|identifier| read(&initiator, identifier, TaskAttribute::Ordered))
        .collect();
    for at in 0..5 {
        assert!(
            tasks
                .iter_mut()
                .skip(at + 1)
                .all(|task| poll(task).is_pending())
        );
        assert!(is_good(&poll(&mut tasks[at])));
    }
}

#[test]
fn a_dropped_task_releases_what_waited_for_it() {
    let (_, initiator) = setup();
    let ordered = read(&initiator, 1, TaskAttribute::Ordered);
    let mut waiting = read(&initiator, 2, TaskAttribute::Simple);
    assert!(poll(&mut waiting).is_pending());
    drop(ordered);
    assert!(is_good(&poll(&mut waiting)));
}

#[test]
fn a_full_task_set_says_so() {
    let (_, initiator) = setup();
    let tasks: Vec<_> = (0..MAXIMUM_TASKS as u64)
        .map(|identifier| read(&initiator, identifier, TaskAttribute::Simple))
        .collect();
    let completion = initiator.run(&TEST_UNIT_READY);
    assert_eq!(
        (completion.status, completion.sense.len()),
        (Status::TaskSetFull, 0)
    );
    // Only of this nexus: a host cannot exclude another one.
    let other = Initiator::of(Arc::clone(&initiator.device));
    assert_eq!(other.run(&TEST_UNIT_READY).status, Status::Good);
    drop(tasks);
    assert_eq!(initiator.run(&TEST_UNIT_READY).status, Status::Good);
}
