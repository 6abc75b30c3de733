// SPDX-License-Identifier: Apache-2.0
//! INQUIRY and vital product data.

use std::sync::Arc;

use super::{
    BLOCKS, INVALID_FIELD_IN_CDB, Initiator, RamVolume, TEST_UNIT_READY, options, product,
};
use crate::address::{REPORT_LUNS_WELL_KNOWN, logical_unit_number};
use crate::sam::Status;
use crate::{Designation, Device, LogicalUnit, LogicalUnitAccess, TargetPort};

fn inquiry(evpd: u8, page: u8, allocation_length: u16) -> [u8; 6] {
    let [high, low] = allocation_length.to_be_bytes();
    [0x12, evpd, page, high, low, 0]
}

fn initiator() -> Initiator {
    Initiator::new(&RamVolume::new(BLOCKS), options())
}

fn page(initiator: &Initiator, code: u8) -> Vec<u8> {
    let data = initiator.data(&inquiry(1, code, 4096));
    assert_eq!(data[1], code);
    assert_eq!(
        usize::from(u16::from_be_bytes([data[2], data[3]])),
        data.len() - 4
    );
    data
}

#[test]
fn standard_data() {
    let data = initiator().data(&inquiry(0, 0, 4096));
    assert_eq!(data[..8], [0, 0, 6, 0x12, 91, 0x18, 0, 2]);
    assert_eq!(&data[8..36], b"ZVAAI   zvol            0.1 ");
    assert_eq!(data[58..64], [0x00, 0xa0, 0x04, 0x60, 0x04, 0xc0]);
    assert_eq!(data.len(), usize::from(data[4]) + 5);
}

#[test]
fn allocation_length_cuts() {
    let initiator = initiator();
    for length in 0..=96 {
        assert_eq!(
            initiator.data(&inquiry(0, 0, length)).len(),
            usize::from(length)
        );
    }
    assert_eq!(initiator.data(&inquiry(0, 0, u16::MAX)).len(), 96);
}

#[test]
fn unknown_pages_are_refused() {
    let initiator = initiator();
    for cdb in [
        inquiry(0, 0x80, 255),
        inquiry(1, 0x90, 255),
        inquiry(1, 0xff, 255),
    ] {
        let seen = initiator.sense(&cdb);
        assert_eq!(
            (seen.key, seen.code, seen.field),
            (5, (0x24, 0), Some([0xc0, 0, 2]))
        );
    }
    // CMDDT.
    assert_eq!(
        initiator.code(&inquiry(2, 0, 255), &[]),
        INVALID_FIELD_IN_CDB
    );
}

#[test]
fn every_listed_page_exists_and_the_list_ascends() {
    let initiator = initiator();
    let list = page(&initiator, 0x00)[4..].to_vec();
    assert_eq!(
        list,
        [0x00, 0x80, 0x83, 0x86, 0x87, 0x88, 0x8f, 0xb0, 0xb1, 0xb2]
    );
    for code in list {
        assert_eq!(page(&initiator, code)[0], 0);
    }
}

#[test]
fn serial_number_and_names_are_of_the_uuid() {
    let initiator = initiator();
    assert_eq!(
        &page(&initiator, 0x80)[4..],
        b"4f1c6d2e903b4a578c01223344556677"
    );
    let unit = initiator.device.logical_unit(0).unwrap();
    let mut designators = Vec::new();
    let data = page(&initiator, 0x83);
    let mut rest = &data[4..];
    while !rest.is_empty() {
        let length = usize::from(rest[3]);
        designators.push((rest[0], rest[1], rest[4..4 + length].to_vec()));
        rest = &rest[4 + length..];
    }
    assert_eq!(
        designators,
        [
            // Content of an E4 identification descriptor of EXTENDED COPY: binary, NAA, 16 bytes.
            (1, 0x03, unit.naa().to_vec()),
            (
                2,
                0x01,
                b"ZVAAI   4f1c6d2e903b4a578c01223344556677".to_vec()
            ),
            (1, 0x14, vec![0, 0, 0, 3]),
            (1, 0x15, vec![0, 0, 0, 1]),
        ]
    );
}

/// If these values changed, every datastore of an installation would be treated as a copy. They are compared byte by byte.
#[test]
fn the_identity_never_changes() {
    let initiator = initiator();
    assert_eq!(
        page(&initiator, 0x80),
        *b"\0\x80\0\x204f1c6d2e903b4a578c01223344556677"
    );
    let names = b"\0\x83\0\x50\
        \x01\x03\0\x10\x60\x25\xa5\x63\x2a\xb1\x37\x08\x70\x7b\x10\x4a\x70\x30\x7e\x07\
        \x02\x01\0\x28ZVAAI   4f1c6d2e903b4a578c01223344556677\
        \x01\x14\0\x04\0\0\0\x03\
        \x01\x15\0\x04\0\0\0\x01";
    assert_eq!(page(&initiator, 0x83), *names);
}

