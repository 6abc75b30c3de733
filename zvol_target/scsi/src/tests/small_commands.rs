// SPDX-License-Identifier: Apache-2.0
//! PRE-FETCH, READ DEFECT DATA, SEND DIAGNOSTIC, START STOP UNIT.

use volume::VolumeError;

use super::{BLOCKS, Event, INVALID_FIELD_IN_CDB, OUT_OF_RANGE, block_10, block_16, setup};
use crate::sam::Status;

const LAST: u32 = BLOCKS as u32 - 1;

#[test]
fn pre_fetch_checks_the_range_and_promises_nothing() {
    let (volume, initiator) = setup();
    for cdb in [
        &block_10(0x34, 0, 0, 0)[..],
        &block_10(0x34, 0x02, LAST, 1),
        &block_10(0x34, 0, LAST + 1, 0),
        &block_16(0x90, 0x02, 0, BLOCKS as u32),
    ] {
        assert_eq!(initiator.run(cdb).status, Status::Good, "{cdb:x?}");
    }
    for cdb in [
        &block_10(0x34, 0, LAST, 2)[..],
        &block_10(0x34, 0, LAST + 2, 0),
        &block_16(0x90, 0, u64::MAX, 1),
    ] {
        assert_eq!(initiator.code(cdb, &[]), OUT_OF_RANGE, "{cdb:x?}");
    }
    assert_eq!(volume.events(), []);
}

#[test]
fn defect_lists_are_empty() {
    let (_, initiator) = setup();
    let ten = |request, length| [0x37, 0, request, 0, 0, 0, 0, 0, length, 0];
    assert_eq!(initiator.data(&ten(0x1d, 255)), [0, 0x1d, 0, 0]);
    assert_eq!(initiator.data(&ten(0, 2)).len(), 2);
    let twelve = |request| [0xb7, request, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0];
    assert_eq!(initiator.data(&twelve(0x08)), [0, 0x08, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn the_self_test_reads_both_ends_and_flushes() {
    let (volume, initiator) = setup();
    let send_diagnostic = |flags, length| [0x1d, flags, 0, 0, length, 0];
    assert_eq!(initiator.data(&send_diagnostic(0x04, 0)), []);
    let last = u64::from(LAST) * 512;
    assert_eq!(
        volume.events(),
        [
            Event::Read {
                offset: 0,
                length: 512
            },
            Event::Read {
                offset: last,
                length: 512
            },
            Event::Flush
        ]
    );
    assert_eq!(initiator.data(&send_diagnostic(0x10, 0)), []);
    assert_eq!(volume.events(), []);
    // A self-test code; a parameter list.
    for cdb in [send_diagnostic(0x20, 0), send_diagnostic(0x10, 1)] {
        assert_eq!(initiator.code(&cdb, &[]), INVALID_FIELD_IN_CDB);
    }
    volume.set_read_only();
    assert_eq!(initiator.data(&send_diagnostic(0x04, 0)), []);
    assert!(!volume.events().contains(&Event::Flush));
    volume.fail(|| VolumeError::Device(std::io::Error::other("gone")));
    assert_eq!(initiator.code(&send_diagnostic(0x04, 0), &[]), (4, 0x44, 0));
    volume.fail(|| VolumeError::Gone(std::io::Error::other("pulled")));
    assert_eq!(initiator.code(&send_diagnostic(0x04, 0), &[]), (2, 0x04, 1));
}
