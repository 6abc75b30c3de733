// SPDX-License-Identifier: Apache-2.0
//! Space reports of a thin unit.

use std::sync::Arc;

use super::{
    BLOCKS, CAPACITY_CHANGED, INVALID_FIELD_IN_CDB, Initiator, RamVolume, TEST_UNIT_READY, options,
    seen,
};
use crate::sam::Status;
use crate::{LogicalUnit, Provisioning, SpaceFigures};

const MIB: u64 = 1 << 20;
const INQUIRY_CHANGED: (u8, u8, u8) = (6, 0x3f, 0x03);
const SOFT_THRESHOLD: (u8, u8, u8) = (6, 0x38, 0x07);

fn thin() -> (Initiator, Arc<LogicalUnit>) {
    let initiator = Initiator::new(&RamVolume::thin(BLOCKS), options());
    let unit = initiator.device.logical_unit(0).unwrap();
    (initiator, unit)
}

fn provisioning_page(initiator: &Initiator) -> Vec<u8> {
    initiator.data(&[0x12, 1, 0xb2, 0, 64, 0])
}

fn read_capacity(initiator: &Initiator) -> Vec<u8> {
    let mut cdb = [0; 16];
    cdb[..2].copy_from_slice(&[0x9e, 0x10]);
    cdb[13] = 32;
    initiator.data(&cdb)
}

fn mode_page(initiator: &Initiator, control: u8) -> Vec<u8> {
    let data = initiator.data(&[0x1a, 0x08, (control << 6) | 0x1c, 0x02, 255, 0]);
    data[4..].to_vec()
}

fn log_page(initiator: &Initiator) -> Vec<u8> {
    initiator.data(&[0x4d, 0, 0x4c, 0, 0, 0, 0, 0, 255, 0])
}

fn figures(used: u64, available: u64) -> SpaceFigures {
    SpaceFigures {
        used_bytes: used * MIB,
        available_bytes: available * MIB,
        used_threshold_bytes: Some(6 * MIB),
        available_threshold_bytes: None,
    }
}

#[test]
fn thin_and_thick() {
    let (initiator, unit) = thin();
    // Threshold sets of 2048 blocks; LBPU, LBPWS, LBPWS10, LBPRZ; thin.
    assert_eq!(provisioning_page(&initiator)[4..], [11, 0xe4, 0x02, 0]);
    assert_eq!(read_capacity(&initiator)[14], 0xc0);
    unit.set_provisioning(Provisioning::Thick);
    assert_eq!(initiator.code(&TEST_UNIT_READY, &[]), INQUIRY_CHANGED);
    assert_eq!(initiator.code(&TEST_UNIT_READY, &[]), CAPACITY_CHANGED);
    assert_eq!(provisioning_page(&initiator)[4..], [0; 4]);
    assert_eq!(read_capacity(&initiator)[14], 0);
    // Reported once.
    unit.set_provisioning(Provisioning::Thick);
    assert_eq!(initiator.run(&TEST_UNIT_READY).status, Status::Good);
}

#[test]
fn a_replacement_reports_whether_it_is_thin() {
    let (initiator, _) = thin();
    let replace = |volume: &Arc<RamVolume>, provisioning| {
        let new = LogicalUnit::new(Arc::clone(volume) as _, options()).unwrap();
        new.set_provisioning(provisioning);
        initiator.device.replace_logical_unit(0, new).unwrap();
    };
    let same = RamVolume::thin(BLOCKS);
    replace(&same, Provisioning::Thin);
    assert_eq!(initiator.run(&TEST_UNIT_READY).status, Status::Good);
    replace(&same, Provisioning::Thick);
    assert_eq!(initiator.code(&TEST_UNIT_READY, &[]), INQUIRY_CHANGED);
    assert_eq!(initiator.code(&TEST_UNIT_READY, &[]), CAPACITY_CHANGED);
    assert_eq!(initiator.run(&TEST_UNIT_READY).status, Status::Good);
    replace(&RamVolume::new(BLOCKS), Provisioning::Thin);
    assert_eq!(initiator.run(&TEST_UNIT_READY).status, Status::Good);
}

