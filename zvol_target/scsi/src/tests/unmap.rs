// SPDX-License-Identifier: Apache-2.0
//! UNMAP and GET LBA STATUS(16).

use std::sync::Arc;

use proptest::prelude::*;
use volume::{Stability, VolumeError};

use super::{
    BLOCKS, Event, INVALID_FIELD_IN_CDB, Initiator, OUT_OF_RANGE, RamVolume, options, pattern,
    setup, write_10,
};
use crate::sam::Status;
use crate::{Family, Provisioning};

fn thin() -> (Arc<RamVolume>, Initiator) {
    let volume = RamVolume::thin(BLOCKS);
    let initiator = Initiator::new(&volume, options());
    (volume, initiator)
}

fn unmap(length: u16) -> [u8; 10] {
    let [high, low] = length.to_be_bytes();
    [0x42, 0, 0, 0, 0, 0, 0, high, low, 0]
}

fn list(descriptors: &[(u64, u32)]) -> Vec<u8> {
    let length = (descriptors.len() * 16) as u16;
    let mut list = vec![0; 8];
    list[..2].copy_from_slice(&(length + 6).to_be_bytes());
    list[2..4].copy_from_slice(&length.to_be_bytes());
    for (address, blocks) in descriptors {
        list.extend_from_slice(&address.to_be_bytes());
        list.extend_from_slice(&blocks.to_be_bytes());
        list.extend_from_slice(&[0; 4]);
    }
    list
}

fn send(initiator: &Initiator, descriptors: &[(u64, u32)]) {
    let list = list(descriptors);
    initiator.send(&unmap(list.len() as u16), &list);
}

fn code(initiator: &Initiator, descriptors: &[(u64, u32)]) -> (u8, u8, u8) {
    let list = list(descriptors);
    initiator.code(&unmap(list.len() as u16), &list)
}

/// Address, blocks and status of each descriptor.
fn status(initiator: &Initiator, address: u64, allocation_length: u32) -> Vec<(u64, u32, u8)> {
    let mut cdb = [0; 16];
    cdb[..2].copy_from_slice(&[0x9e, 0x12]);
    cdb[2..10].copy_from_slice(&address.to_be_bytes());
    cdb[10..14].copy_from_slice(&allocation_length.to_be_bytes());
    let data = initiator.data(&cdb);
    assert_eq!(
        u32::from_be_bytes(data[..4].try_into().unwrap()) as usize + 4,
        data.len()
    );
    data[8..]
        .chunks(16)
        .map(|descriptor| {
            (
                u64::from_be_bytes(descriptor[..8].try_into().unwrap()),
                u32::from_be_bytes(descriptor[8..12].try_into().unwrap()),
                descriptor[12],
            )
        })
        .collect()
}

#[test]
fn whole_granules_are_freed_and_all_blocks_read_as_zeroes() {
    let (volume, initiator) = thin();
    let data = pattern(1, 256);
    initiator.send(&write_10(0, 256), &data);
    volume.events();
    send(&initiator, &[(40, 60), (128, 32), (200, 0)]);
    // Granules of 32 blocks.
    assert_eq!(volume.allocated(), [0, 1, 3, 5, 6, 7]);
    let mut after = data;
    after[40 * 512..100 * 512].fill(0);
    after[128 * 512..160 * 512].fill(0);
    assert_eq!(volume.bytes(0, 256 * 512), after);
    let unmap = |offset, length| Event::Clear {
        offset,
        length,
        stability: Stability::Cached,
    };
    // One flush for all.
    assert_eq!(
        volume.events(),
        [
            unmap(40 * 512, 60 * 512),
            unmap(128 * 512, 32 * 512),
            Event::Flush
        ]
    );
    let unit = initiator.device.logical_unit(0).unwrap().statistics();
    assert_eq!(
        (
            unit[Family::Unmap].operations,
            unit[Family::Unmap].bytes,
            unit.offload.unmapped_bytes
        ),
        (1, 92 * 512, 2 * 16384)
    );
}

