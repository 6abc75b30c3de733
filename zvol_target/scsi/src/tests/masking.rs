// SPDX-License-Identifier: Apache-2.0
//! Access of hosts to logical units.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{
    BLOCKS, Initiator, LUNS_CHANGED, NOT_SUPPORTED, POWER_ON, RamVolume, TEST_UNIT_READY, block_on,
    has_status, is_aborted, manage, options, poll, product, read_10, stuck_write,
};
use crate::address::{REPORT_LUNS_WELL_KNOWN, logical_unit_number};
use crate::sam::{FunctionResponse, LogicalUnitNumber, ScsiTarget, Status, TaskManagementFunction};
use crate::{Device, LogicalUnit, LogicalUnitAccess, LogicalUnitOptions};

const REPORT_LUNS: [u8; 12] = [0xa0, 0, 2, 0, 0, 0, 0, 0, 1, 0, 0, 0];

fn unit(number: u16) -> LogicalUnit {
    let options = LogicalUnitOptions {
        uuid: [number as u8; 16],
        ..options()
    };
    LogicalUnit::new(RamVolume::new(BLOCKS), options).unwrap()
}

/// Units 0 and 1 for all hosts, and an initiator without pending unit attentions.
fn setup() -> Initiator {
    let device = Arc::new(Device::new(product()));
    for number in [0, 1] {
        device
            .insert_logical_unit(number, unit(number), LogicalUnitAccess::Any)
            .unwrap();
    }
    ready(Initiator::of(device))
}

fn ready(initiator: Initiator) -> Initiator {
    let second = initiator.to(logical_unit_number(1));
    while second.run(&TEST_UNIT_READY).status != Status::Good {}
    initiator
}

fn only(hosts: &[&Initiator]) -> LogicalUnitAccess {
    LogicalUnitAccess::Initiators(
        hosts
            .iter()
            .map(|host| host.nexus.initiator_device.clone())
            .collect(),
    )
}

fn nobody() -> LogicalUnitAccess {
    LogicalUnitAccess::Initiators(BTreeSet::new())
}

/// All responses that disclose whether a number has a unit.
fn findings(initiator: &Initiator, number: LogicalUnitNumber) -> Vec<String> {
    let to_unit = initiator.to(number);
    let mut answers: Vec<_> = [
        &TEST_UNIT_READY[..],
        &read_10(0, 1),
        &[0x12, 0, 0, 0, 96, 0],
        &[0x12, 1, 0, 0, 96, 0],
        &[0x12, 1, 0x83, 1, 0, 0],
        &[0x03, 0, 0, 0, 18, 0],
        &[0x03, 1, 0, 0, 18, 0],
        &REPORT_LUNS,
        &[0x5a, 0, 0x3f, 0xff, 0, 0, 0, 1, 0, 0],
        &[0xa3, 0x0c, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0],
        &[0xff; 16],
        &[0x25, 0xff, 0, 0, 0, 0, 0, 0, 0, 0],
    ]
    .into_iter()
    .map(|cdb| format!("{:x?}", to_unit.run(cdb)))
    .collect();
    for function in [
        TaskManagementFunction::AbortTask {
            logical_unit: number,
            identifier: 1,
        },
        TaskManagementFunction::AbortTaskSet(number),
        TaskManagementFunction::ClearTaskSet(number),
        TaskManagementFunction::LogicalUnitReset(number),
        TaskManagementFunction::ClearAca(number),
    ] {
        let mut answer = manage(initiator, function);
        answers.push(format!("{:?}", poll(&mut answer)));
    }
    answers
}

#[test]
fn a_hidden_lun_can_not_be_distinguished_from_an_absent_one() {
    let initiator = setup();
    let other = ready(Initiator::of(Arc::clone(&initiator.device)));
    let device = &initiator.device;
    device.set_access(1, only(&[&other])).unwrap();
    let mut foreign = stuck_write(&other.to(logical_unit_number(1)), 1);
    assert!(poll(&mut foreign).is_pending());
    let hidden = findings(&initiator, logical_unit_number(1));
    assert_eq!(hidden, findings(&initiator, logical_unit_number(2)));
    assert!(poll(&mut foreign).is_pending());
    // Only unit 0 and the well-known one.
    assert_eq!(initiator.data(&REPORT_LUNS)[3], 16);
    let well_known = initiator.to(REPORT_LUNS_WELL_KNOWN);
    assert_eq!(well_known.data(&REPORT_LUNS)[3], 16);
    assert_eq!(other.data(&REPORT_LUNS)[3], 24);
}

#[test]
fn with_unit_zero_hidden_a_host_still_gets_its_inventory() {
    let initiator = setup();
    initiator.device.set_access(0, nobody()).unwrap();
    assert_eq!(initiator.code(&TEST_UNIT_READY, &[]), NOT_SUPPORTED);
    assert_eq!(
        initiator.data(&REPORT_LUNS)[8..],
        [0xc1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]
    );
}

