// SPDX-License-Identifier: Apache-2.0
//! WRITE SAME(10) and (16).

use std::sync::Arc;

use proptest::prelude::*;
use volume::{Stability, VolumeError};

use super::{
    BLOCKS, Event, Initiator, OUT_OF_RANGE, RamVolume, Sent, UNIT, block_10, block_16, is_aborted,
    manage, options, pattern, poll, seen, write_10,
};
use crate::sam::{Status, TaskAttribute, TaskManagementFunction};
use crate::{Family, Provisioning};

const UNMAP: u8 = 0x08;
const NDOB: u8 = 0x01;

fn thin() -> (Arc<RamVolume>, Initiator) {
    let volume = RamVolume::thin(BLOCKS);
    let initiator = Initiator::new(&volume, options());
    (volume, initiator)
}

#[test]
fn any_block_is_repeated() {
    let (volume, initiator) = thin();
    let block = pattern(1, 1);
    initiator.send(&block_10(0x41, 0, 7, 9), &block);
    assert_eq!(
        volume.bytes(6 * 512, 11 * 512),
        [&[0; 512], &block.repeat(9)[..], &[0; 512]].concat()
    );
    initiator.send(&block_16(0x93, 0, 100, 5000), &block);
    assert_eq!(volume.bytes(100 * 512, 5000 * 512), block.repeat(5000));
    // In steps, with one flush for the whole command.
    let events = volume.events();
    let longest = events.iter().map(|event| match event {
        Event::Write {
            length,
            stability: Stability::Cached,
            ..
        } => *length,
        Event::Flush => 0,
        event => panic!("{event:?}"),
    });
    assert_eq!(longest.max(), Some(1 << 20));
    assert_eq!(events.last(), Some(&Event::Flush));
    let flushes = events.iter().filter(|event| **event == Event::Flush);
    assert_eq!(flushes.count(), 2);
    // A pattern other than zero is written, even if unmapping is permitted.
    initiator.send(&block_16(0x93, UNMAP, 0, 2), &block);
    assert_eq!(volume.bytes(0, 1024), block.repeat(2));
    let unit = initiator.device.logical_unit(0).unwrap().statistics();
    assert_eq!(
        (
            unit[Family::WriteSame].operations,
            unit[Family::WriteSame].bytes
        ),
        (3, (9 + 5000 + 2) * 512)
    );
    assert_eq!(
        (unit.offload.zeroed_bytes, unit.offload.unmapped_bytes),
        (0, 0)
    );
}

#[test]
fn zeroes_are_left_to_the_volume() {
    let (volume, initiator) = thin();
    initiator.send(&write_10(0, 256), &pattern(1, 256));
    volume.events();
    let zeroes = [0; 512];
    let stability = Stability::Cached;
    for (cdb, data) in [
        (block_10(0x41, 0, 1, 3).to_vec(), &zeroes[..]),
        (block_16(0x93, 0, 1, 3).to_vec(), &zeroes[..]),
        (block_16(0x93, NDOB, 1, 3).to_vec(), &[]),
    ] {
        initiator.send(&cdb, data);
        let (offset, length) = (512, 3 * 512);
        assert_eq!(
            volume.events(),
            [
                Event::Clear {
                    offset,
                    length,
                    stability
                },
                Event::Flush
            ]
        );
    }
    assert_eq!(volume.bytes(512, 3 * 512), [0; 3 * 512]);
    for (cdb, data) in [
        (block_10(0x41, UNMAP, 4, 100).to_vec(), &zeroes[..]),
        (block_16(0x93, UNMAP, 4, 100).to_vec(), &zeroes[..]),
        (block_16(0x93, UNMAP | NDOB, 4, 100).to_vec(), &[]),
    ] {
        initiator.send(&cdb, data);
        let (offset, length) = (4 * 512, 100 * 512);
        assert_eq!(
            volume.events(),
            [
                Event::Clear {
                    offset,
                    length,
                    stability
                },
                Event::Flush
            ]
        );
    }
    // Granules of 32 blocks; the whole ones in blocks 4 to 103 are 1 and 2.
    assert_eq!(volume.allocated(), [0, 3, 4, 5, 6, 7]);
    let offload = initiator
        .device
        .logical_unit(0)
        .unwrap()
        .statistics()
        .offload;
    assert_eq!(
        (offload.zeroed_bytes, offload.unmapped_bytes),
        (9 * 512, 3 * 2 * 16384)
    );
}

#[test]
fn no_number_of_blocks_means_all_to_the_last() {
    let (volume, initiator) = thin();
    let block = pattern(1, 1);
    initiator.send(&block_10(0x41, 0, BLOCKS as u32 - 3, 0), &block);
    assert_eq!(
        volume.bytes((BLOCKS as usize - 4) * 512, 5 * 512),
        [&[0; 512], &block.repeat(3)[..], &[0; 512]].concat()
    );
    for address in [BLOCKS, BLOCKS + 1, u64::MAX] {
        assert_eq!(
            initiator.code(&block_16(0x93, 0, address, 0), &block),
            OUT_OF_RANGE
        );
    }
}

