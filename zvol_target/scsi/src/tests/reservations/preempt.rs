// SPDX-License-Identifier: Apache-2.0
//! PREEMPT, and PREEMPT AND ABORT.

use std::sync::Arc;

use super::super::{
    Initiator, Sent, TEST_UNIT_READY, block_on, has_status, is_good, pattern, poll, setup,
    stuck_write, write_10,
};
use super::{
    EA, EA_AR, INVALID_FIELD_IN_PARAMETER_LIST, PREEMPT, PREEMPT_AND_ABORT,
    REGISTRATIONS_PREEMPTED, RESERVATIONS_RELEASED, RESERVE, WE, WE_RO, cdb, list, three,
};
use crate::sam::{Status, TaskAttribute};

#[test]
fn preempt_takes_the_reservation_and_the_registrations_of_its_holder() {
    let (holder, preempter, third) = three();
    holder.register(0xa);
    preempter.register(0xb);
    third.register(0xa);
    let fourth = Initiator::of(Arc::clone(&holder.device));
    fourth.register(0xd);
    assert_eq!(holder.out(RESERVE, WE, 0xa, 0), Status::Good);
    assert_eq!(
        preempter.out(PREEMPT, WE_RO, 9, 0xa),
        Status::ReservationConflict
    );
    assert_eq!(preempter.out(PREEMPT, WE_RO, 0xb, 0xa), Status::Good);
    assert_eq!(preempter.keys(), [0xb, 0xd]);
    assert_eq!(preempter.reservation(), Some((0xb, WE_RO)));
    assert_eq!(preempter.generation(), 5);
    // A conflict has precedence over this unit attention (SAM-5 5.3.3).
    assert!(!holder.writes());
    assert_eq!(holder.unit_attentions(), [REGISTRATIONS_PREEMPTED]);
    assert_eq!(third.unit_attentions(), [REGISTRATIONS_PREEMPTED]);
    assert_eq!(fourth.unit_attentions(), [RESERVATIONS_RELEASED]);
    assert_eq!(preempter.unit_attentions(), []);
    // Its own reservation, to change the type; no change, so no unit attention.
    assert_eq!(preempter.out(PREEMPT, WE_RO, 0xb, 0xb), Status::Good);
    assert_eq!(fourth.unit_attentions(), []);
    assert_eq!(preempter.out(PREEMPT, EA, 0xb, 0xb), Status::Good);
    assert_eq!(preempter.reservation(), Some((0xb, EA)));
    assert_eq!(fourth.unit_attentions(), [RESERVATIONS_RELEASED]);
    let wrong = cdb(PREEMPT, 2, 24);
    assert_eq!(preempter.code(&wrong, &list(0xb, 0xb, 0)), (5, 0x24, 0));
}

#[test]
fn preempt_of_another_key_only_removes_registrations() {
    let (holder, preempter, third) = three();
    holder.register(0xa);
    preempter.register(0xb);
    third.register(0xc);
    // There is no reservation, so the type is not checked.
    assert_eq!(preempter.out(PREEMPT, 0xff, 0xb, 0xc), Status::Good);
    assert_eq!(third.unit_attentions(), [REGISTRATIONS_PREEMPTED]);
    assert_eq!(
        preempter.out(PREEMPT, 0, 0xb, 0xc),
        Status::ReservationConflict
    );
    third.register(0xc);
    assert_eq!(holder.out(RESERVE, WE, 0xa, 0), Status::Good);
    assert_eq!(preempter.out(PREEMPT, EA, 0xb, 0xc), Status::Good);
    assert_eq!(preempter.reservation(), Some((0xa, WE)));
    assert_eq!(preempter.keys(), [0xa, 0xb]);
    let nobody = cdb(PREEMPT, EA, 24);
    assert_eq!(
        preempter.code(&nobody, &list(0xb, 0, 0)),
        INVALID_FIELD_IN_PARAMETER_LIST
    );
    // Its own registration, without a unit attention.
    assert_eq!(preempter.out(PREEMPT, EA, 0xb, 0xb), Status::Good);
    assert_eq!(holder.keys(), [0xa]);
    assert_eq!(
        (preempter.unit_attentions(), holder.unit_attentions()),
        (vec![], vec![])
    );
}

