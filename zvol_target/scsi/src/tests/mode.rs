// SPDX-License-Identifier: Apache-2.0
//! MODE SENSE, MODE SELECT, and the effect of `D_SENSE`.

use std::sync::Arc;

use super::{
    BLOCKS, INVALID_FIELD_IN_CDB, Initiator, RamVolume, Sent, TEST_UNIT_READY, options, read_10,
    seen,
};
use crate::sam::Status;

fn initiator() -> Initiator {
    Initiator::new(&RamVolume::new(BLOCKS), options())
}

fn mode_sense_6(page: u8, subpage: u8) -> [u8; 6] {
    [0x1a, 0x08, page, subpage, 255, 0]
}

fn mode_select_6(length: usize) -> [u8; 6] {
    [0x15, 0x10, 0, 0, length as u8, 0]
}

/// A parameter list for MODE SELECT(6): the Control page with the changeable byte.
fn control(d_sense: u8) -> [u8; 16] {
    [
        0,
        0,
        0,
        0,
        0x0a,
        0x0a,
        0x22 | d_sense,
        0x10,
        0,
        0x40,
        0,
        0,
        0,
        0,
        0,
        0,
    ]
}

fn select(initiator: &Initiator, list: &[u8]) -> (u8, u8, u8) {
    initiator.code(&mode_select_6(list.len()), list)
}

/// Pages of MODE SENSE(6) without header and block descriptor.
fn pages(data: &[u8]) -> Vec<&[u8]> {
    let mut pages = Vec::new();
    let mut rest = &data[4..];
    while !rest.is_empty() {
        let length = if rest[0] & 0x40 == 0 {
            usize::from(rest[1]) + 2
        } else {
            usize::from(u16::from_be_bytes([rest[2], rest[3]])) + 4
        };
        pages.push(&rest[..length]);
        rest = &rest[length..];
    }
    pages
}

#[test]
fn all_pages_and_their_lengths() {
    let initiator = initiator();
    let data = initiator.data(&mode_sense_6(0x3f, 0));
    assert_eq!(data[..4], [data.len() as u8 - 1, 0, 0x10, 0]);
    let without_subpages: Vec<_> = pages(&data).iter().map(|page| (page[0], page[1])).collect();
    assert_eq!(
        without_subpages,
        [
            (0x01, 0x0a),
            (0x02, 0x0e),
            (0x08, 0x12),
            (0x0a, 0x0a),
            (0x1a, 0x26),
            (0x1c, 0x0a)
        ]
    );
    let data = initiator.data(&mode_sense_6(0x3f, 0xff));
    let all = pages(&data);
    assert_eq!(all.len(), without_subpages.len() + 1);
    assert_eq!(all[4][..4], [0x4a, 0x01, 0, 0x1c]);
    for page in &all {
        let (code, subpage) = if page[0] & 0x40 == 0 {
            (page[0], 0)
        } else {
            (page[0] & 0x3f, page[1])
        };
        assert_eq!(initiator.data(&mode_sense_6(code, subpage))[4..], **page);
    }
    assert_eq!(
        initiator.data(&mode_sense_6(0x0a, 0xff))[4..],
        [all[3], all[4]].concat()
    );
    assert_eq!(initiator.data(&mode_sense_6(0x08, 0xff))[4..], *all[2]);
}

#[test]
fn headers_and_block_descriptors() {
    let initiator = initiator();
    let descriptor = [0, 0, 0x40, 0, 0, 0, 2, 0];
    let data = initiator.data(&[0x1a, 0, 0x0a, 0, 255, 0]);
    assert_eq!(data[..4], [23, 0, 0x10, 8]);
    assert_eq!(data[4..12], descriptor);
    let data = initiator.data(&[0x5a, 0, 0x0a, 0, 0, 0, 0, 1, 0, 0]);
    assert_eq!(data[..8], [0, 26, 0, 0x10, 0, 0, 0, 8]);
    assert_eq!(data[8..16], descriptor);
    let data = initiator.data(&[0x5a, 0x18, 0x0a, 0, 0, 0, 0, 1, 0, 0]);
    assert_eq!(data[..8], [0, 18, 0, 0x10, 0, 0, 0, 0]);
    assert_eq!(initiator.data(&[0x1a, 0, 0x3f, 0, 4, 0]).len(), 4);
}

