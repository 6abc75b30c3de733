// SPDX-License-Identifier: Apache-2.0
//! LOG SENSE.

use volume::VolumeError;

use super::{INVALID_FIELD_IN_CDB, Initiator, Sent, pattern, read_10, setup, write_10};
use crate::sam::Status;

/// LOG SENSE for cumulative values.
fn log_sense(page: u8, subpage: u8, pointer: u8) -> [u8; 10] {
    [0x4d, 0, 0x40 | page, subpage, 0, 0, pointer, 1, 0, 0]
}

/// Parameters of a page by their code.
fn parameters(initiator: &Initiator, page: u8) -> Vec<(u16, Vec<u64>)> {
    let data = initiator.data(&log_sense(page, 0, 0));
    assert_eq!((data[0], data[1]), (0x80 | page, 0));
    let length = u16::from_be_bytes([data[2], data[3]]);
    assert_eq!(usize::from(length), data.len() - 4);
    let mut parameters = Vec::new();
    let mut rest = &data[4..];
    while !rest.is_empty() {
        let end = 4 + usize::from(rest[3]);
        let values = rest[4..end]
            .chunks_exact(8)
            .map(|value| u64::from_be_bytes(value.try_into().unwrap()))
            .collect();
        parameters.push((u16::from_be_bytes([rest[0], rest[1]]), values));
        rest = &rest[end..];
    }
    parameters
}

#[test]
fn every_listed_page_exists() {
    let (_, initiator) = setup();
    let pages = initiator.data(&log_sense(0, 0, 0));
    assert_eq!(pages, [0x00, 0, 0, 5, 0x00, 0x02, 0x03, 0x05, 0x2f]);
    let with_subpages = initiator.data(&log_sense(0, 0xff, 0));
    assert_eq!(with_subpages[..4], [0x40, 0xff, 0, 12]);
    for code in with_subpages[4..].chunks_exact(2) {
        let data = initiator.data(&log_sense(code[0], code[1], 0));
        assert_eq!((data[0] & 0x3f, data[1]), (code[0], code[1]));
    }
    // The kind of values is irrelevant for lists.
    assert_eq!(initiator.data(&[0x4d, 0, 0, 0, 0, 0, 0, 0, 4, 0]).len(), 4);
}

#[test]
fn unknown_values_are_refused_with_their_position() {
    let (_, initiator) = setup();
    for (cdb, field) in [
        (log_sense(0x0d, 0, 0), [0xcd, 0, 2]),
        (log_sense(0x03, 1, 0), [0xc0, 0, 3]),
        (log_sense(0x03, 0, 7), [0xc0, 0, 5]),
        (log_sense(0x00, 0, 1), [0xc0, 0, 5]),
        // Default values.
        ([0x4d, 0, 0xc3, 0, 0, 0, 0, 1, 0, 0], [0xcf, 0, 2]),
        // SP.
        ([0x4d, 1, 0x43, 0, 0, 0, 0, 1, 0, 0], [0xc8, 0, 1]),
    ] {
        assert_eq!(initiator.sense(&cdb).field, Some(field), "{cdb:x?}");
        assert_eq!(initiator.code(&cdb, &[]), INVALID_FIELD_IN_CDB);
    }
}

#[test]
fn counters_are_those_of_the_commands_that_ran() {
    let (volume, initiator) = setup();
    initiator.data(&read_10(0, 8));
    initiator.data(&read_10(8, 8));
    initiator.send(&write_10(0, 4), &pattern(1, 4));
    // From a parameter on.
    let data = initiator.data(&log_sense(0x03, 0, 6));
    assert_eq!((data.len(), data[5]), (16, 6));
    volume.fail(|| VolumeError::Device(std::io::Error::other("gone")));
    assert_eq!(initiator.run(&read_10(0, 1)).status, Status::CheckCondition);
    let written = initiator.run_with(&write_10(0, 1), Sent::boxed(&pattern(1, 1)));
    assert_eq!(written.status, Status::CheckCondition);
    // An address out of range is not an error of the medium.
    initiator.sense(&read_10(u32::MAX, 1));
    let errors = |page| parameters(&initiator, page);
    assert_eq!(errors(0x03), [(5, vec![8192]), (6, vec![1])]);
    assert_eq!(errors(0x02), [(5, vec![2048]), (6, vec![1])]);
    assert_eq!(errors(0x05), [(5, vec![0]), (6, vec![0])]);
}

#[test]
fn there_is_no_informational_exception_and_no_temperature() {
    let (_, initiator) = setup();
    assert_eq!(
        initiator.data(&log_sense(0x2f, 0, 0)),
        [0xaf, 0, 0, 8, 0, 0, 0x23, 4, 0, 0, 0xff, 0]
    );
}