#[test]
fn ports_and_the_target_are_named_once_they_are_known() {
    let initiator = initiator();
    let unnamed = page(&initiator, 0x83);
    assert_eq!(
        page(&initiator, 0x88)[4..],
        [0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0]
    );
    let port = |relative_target_port, name: &str| TargetPort {
        relative_target_port,
        target_port_group: 7,
        name: name.to_owned(),
    };
    let device = &initiator.device;
    device.set_target_ports(vec![port(3, "iqn.x,t,0x3"), port(4, "iqn.x,t,0x0004")]);
    device.set_name("iqn.x");
    // One unit attention for both changes; none without a change.
    assert_eq!(initiator.code(&TEST_UNIT_READY, &[]), (6, 0x3f, 0x03));
    device.set_name("iqn.x");
    assert_eq!(initiator.run(&TEST_UNIT_READY).status, Status::Good);
    let named = page(&initiator, 0x83);
    let group_at = unnamed.len() - 1;
    assert_eq!(named[4..group_at], unnamed[4..group_at]);
    assert_eq!(named[group_at], 7);
    assert_eq!(
        named[unnamed.len()..],
        *b"\x03\x18\0\x0ciqn.x,t,0x3\0\x03\x28\0\x08iqn.x\0\0\0"
    );
    assert_eq!(
        page(&initiator, 0x88)[4..],
        *b"\0\0\0\x03\0\0\0\0\0\0\0\x10\x03\x18\0\x0ciqn.x,t,0x3\0\
            \0\0\0\x04\0\0\0\0\0\0\0\x14\x03\x18\0\x10iqn.x,t,0x0004\0\0"
    );
    // MULTIP.
    assert_eq!(initiator.data(&inquiry(0, 0, 96))[6], 0x10);
    let long = "x".repeat(300);
    device.set_target_ports(vec![port(3, &long)]);
    assert_eq!(initiator.code(&TEST_UNIT_READY, &[]), (6, 0x3f, 0x03));
    assert_eq!(
        page(&initiator, 0x88)[4..],
        [0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0]
    );
    assert_eq!(initiator.data(&inquiry(0, 0, 96))[6], 0);
}

#[test]
fn mode_pages_are_shared() {
    assert_eq!(page(&initiator(), 0x87)[4..], [0x3f, 0xff, 0, 0]);
}

#[test]
fn limits_are_in_blocks() {
    let data = page(&initiator(), 0xb0);
    assert_eq!(data.len(), 64);
    // COMPARE AND WRITE of 255 blocks; granularity 16 KiB; maximum and optimum 4 MiB; no UNMAP; WRITE SAME of 16 MiB.
    assert_eq!(data[4..16], [0, 255, 0, 32, 0, 0, 0x20, 0, 0, 0, 0x20, 0]);
    let write_same = &data[36..44];
    assert_eq!(*write_same, (1_u64 << 15).to_be_bytes());
    assert!(
        data[16..36]
            .iter()
            .chain(&data[44..])
            .all(|&byte| byte == 0)
    );
}

#[test]
fn characteristics_and_provisioning() {
    let initiator = initiator();
    let data = page(&initiator, 0xb1);
    assert_eq!((data.len(), &data[4..8]), (64, &[0, 1, 0, 0][..]));
    assert_eq!(page(&initiator, 0xb2)[4..], [0; 4]);
}

#[test]
fn extended_data_reports_attributes_and_no_cache() {
    let data = page(&initiator(), 0x86);
    assert_eq!((data.len(), data[5], data[6], data[7]), (64, 7, 0, 1));
}

#[test]
fn a_number_without_unit_reports_no_device() {
    let absent = initiator().to(logical_unit_number(7));
    let data = absent.data(&inquiry(0, 0, 96));
    assert_eq!((data[0], data.len()), (0x7f, 96));
    assert_eq!(absent.data(&inquiry(1, 0, 255)), [0x7f, 0, 0, 1, 0]);
    assert_eq!(
        absent.code(&inquiry(1, 0x83, 255), &[]),
        INVALID_FIELD_IN_CDB
    );
}

#[test]
fn where_unit_0_is_missing_nothing_is_connected() {
    let initiator = Initiator::fresh(Arc::new(Device::new(product())));
    assert_eq!(initiator.data(&inquiry(0, 0, 96))[0], 0x3f);
}

#[test]
fn the_well_known_unit_is_one() {
    let well_known = initiator().to(REPORT_LUNS_WELL_KNOWN);
    assert_eq!(well_known.data(&inquiry(0, 0, 96))[0], 0x1e);
    assert_eq!(well_known.data(&inquiry(1, 0, 255)), [0x1e, 0, 0, 1, 0]);
}

#[test]
fn names_of_another_target_are_reported_unchanged() {
    let names = [
        "naa.60014051234567890abcdef012345678",
        "t10.LIO-ORG first:12345678-90ab-cdef-0123-456789abcdef\0",
        "eui.3132333435363738",
    ];
    let designators = names.iter().map(|name| name.parse().unwrap()).collect();
    let serial = "12345678-90ab-cdef-0123-456789abcdef\0";
    let designation = Designation::new(serial, designators).unwrap();
    let unit = LogicalUnit::new(RamVolume::new(BLOCKS), options()).unwrap();
    let device = Arc::new(Device::new(product()));
    let unit = unit.with_designation(designation);
    device
        .insert_logical_unit(0, unit, LogicalUnitAccess::Any)
        .unwrap();
    let initiator = Initiator::of(device);
    let serial_page = [&b"\0\x80\0\x25"[..], serial.as_bytes()].concat();
    assert_eq!(page(&initiator, 0x80), serial_page);
    let expected = b"\0\x83\0\x67\
        \x01\x03\0\x10\x60\x01\x40\x51\x23\x45\x67\x89\x0a\xbc\xde\xf0\x12\x34\x56\x78\
        \x02\x01\0\x33LIO-ORG first:12345678-90ab-cdef-0123-456789abcdef\0\
        \x01\x02\0\x0812345678\
        \x01\x14\0\x04\0\0\0\x03\
        \x01\x15\0\x04\0\0\0\x01";
    assert_eq!(page(&initiator, 0x83), *expected);
}
