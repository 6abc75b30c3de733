// SPDX-License-Identifier: Apache-2.0
//! A logical unit whose volume is not open.

use std::sync::Arc;

use super::{
    BLOCKS, Initiator, NO_SENSE, RamVolume, TEST_UNIT_READY, options, pattern, product, read_10,
    write_10,
};
use crate::sam::Status;
use crate::{Device, LogicalUnit, LogicalUnitAccess, LogicalUnitOptions};

const NOT_READY: (u8, u8, u8) = (2, 0x04, 0x01);
/// MODE SELECT data of the Control mode page.
const D_SENSE: [u8; 16] = [
    0, 0, 0, 0, 0x0a, 0x0a, 0x26, 0x10, 0, 0x40, 0, 0, 0, 0, 0, 0,
];
const READ_CAPACITY_10: [u8; 10] = [0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0];

fn request_sense(initiator: &Initiator) -> (u8, u8, u8) {
    let data = initiator.data(&[0x03, 0, 0, 0, 252, 0]);
    (data[2], data[12], data[13])
}

/// A device with a unit that is not ready, and an initiator without pending unit attentions.
fn setup() -> Initiator {
    let device = Arc::new(Device::new(product()));
    let unit = LogicalUnit::not_ready(options());
    device
        .insert_logical_unit(0, unit, LogicalUnitAccess::Any)
        .unwrap();
    let initiator = Initiator::fresh(device);
    assert_eq!(initiator.code(&TEST_UNIT_READY, &[]), (6, 0x29, 0));
    initiator
}

fn identity(initiator: &Initiator) -> Vec<Vec<u8>> {
    [(0, 0), (1, 0), (1, 0x80), (1, 0x83), (1, 0x88)]
        .map(|(evpd, page)| initiator.data(&[0x12, evpd, page, 1, 0, 0]))
        .to_vec()
}

#[test]
fn it_is_the_same_disk_but_not_ready() {
    let initiator = setup();
    let before = identity(&initiator);
    assert_eq!(
        initiator.data(&[0xa0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0])[3],
        8
    );
    for cdb in [
        &TEST_UNIT_READY[..],
        &READ_CAPACITY_10,
        &[0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0],
        &read_10(0, 1),
        &write_10(0, 1),
        &[0x35, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0x1b, 0, 0, 0, 1, 0],
        &[0x1a, 0, 0x3f, 0, 255, 0],
        &[0x15, 0x10, 0, 0, 4, 0],
        &[0x2f, 0, 0, 0, 0, 0, 0, 0, 1, 0],
    ] {
        assert_eq!(
            initiator.code(cdb, &pattern(1, 1)),
            NOT_READY,
            "{:x}",
            cdb[0]
        );
    }
    assert_eq!(request_sense(&initiator), NOT_READY);
    // Errors that do not depend on the unit's state are reported.
    assert_eq!(initiator.code(&[0xff; 16], &[]), (5, 0x20, 0));
    let ready = Initiator::new(&RamVolume::new(BLOCKS), options());
    assert_eq!(before, identity(&ready));
}

#[test]
fn when_the_volume_appears_every_host_gets_a_unit_attention_and_the_disk_is_the_same() {
    let initiator = setup();
    let unaware = Initiator::fresh(Arc::clone(&initiator.device));
    let before = identity(&initiator);
    let unit = LogicalUnit::new(RamVolume::new(BLOCKS), options()).unwrap();
    let old = initiator.device.replace_logical_unit(0, unit).unwrap();
    assert!(!old.is_ready());
    let attentions = [(6, 0x28, 0), (6, 0x3f, 0x03), (6, 0x2a, 0x09)];
    for attention in attentions {
        assert_eq!(initiator.code(&READ_CAPACITY_10, &[]), attention);
    }
    assert_eq!(
        initiator.data(&READ_CAPACITY_10)[..4],
        (BLOCKS as u32 - 1).to_be_bytes()
    );
    assert_eq!(before, identity(&initiator));
    // A nexus with a pending POWER ON of the old unit gets it.
    let mut seen = Vec::new();
    while unaware.run(&TEST_UNIT_READY).status != Status::Good {
        seen.push(request_sense(&unaware));
    }
    assert_eq!(seen, [attentions[0], attentions[2]]);
    assert_eq!(request_sense(&unaware), NO_SENSE);
}

#[test]
fn settings_of_hosts_survive_the_loss_of_the_volume() {
    let initiator = Initiator::new(&RamVolume::new(BLOCKS), options());
    initiator.send(&[0x15, 0x10, 0, 0, 16, 0], &D_SENSE);
    let placeholder = LogicalUnit::not_ready(options());
    initiator
        .device
        .replace_logical_unit(0, placeholder)
        .unwrap();
    assert_eq!(
        initiator.run(&TEST_UNIT_READY).sense,
        [0x72, 2, 0x04, 0x01, 0, 0, 0, 0]
    );
}

#[test]
fn another_disk_in_the_place_is_another_disk() {
    let initiator = setup();
    let other = LogicalUnitOptions {
        uuid: [9; 16],
        ..options()
    };
    let unit = LogicalUnit::new(RamVolume::new(BLOCKS), other).unwrap();
    initiator.device.replace_logical_unit(0, unit).unwrap();
    assert_eq!(initiator.code(&TEST_UNIT_READY, &[]), (6, 0x29, 0));
    assert_eq!(initiator.code(&TEST_UNIT_READY, &[]), (6, 0x3f, 0x0e));
}
