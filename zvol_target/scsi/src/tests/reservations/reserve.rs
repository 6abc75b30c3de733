// SPDX-License-Identifier: Apache-2.0
//! RESERVE and RELEASE, and the order of unit attentions.

use std::sync::Arc;

use super::super::{
    BLOCKS, Broken, Initiator, POWER_ON, RamVolume, Sent, TEST_UNIT_READY, UNIT, block_on, manage,
    options, poll, read_10,
};
use super::{
    ALL_TYPES, EA, MODE_SENSE, REGISTER, RELEASE_6, RELEASE_10, RESERVE, RESERVE_6, RESERVE_10,
    WE_RO, cdb, three,
};
use crate::address::logical_unit_number;
use crate::sam::{Outcome, ScsiTarget, Status, TaskAttribute, TaskManagementFunction};
use crate::{Family, LogicalUnit, LogicalUnitAccess};

#[test]
fn reserve_keeps_others_out_until_release_reset_or_logout() {
    for (reserve, release) in [(&RESERVE_6[..], &RELEASE_6[..]), (&RESERVE_10, &RELEASE_10)] {
        let (first, second, _) = three();
        let is_free = || {
            let free = second.run(reserve).status == Status::Good;
            if free {
                second.data(release);
            }
            free
        };
        first.data(reserve);
        first.data(reserve);
        assert!(!is_free());
        assert!(first.writes() && !second.writes() && !second.reads());
        for cdb in [&TEST_UNIT_READY[..], &MODE_SENSE] {
            assert_eq!(second.run(cdb).status, Status::ReservationConflict);
        }
        for cdb in [
            &[0x12, 0, 0, 0, 96, 0][..],
            &[0x03, 0, 0, 0, 18, 0],
            &[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        ] {
            assert_eq!(second.run(cdb).status, Status::Good);
        }
        // Persistent reservations are refused, for all nexuses.
        for initiator in [&first, &second] {
            assert_eq!(
                initiator.out(REGISTER, 0, 0, 1),
                Status::ReservationConflict
            );
            let keys = initiator.run(&[0x5e, 0, 0, 0, 0, 0, 0, 0, 8, 0]);
            assert_eq!(keys.status, Status::ReservationConflict);
        }
        second.data(release);
        assert!(!is_free());
        first.data(release);
        assert!(is_free());
        first.data(reserve);
        block_on(manage(
            &second,
            TaskManagementFunction::LogicalUnitReset(UNIT),
        ));
        second.unit_attentions();
        assert!(is_free());
        first.unit_attentions();
        first.data(reserve);
        block_on(manage(&second, TaskManagementFunction::TargetReset));
        second.unit_attentions();
        assert!(is_free());
        first.unit_attentions();
        first.data(reserve);
        first.device.nexus_lost(&first.nexus);
        assert!(is_free());
    }
}

#[test]
fn a_host_that_loses_the_unit_loses_its_reserve() {
    let (first, second, _) = three();
    first.data(&RESERVE_6);
    let only = LogicalUnitAccess::Initiators([second.nexus.initiator_device.clone()].into());
    first.device.set_access(0, only).unwrap();
    assert!(second.writes());
}

#[test]
fn a_lost_nexus_cannot_reserve() {
    let (first, second, _) = three();
    first.device.nexus_lost(&first.nexus);
    let mut late = first.execute(1, TaskAttribute::Simple, &RESERVE_6, Sent::boxed(&[]));
    assert!(super::super::is_aborted(&poll(&mut late)));
    assert!(second.writes());
}

#[test]
fn reserve_and_release_with_registrations() {
    for kind in ALL_TYPES {
        let (holder, registrant, other) = three();
        holder.register(0xa);
        registrant.register(0xb);
        for initiator in [&holder, &registrant, &other] {
            let status = |cdb: &[u8]| initiator.run(cdb).status;
            assert_eq!(status(&RESERVE_6), Status::ReservationConflict);
            assert_eq!(status(&RELEASE_10), Status::ReservationConflict);
        }
        assert_eq!(holder.out(RESERVE, kind, 0xa, 0), Status::Good);
        let status = |initiator: &Initiator| {
            let reserve = initiator.run(&RESERVE_6).status;
            assert_eq!(initiator.run(&RELEASE_6).status, reserve);
            reserve
        };
        assert_eq!(status(&holder), Status::Good);
        let registrants = if kind >= WE_RO {
            Status::Good
        } else {
            Status::ReservationConflict
        };
        assert_eq!(status(&registrant), registrants, "{kind}");
        assert_eq!(status(&other), Status::ReservationConflict);
        assert!(holder.reservation().is_some());
    }
}

#[test]
fn a_reset_comes_before_a_conflict_and_a_conflict_before_the_rest() {
    let (holder, other, _) = three();
    holder.register(0xa);
    assert_eq!(holder.out(RESERVE, EA, 0xa, 0), Status::Good);
    let fresh = Initiator::fresh(Arc::clone(&holder.device));
    assert_eq!(fresh.code(&read_10(0, 1), &[]), POWER_ON);
    assert_eq!(
        fresh.run(&read_10(0, 1)).status,
        Status::ReservationConflict
    );
    holder.device.set_name("another");
    assert_eq!(
        other.run(&read_10(0, 1)).status,
        Status::ReservationConflict
    );
    assert_eq!(other.code(&TEST_UNIT_READY, &[]), (6, 0x3f, 0x03));
}

#[test]
fn a_command_whose_data_never_comes_holds_up_no_other() {
    let (first, second, _) = three();
    let mut stuck = first.execute(
        1,
        TaskAttribute::Simple,
        &cdb(REGISTER, 0, 24),
        Box::new(Broken::Missing),
    );
    assert!(poll(&mut stuck).is_pending());
    second.register(0xb);
    assert_eq!(second.keys(), [0xb]);
}

#[test]
fn units_of_one_device_have_separate_reservations() {
    let (first, second, _) = three();
    let mut options = options();
    options.uuid[0] ^= 1;
    let unit = LogicalUnit::new(RamVolume::new(BLOCKS), options).unwrap();
    first
        .device
        .insert_logical_unit(1, unit, LogicalUnitAccess::Any)
        .unwrap();
    let elsewhere = [&first, &second].map(|host| {
        host.unit_attentions();
        let to_unit = host.to(logical_unit_number(1));
        to_unit.unit_attentions();
        to_unit
    });
    first.register(0xa);
    assert_eq!(first.out(RESERVE, EA, 0xa, 0), Status::Good);
    assert!(!second.writes() && elsewhere[1].writes());
    assert_eq!(elsewhere[0].keys(), []);
}

#[test]
fn outcomes_have_no_data_of_a_command_that_conflicts() {
    let (holder, other, _) = three();
    holder.register(0xa);
    assert_eq!(holder.out(RESERVE, EA, 0xa, 0), Status::Good);
    let mut read = other.execute(1, TaskAttribute::Simple, &read_10(0, 1), Sent::boxed(&[]));
    let std::task::Poll::Ready(Outcome::Completed(completion)) = poll(&mut read) else {
        panic!("not completed");
    };
    assert!(completion.data_in.is_none() && completion.sense.is_empty());
    assert_eq!(
        (completion.data_in_required, completion.data_out_required),
        (0, 0)
    );
    let statistics = other.device.logical_unit(0).unwrap().statistics();
    assert_eq!(statistics[Family::Read].errors, 0);
}