#[test]
fn long_ranges_go_in_steps_that_cut_no_granule() {
    let volume = RamVolume::thin(200_000);
    let initiator = Initiator::new(&volume, options());
    send(&initiator, &[(100, 100_000)]);
    let step = 16 << 20;
    let mut at = 100 * 512;
    let mut events = volume.events();
    assert_eq!(events.pop(), Some(Event::Flush));
    for event in events {
        let Event::Clear {
            offset,
            length,
            stability: Stability::Cached,
        } = event
        else {
            panic!("{event:?}");
        };
        assert!(offset == at && length <= step);
        at += length;
        assert!(at % step == 0 || at == 100_100 * 512);
    }
    assert_eq!(at, 100_100 * 512);
}

#[test]
fn empty_lists_do_nothing() {
    let (volume, initiator) = thin();
    initiator.send(&unmap(0), &[]);
    send(&initiator, &[]);
    // A descriptor beyond the length is ignored.
    let mut cut = list(&[(0, 32)]);
    cut[3] = 15;
    initiator.send(&unmap(24), &cut);
    assert_eq!(volume.events(), []);
    cut[3] = 17;
    cut.push(0);
    initiator.send(&unmap(25), &cut);
    assert_eq!(volume.events().len(), 2, "an unmap and its flush");
}

#[test]
fn one_invalid_descriptor_prevents_all() {
    let (volume, initiator) = thin();
    for wrong in [
        [(0, 32), (BLOCKS, 1)],
        [(0, 32), (BLOCKS - 1, 2)],
        [(0, 32), (u64::MAX, 1)],
        [(0, 32), (BLOCKS + 1, 0)],
    ] {
        assert_eq!(code(&initiator, &wrong), OUT_OF_RANGE);
    }
    assert_eq!(volume.events(), []);
}

#[test]
fn limits_are_those_of_the_page() {
    let volume = RamVolume::thin(1 << 22);
    let initiator = Initiator::new(&volume, options());
    let page = initiator.data(&[0x12, 1, 0xb0, 0, 64, 0]);
    assert_eq!(
        page[20..36],
        [0, 0x10, 0, 0, 0, 0, 1, 0, 0, 0, 0, 32, 0x80, 0, 0, 0]
    );
    send(&initiator, &[(0, 1); 256]);
    send(&initiator, &[(0, 1 << 19), (1 << 19, 1 << 19)]);
    volume.events();
    let invalid = (5, 0x26, 0);
    assert_eq!(code(&initiator, &[(0, 1); 257]), invalid);
    assert_eq!(code(&initiator, &[(0, 1); 1000]), invalid);
    let too_many = list(&[(0, 1 << 20), (1 << 20, 1)]);
    let completion = initiator.run_with(&unmap(40), super::Sent::boxed(&too_many));
    assert_eq!(super::seen(&completion).field, Some([0x80, 0, 32]));
    assert_eq!(volume.events(), []);
}

#[test]
fn invalid_requests_are_refused() {
    let (volume, initiator) = thin();
    let range = list(&[(0, 32)]);
    let length_error = (5, 0x1a, 0);
    for length in 1..8 {
        assert_eq!(initiator.code(&unmap(length), &range), length_error);
    }
    // Less data than the list announces: in the CDB, and from the host.
    assert_eq!(initiator.code(&unmap(16), &range), length_error);
    assert_eq!(initiator.code(&unmap(24), &range[..20]), length_error);
    // ANCHOR.
    let mut anchor = unmap(24);
    anchor[1] = 1;
    assert_eq!(initiator.code(&anchor, &range), INVALID_FIELD_IN_CDB);
    volume.fail(|| VolumeError::OutOfSpace);
    assert_eq!(initiator.code(&unmap(24), &range), (7, 0x27, 7));
    volume.set_read_only();
    assert_eq!(initiator.code(&unmap(24), &range), (7, 0x27, 0));
}

#[test]
fn a_thick_unit_has_no_such_command() {
    let (_, of_plain_volume) = setup();
    let (_, thick) = thin();
    thick
        .device
        .logical_unit(0)
        .unwrap()
        .set_provisioning(Provisioning::Thick);
    while thick.run(&super::TEST_UNIT_READY).status != Status::Good {}
    for initiator in [of_plain_volume, thick] {
        assert_eq!(code(&initiator, &[(0, 1)]), (5, 0x20, 0));
        let report = [0xa3, 0x0c, 1, 0x42, 0, 0, 0, 0, 0, 255, 0, 0];
        assert_eq!(initiator.data(&report), [0, 1, 0, 0]);
        let page = initiator.data(&[0x12, 1, 0xb0, 0, 64, 0]);
        assert!(page[20..36].iter().all(|&byte| byte == 0));
        // All blocks are mapped, regardless of the volume.
        assert_eq!(status(&initiator, 5, 1000), [(5, BLOCKS as u32 - 5, 0)]);
    }
}

