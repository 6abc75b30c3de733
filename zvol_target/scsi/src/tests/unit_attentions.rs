// SPDX-License-Identifier: Apache-2.0
//! Unit attention conditions.

use std::sync::Arc;

use super::{
    BLOCKS, CAPACITY_CHANGED, INVALID_FIELD_IN_CDB, Initiator, NO_SENSE, POWER_ON, RamVolume,
    TEST_UNIT_READY, block_on, options, read_10,
};
use crate::Family;
use crate::address::logical_unit_number;
use crate::sam::{FunctionResponse, ScsiTarget, Status, TaskManagementFunction};

fn request_sense(initiator: &Initiator) -> (u8, u8, u8) {
    let data = initiator.data(&[0x03, 0, 0, 0, 252, 0]);
    (data[2], data[12], data[13])
}

fn manage(initiator: &Initiator, function: TaskManagementFunction) -> FunctionResponse {
    block_on(super::manage(initiator, function))
}

#[test]
fn a_new_nexus_finds_power_on_once() {
    let initiator = Initiator::new(&RamVolume::new(BLOCKS), options());
    let fresh = Initiator::fresh(Arc::clone(&initiator.device));
    // INQUIRY and REPORT LUNS run and do not clear it.
    fresh.data(&[0x12, 0, 0, 0, 96, 0]);
    fresh.data(&[0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 0, 0]);
    assert_eq!(fresh.code(&read_10(0, 1), &[]), POWER_ON);
    assert_eq!(fresh.run(&read_10(0, 1)).status, Status::Good);
    assert_eq!(initiator.run(&TEST_UNIT_READY).status, Status::Good);
}

#[test]
fn request_sense_reports_and_clears() {
    let initiator = Initiator::new(&RamVolume::new(BLOCKS), options());
    let fresh = Initiator::fresh(Arc::clone(&initiator.device));
    assert_eq!(request_sense(&fresh), POWER_ON);
    assert_eq!(request_sense(&fresh), NO_SENSE);
    assert_eq!(fresh.run(&TEST_UNIT_READY).status, Status::Good);
}

#[test]
fn it_has_precedence_over_errors_of_a_command() {
    let initiator = Initiator::new(&RamVolume::new(BLOCKS), options());
    let fresh = Initiator::fresh(Arc::clone(&initiator.device));
    let wrong = [0x00, 0, 1, 0, 0, 0];
    assert_eq!(fresh.code(&wrong, &[]), POWER_ON);
    assert_eq!(fresh.code(&wrong, &[]), INVALID_FIELD_IN_CDB);
}

#[test]
fn a_new_capacity_is_reported_after_a_refresh_and_after_a_read() {
    let volume = RamVolume::new(BLOCKS);
    let initiator = Initiator::new(&volume, options());
    let other = Initiator::of(Arc::clone(&initiator.device));
    volume.resize(BLOCKS * 2);
    initiator.device.capacity_changed(0).unwrap();
    assert_eq!(initiator.code(&TEST_UNIT_READY, &[]), CAPACITY_CHANGED);
    assert_eq!(initiator.run(&TEST_UNIT_READY).status, Status::Good);
    volume.resize(BLOCKS * 3);
    // This read detects it; the next command reports it.
    assert_eq!(other.code(&read_10(0, 1), &[]), CAPACITY_CHANGED);
    assert_eq!(other.run(&read_10(0, 1)).status, Status::Good);
    assert_eq!(other.code(&read_10(0, 1), &[]), CAPACITY_CHANGED);
    assert_eq!(initiator.code(&read_10(0, 1), &[]), CAPACITY_CHANGED);
    // No change in the meantime.
    initiator.device.capacity_changed(0).unwrap();
    assert_eq!(initiator.run(&TEST_UNIT_READY).status, Status::Good);
}

#[test]
fn a_reset_is_reported_to_every_nexus_and_undoes_mode_select() {
    let initiator = Initiator::new(&RamVolume::new(BLOCKS), options());
    let other = Initiator::of(Arc::clone(&initiator.device));
    let dsense = [
        0, 0, 0, 0, 0x0a, 0x0a, 0x26, 0x10, 0, 0x40, 0, 0, 0, 0, 0, 0,
    ];
    initiator.send(&[0x15, 0x10, 0, 0, 16, 0], &dsense);
    assert_eq!(request_sense(&other), (6, 0x2a, 0x01));
    let unit = logical_unit_number(0);
    assert_eq!(
        manage(&initiator, TaskManagementFunction::LogicalUnitReset(unit)),
        FunctionResponse::Complete
    );
    assert_eq!(initiator.code(&TEST_UNIT_READY, &[]), (6, 0x29, 0x03));
    assert_eq!(other.code(&TEST_UNIT_READY, &[]), (6, 0x29, 0x03));
    assert_eq!(initiator.data(&[0x1a, 8, 0x0a, 0, 255, 0])[6], 0x22);
    assert_eq!(
        manage(&other, TaskManagementFunction::TargetReset),
        FunctionResponse::Complete
    );
    assert_eq!(initiator.code(&TEST_UNIT_READY, &[]), (6, 0x29, 0x02));
    assert_eq!(other.code(&TEST_UNIT_READY, &[]), (6, 0x29, 0x02));
}

#[test]
fn a_lost_nexus_loses_its_results() {
    let initiator = Initiator::new(&RamVolume::new(BLOCKS), options());
    let fresh = Initiator::fresh(Arc::clone(&initiator.device));
    fresh.device.nexus_lost(&fresh.nexus);
    assert_eq!(fresh.run(&TEST_UNIT_READY).status, Status::Good);
    fresh.device.nexus_established(&fresh.nexus);
    assert_eq!(fresh.code(&TEST_UNIT_READY, &[]), POWER_ON);
}

#[test]
fn they_are_not_counted() {
    let initiator = Initiator::new(&RamVolume::new(BLOCKS), options());
    let statistics = initiator.device.logical_unit(0).unwrap().statistics();
    assert_eq!(
        (
            statistics[Family::Other].operations,
            statistics[Family::Other].errors
        ),
        (1, 0)
    );
}
