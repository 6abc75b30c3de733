// SPDX-License-Identifier: Apache-2.0
//! REPORT SUPPORTED OPERATION CODES and REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS.

use super::{BLOCKS, INVALID_FIELD_IN_CDB, Initiator, RamVolume, options};

fn operation_codes(options: u8, code: u8, action: u16, allocation_length: u32) -> [u8; 12] {
    let [e, f, g, h] = allocation_length.to_be_bytes();
    let [high, low] = action.to_be_bytes();
    [0xa3, 0x0c, options, code, high, low, e, f, g, h, 0, 0]
}

fn initiator() -> Initiator {
    Initiator::new(&RamVolume::new(BLOCKS), options())
}

#[test]
fn each_command_listed_is_described_and_known() {
    let initiator = initiator();
    let data = initiator.data(&operation_codes(0, 0, 0, 65535));
    assert_eq!(
        u32::from_be_bytes(data[..4].try_into().unwrap()) as usize,
        data.len() - 4
    );
    assert!(data.len() > 4 + 8 * 20);
    for descriptor in data[4..].chunks(8) {
        let (code, action, length) = (descriptor[0], descriptor[3], descriptor[7]);
        let has_actions = descriptor[5] == 1;
        let (right, wrong) = if has_actions { (2, 1) } else { (1, 2) };
        let response = initiator.data(&operation_codes(right, code, u16::from(action), 255));
        assert_eq!(response[..4], [0, 3, 0, length]);
        assert_eq!(
            (response[4], response.len()),
            (code, usize::from(length) + 4)
        );
        assert!(!has_actions || response[5] & 0x1f == action);
        assert_eq!(
            initiator.data(&operation_codes(3, code, u16::from(action), 255)),
            response
        );
        assert_eq!(
            initiator.code(&operation_codes(wrong, code, u16::from(action), 255), &[]),
            INVALID_FIELD_IN_CDB
        );
        // A CDB with only opcode and action is known to the target.
        let mut cdb = response[4..].to_vec();
        cdb[1..].fill(0);
        cdb[1] = action;
        assert!(
            initiator
                .run(&cdb)
                .sense
                .get(12)
                .is_none_or(|&code| code != 0x20)
        );
    }
}

#[test]
fn timeouts_are_described_on_demand() {
    let initiator = initiator();
    let timeouts = [0, 0x0a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let response = initiator.data(&operation_codes(0x81, 0x28, 0, 255));
    assert_eq!(response[..4], [0, 0x83, 0, 10]);
    assert_eq!(response[14..], timeouts);
    let all = initiator.data(&operation_codes(0x80, 0, 0, 65535));
    assert_eq!((all.len() - 4) % 20, 0);
    assert!(
        all[4..]
            .chunks(20)
            .all(|descriptor| descriptor[5] & 2 != 0 && descriptor[8..] == timeouts)
    );
}

#[test]
fn unsupported_fields() {
    let initiator = initiator();
    assert_eq!(
        initiator.data(&operation_codes(1, 0x43, 0, 255)),
        [0, 1, 0, 0]
    );
    assert_eq!(
        initiator.data(&operation_codes(2, 0x9e, 0x1f, 255)),
        [0, 1, 0, 0]
    );
    assert_eq!(
        initiator.data(&operation_codes(3, 0x28, 1, 255)),
        [0, 1, 0, 0]
    );
    assert_eq!(
        initiator.sense(&operation_codes(4, 0, 0, 255)).field,
        Some([0xca, 0, 2])
    );
    assert_eq!(initiator.data(&operation_codes(0, 0, 0, 6)).len(), 6);
}

#[test]
fn task_management_functions() {
    let initiator = initiator();
    let cdb = |extended, length| [0xa3, 0x0d, extended, 0, 0, 0, 0, 0, 0, length, 0, 0];
    assert_eq!(initiator.data(&cdb(0, 255)), [0xda, 0, 0, 0]);
    assert_eq!(
        initiator.data(&cdb(0x80, 255)),
        [0xda, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    );
    assert_eq!(initiator.code(&cdb(0, 3), &[]), INVALID_FIELD_IN_CDB);
}
