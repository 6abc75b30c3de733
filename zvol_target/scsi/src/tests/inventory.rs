// SPDX-License-Identifier: Apache-2.0
//! Adding and removing logical units, REPORT LUNS, and commands to numbers without unit.

use std::sync::Arc;

use super::{
    BLOCKS, INVALID_FIELD_IN_CDB, Initiator, LUNS_CHANGED, NOT_SUPPORTED, POWER_ON, RamVolume,
    TEST_UNIT_READY, options, product, read_10,
};
use crate::address::{REPORT_LUNS_WELL_KNOWN, logical_unit_number};
use crate::sam::{LogicalUnitNumber, Status};
use crate::{
    Device, Family, InventoryError, LogicalUnit, LogicalUnitAccess, LogicalUnitOptions,
    MAXIMUM_LOGICAL_UNIT_NUMBER, ProductIdentification,
};

fn report_luns(select: u8, allocation_length: u32) -> [u8; 12] {
    let [a, b, c, d] = allocation_length.to_be_bytes();
    [0xa0, 0, select, 0, 0, 0, a, b, c, d, 0, 0]
}

fn unit(uuid: u8) -> LogicalUnit {
    LogicalUnit::new(
        RamVolume::new(BLOCKS),
        LogicalUnitOptions {
            uuid: [uuid; 16],
            ..options()
        },
    )
    .unwrap()
}

fn device(numbers: &[u16]) -> Arc<Device> {
    let device = Arc::new(Device::new(product()));
    for &number in numbers {
        device
            .insert_logical_unit(number, unit(number as u8), LogicalUnitAccess::Any)
            .unwrap();
    }
    device
}

fn list(data: &[u8]) -> Vec<u64> {
    assert_eq!(data[4..8], [0; 4]);
    assert_eq!(
        u32::from_be_bytes(data[..4].try_into().unwrap()) as usize,
        data.len() - 8
    );
    data[8..]
        .chunks(8)
        .map(|number| u64::from_be_bytes(number.try_into().unwrap()))
        .collect()
}

#[test]
fn report_luns_lists_both_forms() {
    let initiator = Initiator::fresh(device(&[0, 255, 256, 16383]));
    let units = [
        0,
        0x00ff_0000_0000_0000,
        0x4100_0000_0000_0000,
        0x7fff_0000_0000_0000,
    ];
    let well_known = 0xc101_0000_0000_0000;
    assert_eq!(list(&initiator.data(&report_luns(0, 4096))), units);
    assert_eq!(list(&initiator.data(&report_luns(1, 4096))), [well_known]);
    assert_eq!(
        list(&initiator.data(&report_luns(2, 4096))),
        [&[well_known], &units[..]].concat()
    );
    let reported = initiator.data(&report_luns(0, 4096));
    for number in reported[8..].chunks(8) {
        let unit = initiator.to(LogicalUnitNumber(number.try_into().unwrap()));
        assert_eq!(unit.code(&TEST_UNIT_READY, &[]), POWER_ON);
        assert_eq!(unit.run(&TEST_UNIT_READY).status, Status::Good);
    }
}

#[test]
fn report_luns_needs_room_for_one_entry() {
    let initiator = Initiator::fresh(device(&[0, 1, 2]));
    assert_eq!(
        initiator.code(&report_luns(0, 15), &[]),
        INVALID_FIELD_IN_CDB
    );
    assert_eq!(
        initiator.code(&report_luns(3, 4096), &[]),
        INVALID_FIELD_IN_CDB
    );
    // The length is always that of the whole list.
    let data = initiator.data(&report_luns(0, 16));
    assert_eq!((data.len(), data[3]), (16, 24));
}

#[test]
fn report_luns_is_answered_without_any_unit() {
    let initiator = Initiator::fresh(device(&[]));
    assert_eq!(list(&initiator.data(&report_luns(0, 4096))), []);
    let well_known = initiator.to(REPORT_LUNS_WELL_KNOWN);
    assert_eq!(list(&well_known.data(&report_luns(0, 4096))), []);
    assert_eq!(
        initiator
            .to(logical_unit_number(1))
            .code(&report_luns(0, 4096), &[]),
        NOT_SUPPORTED
    );
}

#[test]
fn commands_to_a_missing_unit() {
    let initiator = Initiator::fresh(device(&[0]));
    for number in [
        logical_unit_number(1),
        logical_unit_number(300),
        LogicalUnitNumber([0, 0, 0, 1, 0, 0, 0, 0]),
    ] {
        let absent = initiator.to(number);
        assert_eq!(absent.code(&TEST_UNIT_READY, &[]), NOT_SUPPORTED);
        assert_eq!(absent.code(&read_10(0, 1), &[]), NOT_SUPPORTED);
        assert_eq!(absent.code(&[0xff; 16], &[]), NOT_SUPPORTED);
        // REQUEST SENSE reports it in its data (SPC-5).
        let data = absent.data(&[0x03, 0, 0, 0, 18, 0]);
        assert_eq!((data[2], data[12]), (5, 0x25));
        assert_eq!(
            absent.data(&[0x03, 1, 0, 0, 255, 0]),
            [0x72, 5, 0x25, 0, 0, 0, 0, 0]
        );
    }
    let well_known = initiator.to(REPORT_LUNS_WELL_KNOWN);
    assert_eq!(well_known.run(&TEST_UNIT_READY).status, Status::Good);
    assert_eq!(well_known.data(&[0x03, 0, 0, 0, 18, 0])[2], 0);
    assert_eq!(well_known.code(&read_10(0, 1), &[]), (5, 0x20, 0));
}