#[test]
fn status_follows_the_volume() {
    let (_, initiator) = thin();
    assert_eq!(status(&initiator, 0, 1000), [(0, BLOCKS as u32, 1)]);
    initiator.send(&write_10(40, 1), &pattern(1, 1));
    initiator.send(&write_10(100, 60), &pattern(1, 60));
    let all = [
        (0, 32, 1),
        (32, 32, 0),
        (64, 32, 1),
        (96, 64, 0),
        (160, BLOCKS as u32 - 160, 1),
    ];
    assert_eq!(status(&initiator, 0, 1000), all);
    // As many as fit.
    assert_eq!(status(&initiator, 0, 8 + 3 * 16 + 15), all[..3]);
    assert_eq!(status(&initiator, 50, 40), [(50, 14, 0), (64, 32, 1)]);
    send(&initiator, &[(0, 200)]);
    assert_eq!(status(&initiator, 33, 1000), [(33, BLOCKS as u32 - 33, 1)]);
    let mut cdb = [0; 16];
    cdb[..2].copy_from_slice(&[0x9e, 0x12]);
    // Cut to the allocation length.
    cdb[13] = 12;
    assert_eq!(initiator.data(&cdb), [0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0]);
    cdb[2..10].copy_from_slice(&BLOCKS.to_be_bytes());
    assert_eq!(initiator.code(&cdb, &[]), OUT_OF_RANGE);
}

#[test]
fn a_fragmented_volume_is_queried_a_bounded_number_of_times() {
    let blocks = 32 * 4000;
    let volume = RamVolume::thin(blocks);
    let initiator = Initiator::new(&volume, options());
    for granule in (0..4000).step_by(2) {
        initiator.send(&write_10(granule * 32, 1), &pattern(1, 1));
    }
    let answer = status(&initiator, 0, 1 << 20);
    assert_eq!(answer.len(), 512);
    // Each answer continues the one before, and together they report all blocks.
    let mut at = 0;
    while at < blocks {
        for (address, count, status) in status(&initiator, at, 1 << 20) {
            assert_eq!((address, u64::from(status)), (at, at / 32 % 2));
            at += u64::from(count);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Deallocated and unmapped blocks read as zeroes.
    #[test]
    fn only_unmapped_blocks_change(
        descriptors in prop::collection::vec((0_u64..500, 0_u32..200), 0..6),
    ) {
        let (volume, initiator) = thin();
        let mut expected = pattern(0x3c, 700);
        initiator.send(&write_10(0, 700), &expected);
        send(&initiator, &descriptors);
        for (address, blocks) in descriptors {
            let start = address as usize * 512;
            expected[start..start + blocks as usize * 512].fill(0);
        }
        prop_assert_eq!(&volume.bytes(0, 700 * 512), &expected);
        for (address, blocks, status) in status(&initiator, 0, 1 << 16) {
            if status == 1 && address < 700 {
                let end = (address + u64::from(blocks)).min(700) as usize;
                prop_assert!(expected[address as usize * 512..end * 512].iter().all(|&byte| byte == 0));
            }
        }
    }

    #[test]
    fn any_parameter_list_gets_a_status(
        mut list in prop::collection::vec(any::<u8>(), 0..120),
        plausible in any::<bool>(),
        length in 0_u16..130,
    ) {
        let (_, initiator) = thin();
        if plausible {
            // Valid addresses and counts.
            for (at, byte) in list.iter_mut().enumerate() {
                *byte = match at {
                    3 => *byte & 0x7f,
                    _ if at >= 8 && !matches!((at - 8) % 16, 7 | 11) => 0,
                    2 => 0,
                    _ => *byte,
                };
            }
        }
        let completion = initiator.run_with(&unmap(length), super::Sent::boxed(&list));
        prop_assert!(matches!(completion.status, Status::Good | Status::CheckCondition));
    }
}