#[test]
fn a_target_reset_does_not_affect_invisible_units() {
    let initiator = setup();
    let other = ready(Initiator::of(Arc::clone(&initiator.device)));
    initiator.device.set_access(1, only(&[&other])).unwrap();
    assert_eq!(initiator.code(&TEST_UNIT_READY, &[]), LUNS_CHANGED);
    let mut shared = stuck_write(&other, 1);
    let mut hidden = stuck_write(&other.to(logical_unit_number(1)), 2);
    assert!(poll(&mut shared).is_pending() && poll(&mut hidden).is_pending());
    let mut reset = manage(&initiator, TaskManagementFunction::TargetReset);
    assert!(poll(&mut reset).is_pending());
    assert!(has_status(&poll(&mut shared), Status::TaskAborted));
    assert_eq!(block_on(reset), FunctionResponse::Complete);
    assert!(poll(&mut hidden).is_pending());
    assert_eq!(other.code(&TEST_UNIT_READY, &[]), (6, 0x29, 0x02));
    let second = other.to(logical_unit_number(1));
    assert_eq!(second.run(&TEST_UNIT_READY).status, Status::Good);
}

#[test]
fn only_hosts_that_gain_or_lose_get_a_unit_attention() {
    let gains = setup();
    let (loses, keeps) = (
        ready(Initiator::of(Arc::clone(&gains.device))),
        ready(Initiator::of(Arc::clone(&gains.device))),
    );
    let device = Arc::clone(&gains.device);
    let access = only(&[&loses, &keeps]);
    device.insert_logical_unit(2, unit(2), access).unwrap();
    let third = logical_unit_number(2);
    assert_eq!(gains.run(&TEST_UNIT_READY).status, Status::Good);
    for host in [&loses, &keeps] {
        assert_eq!(host.code(&TEST_UNIT_READY, &[]), LUNS_CHANGED);
        assert_eq!(host.to(third).code(&TEST_UNIT_READY, &[]), POWER_ON);
    }
    device.set_access(2, only(&[&gains, &keeps])).unwrap();
    assert_eq!(keeps.run(&TEST_UNIT_READY).status, Status::Good);
    assert_eq!(keeps.to(third).run(&TEST_UNIT_READY).status, Status::Good);
    assert_eq!(gains.code(&TEST_UNIT_READY, &[]), LUNS_CHANGED);
    assert_eq!(gains.to(third).code(&TEST_UNIT_READY, &[]), POWER_ON);
    assert_eq!(loses.code(&TEST_UNIT_READY, &[]), LUNS_CHANGED);
    assert_eq!(loses.to(third).code(&TEST_UNIT_READY, &[]), NOT_SUPPORTED);
    // The same access again is not a change: no unit attention.
    device.set_access(2, only(&[&gains, &keeps])).unwrap();
    for host in [&gains, &loses, &keeps] {
        assert_eq!(host.run(&TEST_UNIT_READY).status, Status::Good);
    }
    drop(device.remove_logical_unit(2).unwrap());
    assert_eq!(loses.run(&TEST_UNIT_READY).status, Status::Good);
    assert_eq!(keeps.code(&TEST_UNIT_READY, &[]), LUNS_CHANGED);
}

#[test]
fn tasks_of_a_host_that_loses_access_end_and_others_continue() {
    let loses = setup();
    let keeps = Initiator::of(Arc::clone(&loses.device));
    let (mut lost, mut retained) = (stuck_write(&loses, 1), stuck_write(&keeps, 1));
    assert!(poll(&mut lost).is_pending() && poll(&mut retained).is_pending());
    loses.device.set_access(0, only(&[&keeps])).unwrap();
    assert!(has_status(&poll(&mut lost), Status::TaskAborted));
    assert!(poll(&mut retained).is_pending());
    assert_eq!(loses.code(&read_10(0, 1), &[]), NOT_SUPPORTED);
    loses.device.nexus_lost(&keeps.nexus);
    assert!(is_aborted(&poll(&mut retained)));
}

#[test]
fn tasks_in_a_replaced_unit_end_too_when_their_host_loses_access() {
    let loses = setup();
    let keeps = Initiator::of(Arc::clone(&loses.device));
    let (mut lost, mut retained) = (stuck_write(&loses, 1), stuck_write(&keeps, 1));
    assert!(poll(&mut lost).is_pending() && poll(&mut retained).is_pending());
    drop(loses.device.replace_logical_unit(0, unit(0)).unwrap());
    assert!(poll(&mut lost).is_pending());
    loses.device.set_access(0, only(&[&keeps])).unwrap();
    assert!(has_status(&poll(&mut lost), Status::TaskAborted));
    assert!(poll(&mut retained).is_pending());
}

#[test]
fn a_nexus_that_comes_later_is_judged_by_the_name_of_its_host() {
    let initiator = setup();
    initiator.device.set_access(1, only(&[&initiator])).unwrap();
    initiator.device.nexus_lost(&initiator.nexus);
    let stranger = Initiator::fresh(Arc::clone(&initiator.device));
    assert_eq!(stranger.data(&REPORT_LUNS)[3], 16);
    initiator.device.nexus_established(&initiator.nexus);
    assert_eq!(initiator.data(&REPORT_LUNS)[3], 24);
    let second = initiator.to(logical_unit_number(1));
    assert_eq!(second.code(&TEST_UNIT_READY, &[]), POWER_ON);
    assert_eq!(second.run(&TEST_UNIT_READY).status, Status::Good);
}