#[test]
fn the_limit_is_that_of_the_page() {
    let volume = RamVolume::thin(1 << 20);
    let initiator = Initiator::new(&volume, options());
    let page = initiator.data(&[0x12, 1, 0xb0, 0, 64, 0]);
    let most = u64::from_be_bytes(page[36..44].try_into().unwrap()) as u32;
    assert_eq!((most, page[4] & 1), (32768, 0));
    initiator.send(&block_16(0x93, NDOB, 1, most), &[]);
    for blocks in [most + 1, 0] {
        let seen = initiator.sense(&block_16(0x93, NDOB, 0, blocks));
        assert_eq!((seen.code, seen.field), ((0x24, 0), Some([0xc0, 0, 10])));
    }
}

#[test]
fn invalid_requests_are_refused() {
    let (volume, initiator) = thin();
    let block = pattern(1, 1);
    // ANCHOR, PBDATA, LBDATA.
    for flags in [0x10, 0x18, 0x04, 0x02] {
        let completion = initiator.run_with(&block_10(0x41, flags, 0, 1), Sent::boxed(&block));
        assert_eq!(seen(&completion).code, (0x24, 0));
    }
    // The short command has no NDOB.
    assert_eq!(
        initiator.sense(&block_10(0x41, NDOB, 0, 1)).field,
        Some([0xc8, 0, 1])
    );
    assert_eq!(
        initiator.code(&block_10(0x41, 0, BLOCKS as u32 - 1, 2), &block),
        OUT_OF_RANGE
    );
    let two = pattern(1, 2);
    for length in [0, 100, 513, 1024] {
        assert_eq!(
            initiator.code(&block_10(0x41, 0, 0, 1), &two[..length]),
            (5, 0x0e, 3)
        );
    }
    volume.set_read_only();
    assert_eq!(
        initiator.code(&block_10(0x41, 0, 0, 1), &block),
        (7, 0x27, 0)
    );
    assert_eq!(volume.events(), []);
}

#[test]
fn a_thick_unit_writes_zeroes_and_unmaps_nothing() {
    let (volume, initiator) = thin();
    let unit = initiator.device.logical_unit(0).unwrap();
    unit.set_provisioning(Provisioning::Thick);
    while initiator.run(&super::TEST_UNIT_READY).status != Status::Good {}
    let seen = initiator.sense(&block_16(0x93, UNMAP | NDOB, 0, 1));
    assert_eq!((seen.code, seen.field), ((0x24, 0), Some([0xcb, 0, 1])));
    initiator.send(&block_16(0x93, NDOB, 0, 1), &[]);
    assert!(matches!(
        volume.events()[..],
        [Event::Clear { .. }, Event::Flush]
    ));
}

#[test]
fn a_full_volume_says_so() {
    let (volume, initiator) = thin();
    volume.fail(|| VolumeError::OutOfSpace);
    assert_eq!(
        initiator.code(&block_10(0x41, 0, 0, 1), &pattern(1, 1)),
        (7, 0x27, 7)
    );
    assert_eq!(
        initiator.code(&block_10(0x41, 0, 0, 1), &[0; 512]),
        (7, 0x27, 7)
    );
}

#[test]
fn between_its_steps_it_can_be_aborted() {
    let volume = RamVolume::thin(200_000);
    let initiator = Initiator::new(&volume, options());
    for (cdb, data) in [
        (block_16(0x93, 0, 100, 32768), pattern(1, 1)),
        (block_16(0x93, NDOB, 100, 32768), Vec::new()),
    ] {
        volume.hold();
        let mut task = initiator.execute(1, TaskAttribute::Simple, &cdb, Sent::boxed(&data));
        assert!(poll(&mut task).is_pending());
        let mut function = manage(&initiator, TaskManagementFunction::AbortTaskSet(UNIT));
        assert!(poll(&mut task).is_pending());
        volume.release(1);
        // The running step ends, and no further one begins.
        assert!(poll(&mut task).is_pending());
        assert!(is_aborted(&poll(&mut task)));
        assert!(poll(&mut function).is_ready());
        assert_eq!(volume.events().len(), 1);
        volume.release(1 << 20);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn only_the_block_is_written(
        address in 0_u32..300,
        blocks in 1_u16..2500,
        seed in any::<u8>(),
        zero in any::<bool>(),
        unmap in any::<bool>(),
    ) {
        let (volume, initiator) = thin();
        let before = pattern(0x77, 2800);
        initiator.send(&write_10(0, 2800), &before);
        let block = if zero { vec![0; 512] } else { pattern(seed, 1) };
        let flags = if unmap { UNMAP } else { 0 };
        initiator.send(&block_10(0x41, flags, address, blocks), &block);
        let mut after = before;
        let start = address as usize * 512;
        for place in after[start..start + usize::from(blocks) * 512].chunks_mut(512) {
            place.copy_from_slice(&block);
        }
        prop_assert_eq!(volume.bytes(0, 2800 * 512), after);
    }
}