#[test]
fn figures_are_in_the_log_once_they_are_known() {
    let (initiator, unit) = thin();
    let refused = initiator.code(&[0x4d, 0, 0x4c, 0, 0, 0, 0, 0, 255, 0], &[]);
    assert_eq!(refused, INVALID_FIELD_IN_CDB);
    unit.set_space(figures(3, 5));
    assert_eq!(
        log_page(&initiator),
        [
            0x8c, 0, 0, 24, // Available: shared with other users.
            0, 1, 0x23, 8, 0, 0, 0, 5, 2, 0, 0, 0, // Used: dedicated.
            0, 2, 0x23, 8, 0, 0, 0, 3, 1, 0, 0, 0
        ]
    );
    let list = initiator.data(&[0x4d, 0, 0, 0, 0, 0, 0, 0, 255, 0]);
    assert!(list[4..].contains(&0x0c));
    unit.set_provisioning(Provisioning::Thick);
    while initiator.run(&TEST_UNIT_READY).status != Status::Good {}
    let refused = initiator.code(&[0x4d, 0, 0x4c, 0, 0, 0, 0, 0, 255, 0], &[]);
    assert_eq!(refused, INVALID_FIELD_IN_CDB);
}

#[test]
fn thresholds_are_in_the_mode_page() {
    let (initiator, unit) = thin();
    let header = [0x5c, 0x02, 0, 0x1c];
    let mut page = mode_page(&initiator, 0);
    assert_eq!((page.len(), &page[..4]), (32, &header[..]));
    assert_eq!(page[16..], [0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0]);
    unit.set_space(SpaceFigures {
        available_threshold_bytes: Some(2 * MIB),
        ..figures(0, 100)
    });
    page = mode_page(&initiator, 2);
    assert_eq!(page[16..24], [0x82, 1, 0, 0, 0, 0, 0, 2]);
    assert_eq!(page[24..], [0x81, 2, 0, 0, 0, 0, 0, 6]);
    assert!(mode_page(&initiator, 1)[4..].iter().all(|&byte| byte == 0));
    // LBPERE.
    let recovery = initiator.data(&[0x1a, 0x08, 0x01, 0, 255, 0]);
    assert_eq!(recovery[4..8], [0x01, 0x0a, 0, 0x80]);
    // The returned parameters are accepted.
    let mut list = initiator.data(&[0x5a, 0x08, 0x3f, 0xff, 0, 0, 0, 2, 0, 0]);
    list[..8].fill(0);
    let length = list.len() as u8;
    initiator.send(&[0x55, 0x10, 0, 0, 0, 0, 0, 0, length, 0], &list);
    // A unit that cannot unmap has none of it.
    unit.set_provisioning(Provisioning::Thick);
    while initiator.run(&TEST_UNIT_READY).status != Status::Good {}
    assert_eq!(
        initiator.code(&[0x1a, 0x08, 0x1c, 0x02, 255, 0], &[]),
        INVALID_FIELD_IN_CDB
    );
    assert_eq!(initiator.data(&[0x1a, 0x08, 0x01, 0, 255, 0])[7], 0);
}

#[test]
fn every_nexus_gets_one_unit_attention_for_a_threshold() {
    let (initiator, unit) = thin();
    let other = Initiator::of(Arc::clone(&initiator.device));
    unit.set_space(figures(5, 10));
    assert_eq!(initiator.run(&TEST_UNIT_READY).status, Status::Good);
    for _ in 0..3 {
        unit.set_space(figures(6, 10));
    }
    for host in [&initiator, &other] {
        let sense = seen(&host.run(&TEST_UNIT_READY));
        assert_eq!((sense.key, sense.code), (6, (0x38, 0x07)));
        // The descriptor of used resources in the mode page.
        assert_eq!(sense.information, Some(24));
        assert_eq!(host.run(&TEST_UNIT_READY).status, Status::Good);
    }
    // A replacement does not report it again; the next time is after the value was below.
    let volume = Arc::clone(unit.volume());
    let unit = Arc::new(LogicalUnit::new(volume, options()).unwrap());
    initiator
        .device
        .replace_logical_unit(0, Arc::clone(&unit))
        .unwrap();
    unit.set_space(figures(7, 10));
    assert_eq!(initiator.run(&TEST_UNIT_READY).status, Status::Good);
    unit.set_space(figures(1, 10));
    unit.set_space(figures(6, 10));
    assert_eq!(initiator.code(&TEST_UNIT_READY, &[]), SOFT_THRESHOLD);
}