#[test]
fn current_changeable_and_default_values() {
    let initiator = initiator();
    let page = |control: u8, code: u8| {
        initiator.data(&mode_sense_6((control << 6) | code, 0))[6..].to_vec()
    };
    // WCE is zero.
    for control in 0..3 {
        assert_eq!(page(control, 0x08), [0; 18]);
    }
    initiator.send(&mode_select_6(16), &control(0x04));
    assert_eq!(page(0, 0x0a)[..4], [0x26, 0x10, 0, 0x40]);
    assert_eq!(page(1, 0x0a), [0x04, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(page(2, 0x0a)[..4], [0x22, 0x10, 0, 0x40]);
    assert_eq!(page(0, 0x1c)[0], 0x08);
    assert_eq!(page(1, 0x1c), [0; 10]);
    assert_eq!(
        initiator.run(&mode_sense_6(0xca, 0)).sense[1..4],
        [5, 0x39, 0]
    );
}

#[test]
fn unknown_pages() {
    let initiator = initiator();
    assert_eq!(
        initiator.sense(&mode_sense_6(0x03, 0)).field,
        Some([0xcd, 0, 2])
    );
    assert_eq!(
        initiator.sense(&mode_sense_6(0x0a, 2)).field,
        Some([0xc0, 0, 3])
    );
    assert_eq!(
        initiator.sense(&mode_sense_6(0x08, 1)).field,
        Some([0xc0, 0, 3])
    );
    assert_eq!(
        initiator.code(&mode_sense_6(0x3f, 1), &[]),
        INVALID_FIELD_IN_CDB
    );
}

#[test]
fn d_sense_chooses_the_format_for_every_nexus() {
    let initiator = initiator();
    let other = Initiator::of(Arc::clone(&initiator.device));
    initiator.send(&mode_select_6(16), &control(0x04));
    let completion = other.run(&TEST_UNIT_READY);
    assert_eq!(completion.sense, [0x72, 6, 0x2a, 0x01, 0, 0, 0, 0]);
    let completion = initiator.run(&read_10(u32::MAX, 1));
    assert_eq!(completion.sense[..8], [0x72, 5, 0x21, 0, 0, 0, 0, 12]);
    // For REQUEST SENSE, DESC decides.
    assert_eq!(initiator.data(&[0x03, 0, 0, 0, 252, 0])[0], 0x70);
    initiator.send(&mode_select_6(16), &control(0));
    assert_eq!(initiator.run(&read_10(u32::MAX, 1)).sense[0], 0xf0);
}

#[test]
fn mode_sense_data_can_be_sent_back() {
    let initiator = initiator();
    let other = Initiator::of(Arc::clone(&initiator.device));
    let mut list = initiator.data(&[0x1a, 0, 0x3f, 0xff, 255, 0]);
    list[0] = 0;
    initiator.send(&mode_select_6(list.len()), &list);
    for flags in [0, 0x10] {
        let mut list = initiator.data(&[0x5a, flags, 0x3f, 0xff, 0, 0, 0, 1, 0, 0]);
        list[1] = 0;
        initiator.send(&[0x55, 0x10, 0, 0, 0, 0, 0, 0, list.len() as u8, 0], &list);
    }
    // Nothing changed: no unit attention.
    assert_eq!(other.run(&TEST_UNIT_READY).status, Status::Good);
    initiator.send(&mode_select_6(0), &[]);
}

#[test]
fn lists_that_are_cut() {
    let initiator = initiator();
    for length in [1, 3, 5, 15] {
        assert_eq!(
            select(&initiator, &control(0x04)[..length]),
            (5, 0x1a, 0),
            "{length}"
        );
    }
    let descriptor_missing = [0, 0, 0, 8];
    assert_eq!(select(&initiator, &descriptor_missing), (5, 0x1a, 0));
    // Announced by the CDB, but not sent.
    let completion = initiator.run_with(&mode_select_6(16), Sent::boxed(&control(0x04)[..10]));
    assert_eq!(
        (seen(&completion).code, completion.data_out_required),
        ((0x1a, 0), 16)
    );
    assert_eq!(initiator.data(&mode_sense_6(0x0a, 0))[6], 0x22);
}

#[test]
fn lists_with_bad_fields_change_nothing() {
    let initiator = initiator();
    let field = |list: &[u8]| {
        let seen = seen(&initiator.run_with(&mode_select_6(list.len()), Sent::boxed(list)));
        assert_eq!((seen.key, seen.code), (5, (0x26, 0)));
        seen.field
    };
    let good = control(0x04);
    let with = |at: usize, byte: u8| {
        let mut list = good;
        list[at] = byte;
        list
    };
    assert_eq!(field(&with(4, 0x0b)), Some([0x8d, 0, 4]));
    assert_eq!(field(&with(4, 0x4a)), Some([0x8d, 0, 4]));
    assert_eq!(field(&with(5, 0x09)), Some([0x80, 0, 5]));
    // SWP: a host cannot write-protect the disk for others.
    assert_eq!(field(&with(8, 0x08)), Some([0x8b, 0, 8]));
    assert_eq!(field(&with(7, 0x00)), Some([0x8c, 0, 7]));
    assert_eq!(field(&with(9, 0x00)), Some([0x8e, 0, 9]));
    assert_eq!(
        field(&[0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]),
        Some([0x80, 0, 3])
    );
    assert_eq!(
        field(&[0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 2, 0]),
        Some([0x80, 0, 4])
    );
    assert_eq!(
        field(&[0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 4, 0]),
        Some([0x80, 0, 8])
    );
    // Control Extension: another subpage, another length, a bit that is not changeable; then a truncated page.
    let extension = |header: [u8; 4], byte: u8| {
        let mut list = vec![0; 36];
        list[4..8].copy_from_slice(&header);
        list[8] = byte;
        list
    };
    assert_eq!(field(&extension([0x4a, 2, 0, 0x1c], 0)), Some([0x8d, 0, 4]));
    assert_eq!(field(&extension([0x4a, 1, 0, 0x1b], 0)), Some([0x80, 0, 6]));
    assert_eq!(field(&extension([0x4a, 1, 0, 0x1c], 1)), Some([0x88, 0, 8]));
    for length in [6, 7, 35] {
        assert_eq!(
            select(&initiator, &extension([0x4a, 1, 0, 0x1c], 0)[..length]),
            (5, 0x1a, 0)
        );
    }
    // A valid page before an invalid one.
    assert_eq!(
        field(&[&good[..], &[0x1c, 0x0a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]].concat()),
        Some([0x8b, 0, 18])
    );
    assert_eq!(initiator.data(&mode_sense_6(0x0a, 0))[6], 0x22);
}

#[test]
fn nothing_is_saved_and_the_page_format_is_required() {
    let initiator = initiator();
    assert_eq!(
        initiator.sense(&[0x15, 0x11, 0, 0, 16, 0]).field,
        Some([0xc8, 0, 1])
    );
    assert_eq!(
        initiator.sense(&[0x15, 0x00, 0, 0, 16, 0]).field,
        Some([0xcc, 0, 1])
    );
}