#[test]
fn numbers_are_checked() {
    let device = device(&[5]);
    assert_eq!(
        device.insert_logical_unit(5, unit(9), LogicalUnitAccess::Any),
        Err(InventoryError::InUse(5))
    );
    let too_large = MAXIMUM_LOGICAL_UNIT_NUMBER + 1;
    assert_eq!(
        device.insert_logical_unit(too_large, unit(9), LogicalUnitAccess::Any),
        Err(InventoryError::NumberTooLarge(too_large))
    );
    assert_eq!(
        device.remove_logical_unit(6).err(),
        Some(InventoryError::Absent(6))
    );
    assert_eq!(
        device.replace_logical_unit(6, unit(9)).err(),
        Some(InventoryError::Absent(6))
    );
    assert_eq!(device.capacity_changed(6), Err(InventoryError::Absent(6)));
    assert_eq!(
        list(&Initiator::fresh(device).data(&report_luns(0, 4096))),
        [5 << 48]
    );
}

#[test]
fn a_new_unit_is_announced_once_for_all_units() {
    let device = device(&[0, 1]);
    let initiator = Initiator::of(Arc::clone(&device));
    let (second, third) = (
        initiator.to(logical_unit_number(1)),
        initiator.to(logical_unit_number(2)),
    );
    assert_eq!(second.code(&TEST_UNIT_READY, &[]), POWER_ON);
    device
        .insert_logical_unit(2, unit(2), LogicalUnitAccess::Any)
        .unwrap();
    assert_eq!(initiator.code(&TEST_UNIT_READY, &[]), LUNS_CHANGED);
    // LUICLR = 1: reported by one, cleared in all.
    assert_eq!(second.run(&TEST_UNIT_READY).status, Status::Good);
    assert_eq!(third.code(&TEST_UNIT_READY, &[]), POWER_ON);
    assert_eq!(third.run(&TEST_UNIT_READY).status, Status::Good);
}

#[test]
fn report_luns_clears_the_announcement() {
    let device = device(&[0, 1]);
    let initiator = Initiator::of(Arc::clone(&device));
    let other = Initiator::of(Arc::clone(&device));
    device.remove_logical_unit(1).unwrap();
    assert_eq!(list(&initiator.data(&report_luns(0, 4096))), [0]);
    assert_eq!(initiator.run(&TEST_UNIT_READY).status, Status::Good);
    assert_eq!(other.code(&TEST_UNIT_READY, &[]), LUNS_CHANGED);
    assert_eq!(
        initiator
            .to(logical_unit_number(1))
            .code(&TEST_UNIT_READY, &[]),
        NOT_SUPPORTED
    );
}

#[test]
fn a_replaced_unit_reports_the_differences() {
    let device = device(&[0]);
    let initiator = Initiator::of(Arc::clone(&device));
    let old = device.replace_logical_unit(0, unit(9)).unwrap();
    assert_eq!(old.options().uuid, [0; 16]);
    let mut codes = Vec::new();
    while initiator
        .run(&[0x03, 0, 0, 0, 18, 0])
        .data_in
        .is_some_and(|sense| {
            codes.push((sense[12], sense[13]));
            sense[2] == 6
        })
    {}
    assert_eq!(
        codes,
        [(0x29, 0), (0x3f, 0x0e), (0x3f, 0x03), (0x2a, 0x09), (0, 0)]
    );
    assert_eq!(
        initiator.data(&[0x12, 1, 0x80, 0, 255, 0])[4..],
        [b'0', b'9'].repeat(16)
    );
}

#[test]
fn the_same_disk_with_other_options_reports_the_differences() {
    /// Changed options, number of blocks, and expected unit attentions.
    type Change = (fn(&mut LogicalUnitOptions), u64, &'static [(u8, u8, u8)]);
    let changes: [Change; 4] = [
        (|_| {}, BLOCKS, &[]),
        (
            |options| options.read_only = true,
            BLOCKS,
            &[(6, 0x2a, 0x01)],
        ),
        (
            |options| options.product = ProductIdentification::new("X", "Y", "Z").unwrap(),
            BLOCKS,
            &[(6, 0x3f, 0x03)],
        ),
        (|_| {}, BLOCKS * 2, &[(6, 0x2a, 0x09)]),
    ];
    for (change, blocks, conditions) in changes {
        let initiator = Initiator::new(&RamVolume::new(BLOCKS), options());
        initiator.data(&read_10(0, 1));
        // Pending when the unit is replaced, and still pending afterwards.
        let late = Initiator::fresh(Arc::clone(&initiator.device));
        let mut options = options();
        change(&mut options);
        let unit = LogicalUnit::new(RamVolume::new(blocks), options).unwrap();
        initiator.device.replace_logical_unit(0, unit).unwrap();
        for condition in conditions {
            assert_eq!(initiator.code(&TEST_UNIT_READY, &[]), *condition);
        }
        assert_eq!(initiator.run(&TEST_UNIT_READY).status, Status::Good);
        assert_eq!(late.code(&TEST_UNIT_READY, &[]), POWER_ON);
        // The counters continue.
        let statistics = initiator.device.logical_unit(0).unwrap().statistics();
        assert_eq!(statistics[Family::Read].operations, 1);
    }
}