#[test]
fn preempt_of_all_registrants_takes_key_zero_for_all_others() {
    let (first, second, third) = three();
    first.register(0xa);
    second.register(0xb);
    third.register(0xc);
    assert_eq!(first.out(RESERVE, EA_AR, 0xa, 0), Status::Good);
    // One of several holders only loses its registration.
    assert_eq!(second.out(PREEMPT, WE, 0xb, 0xc), Status::Good);
    assert_eq!(second.reservation(), Some((0, EA_AR)));
    assert_eq!(third.unit_attentions(), [REGISTRATIONS_PREEMPTED]);
    assert_eq!(second.out(PREEMPT, WE, 0xb, 0), Status::Good);
    assert_eq!(second.reservation(), Some((0xb, WE)));
    assert_eq!(second.keys(), [0xb]);
    assert_eq!(first.unit_attentions(), [REGISTRATIONS_PREEMPTED]);
}

#[test]
fn preempt_and_abort_waits_for_aborted_tasks() {
    let (volume, victim) = setup();
    let preempter = Initiator::of(Arc::clone(&victim.device));
    let bystander = Initiator::of(Arc::clone(&victim.device));
    victim.register(0xa);
    preempter.register(0xb);
    let mut waiting = stuck_write(&victim, 1);
    let mut others = stuck_write(&bystander, 1);
    assert!(poll(&mut waiting).is_pending() && poll(&mut others).is_pending());
    volume.hold();
    let mut in_volume = victim.execute(
        2,
        TaskAttribute::Simple,
        &write_10(0, 1),
        Sent::boxed(&pattern(1, 1)),
    );
    assert!(poll(&mut in_volume).is_pending());
    let mut preempt = preempter.execute(
        3,
        TaskAttribute::Simple,
        &cdb(PREEMPT_AND_ABORT, EA, 24),
        Sent::boxed(&list(0xb, 0xa, 0)),
    );
    assert!(poll(&mut preempt).is_pending());
    assert!(has_status(&poll(&mut waiting), Status::TaskAborted));
    assert!(poll(&mut preempt).is_pending());
    assert!(poll(&mut in_volume).is_pending());
    volume.release(1);
    assert!(has_status(&poll(&mut in_volume), Status::TaskAborted));
    assert!(is_good(&poll(&mut preempt)));
    assert!(poll(&mut others).is_pending());
    assert_eq!(victim.unit_attentions(), [REGISTRATIONS_PREEMPTED]);
}

#[test]
fn a_preempt_that_waits_is_aborted_itself_when_its_own_host_is_preempted() {
    let (volume, slow) = setup();
    let first = Initiator::of(Arc::clone(&slow.device));
    let second = Initiator::of(Arc::clone(&slow.device));
    slow.register(0xa);
    first.register(0xb);
    second.register(0xc);
    volume.hold();
    let mut in_volume = super::super::write(&slow, 1);
    assert!(poll(&mut in_volume).is_pending());
    let preempt = |by: &Initiator, key, victim| {
        by.execute(
            2,
            TaskAttribute::Simple,
            &cdb(PREEMPT_AND_ABORT, EA, 24),
            Sent::boxed(&list(key, victim, 0)),
        )
    };
    let mut waits = preempt(&first, 0xb, 0xa);
    assert!(poll(&mut waits).is_pending());
    let mut ends_it = preempt(&second, 0xc, 0xb);
    assert!(poll(&mut ends_it).is_pending());
    assert!(has_status(&poll(&mut waits), Status::TaskAborted));
    // The write of the first victim can still change data.
    assert!(poll(&mut ends_it).is_pending());
    assert_eq!(second.run(&TEST_UNIT_READY).status, Status::Busy);
    volume.release(1);
    assert!(has_status(&poll(&mut in_volume), Status::TaskAborted));
    assert!(is_good(&poll(&mut ends_it)));
    while second.run(&TEST_UNIT_READY).status == Status::CheckCondition {}
    assert_eq!(second.run(&TEST_UNIT_READY).status, Status::Good);
}

#[test]
fn preempt_and_abort_waits_for_copy_steps_of_other_units() {
    let (victim, preempter, _) = three();
    victim.register(0xa);
    preempter.register(0xb);
    let unit = victim.device.logical_unit(0).unwrap();
    let step = block_on(unit.ranges.write(4096..8192));
    let mut preempt = preempter.execute(
        1,
        TaskAttribute::Simple,
        &cdb(PREEMPT_AND_ABORT, EA, 24),
        Sent::boxed(&list(0xb, 0xa, 0)),
    );
    assert!(poll(&mut preempt).is_pending());
    // A step in a suspended pool can hang. It blocks no write outside its range.
    let data = Sent::boxed(&pattern(1, 1));
    let mut write = preempter.execute(2, TaskAttribute::Simple, &write_10(0, 1), data);
    assert!(is_good(&poll(&mut write)));
    assert!(poll(&mut preempt).is_pending());
    drop(step);
    assert!(is_good(&poll(&mut preempt)));
    assert!(preempter.writes());
}
