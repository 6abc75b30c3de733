// SPDX-License-Identifier: Apache-2.0
//! Segments of type 0Ah: byte ranges at any offset.

use std::sync::Arc;
use std::task::Poll;

use proptest::prelude::*;
use volume::{Geometry, VolumeError};

use super::super::{BLOCKS, RamVolume, Sent, block_on, is_good, pattern, poll, write_10};
use super::{
    COPY_ABORTED, Pair, Segment, anonymous, begin, codes, copy, extended_copy, fill, names, pair,
    pair_on, send,
};
use crate::Family;
use crate::address::logical_unit_number;
use crate::sam::TaskAttribute;

const MAXIMUM_SEGMENT_BYTES: u32 = 16 << 20;

/// Source and destination by index, number of bytes, and both addresses with the byte in the block.
#[derive(Clone, Copy, Debug)]
struct WithOffset(u16, u16, u32, (u64, u16), (u64, u16));

impl WithOffset {
    fn encode(self) -> Vec<u8> {
        let Self(source, destination, bytes, from, to) = self;
        [
            &[0x0a, 0, 0, 0x1c][..],
            &source.to_be_bytes(),
            &destination.to_be_bytes(),
            &bytes.to_be_bytes(),
            &from.0.to_be_bytes(),
            &to.0.to_be_bytes(),
            &from.1.to_be_bytes(),
            &to.1.to_be_bytes(),
        ]
        .concat()
    }
}

/// Without list identifier; these segments after segments of whole blocks.
fn list(whole: &[Segment], segments: &[WithOffset]) -> Vec<u8> {
    let mut list = anonymous(&names(), whole);
    for segment in segments {
        list.extend(segment.encode());
    }
    let length = 28 * whole.len() + 32 * segments.len();
    list[8..12].copy_from_slice(&(length as u32).to_be_bytes());
    list
}

fn with_blocks(block_bytes: u32) -> Arc<RamVolume> {
    RamVolume::with_geometry(Geometry {
        size_bytes: BLOCKS * 512,
        logical_block_bytes: block_bytes,
        physical_block_bytes: 4096,
    })
}

#[test]
fn bytes_are_copied_and_the_rest_of_their_blocks_is_unchanged() {
    let Pair { volumes, initiator } = pair();
    let [data, old] = [pattern(7, 32), pattern(9, 32)];
    fill(&volumes[0], 0, &data);
    fill(&volumes[1], 0, &old);
    let segment = WithOffset(0, 1, 5000, (3, 100), (4, 511));
    copy(&initiator, &list(&[Segment(1, 0, 1, 0, 31)], &[segment]));
    let mut expected = old.clone();
    expected[4 * 512 + 511..][..5000].copy_from_slice(&data[3 * 512 + 100..][..5000]);
    assert_eq!(volumes[1].bytes(0, expected.len()), expected);
    assert_eq!(volumes[0].bytes(31 * 512, 512), old[..512]);
    let statistics = initiator.device.logical_unit(0).unwrap().statistics();
    assert_eq!(statistics[Family::ExtendedCopy].bytes, 5512);
    assert_eq!(statistics.offload.copied_bytes, 5512);
}

#[test]
fn zero_bytes_and_the_longest_segment() {
    let blocks = 2 * u64::from(MAXIMUM_SEGMENT_BYTES) / 512;
    let Pair { volumes, initiator } = pair_on([RamVolume::new(blocks), RamVolume::new(8)]);
    let data = pattern(5, 64);
    fill(&volumes[0], 0, &data);
    let half = blocks / 2;
    let long = |bytes| list(&[], &[WithOffset(0, 0, bytes, (0, 0), (half, 0))]);
    let too_long = send(&initiator, &long(MAXIMUM_SEGMENT_BYTES + 1));
    assert_eq!(codes(&too_long), (COPY_ABORTED, 0x26, 0x00));
    assert_eq!(too_long.sense[15..18], [0xa0, 0, 8]);
    copy(
        &initiator,
        &list(&[], &[WithOffset(0, 1, 0, (0, 0), (8, 0))]),
    );
    volumes[0].events();
    copy(&initiator, &long(MAXIMUM_SEGMENT_BYTES));
    assert_eq!(volumes[0].bytes(16 << 20, data.len()), data);
    assert!(volumes[1].events().is_empty());
}

#[test]
fn bytes_that_do_not_exist_are_refused_where_they_are_named() {
    let Pair { volumes, initiator } = pair();
    for (segment, byte) in [
        (WithOffset(0, 1, 2, (BLOCKS - 1, 511), (0, 0)), 12),
        (WithOffset(0, 1, 1, (BLOCKS, 0), (0, 0)), 12),
        (WithOffset(0, 1, 1, (u64::MAX, 65535), (0, 0)), 12),
        (WithOffset(0, 1, 513, (0, 0), (BLOCKS - 1, 0)), 20),
        (WithOffset(0, 1, 1, (0, 0), (BLOCKS - 1, 512)), 20),
    ] {
        let completion = send(&initiator, &list(&[Segment(0, 1, 1, 0, 0)], &[segment]));
        assert_eq!(codes(&completion), (COPY_ABORTED, 0, 0), "{segment:?}");
        assert_eq!(completion.sense[8..12], [0, 0, 0, 1]);
        assert_eq!(completion.sense[15..18], [0xa0, 0, byte], "{segment:?}");
    }
    assert!(volumes.iter().all(|volume| volume.events().is_empty()));
    // The last byte of each.
    let last = (BLOCKS - 1, 511);
    copy(&initiator, &list(&[], &[WithOffset(0, 1, 1, last, last)]));
}

#[test]
fn a_destination_whose_block_cannot_be_read_is_what_failed() {
    let Pair { volumes, initiator } = pair();
    volumes[1].fail(|| VolumeError::Device(std::io::ErrorKind::Other.into()));
    let completion = send(
        &initiator,
        &list(&[], &[WithOffset(0, 1, 1, (0, 0), (0, 1))]),
    );
    assert_eq!(codes(&completion), (COPY_ABORTED, 0x0d, 0x01));
    assert_eq!(completion.sense[8..12], [0, 18, 0, 0]);
}

#[test]
fn a_write_to_other_bytes_of_the_block_is_not_lost() {
    let Pair { volumes, initiator } = pair_on([RamVolume::new(BLOCKS), with_blocks(4096)]);
    fill(&volumes[0], 0, &pattern(1, 8));
    let list = list(&[], &[WithOffset(0, 1, 10, (0, 0), (0, 4090))]);
    volumes[1].hold();
    let cdb = extended_copy(list.len());
    let mut task = initiator.execute(1, TaskAttribute::Simple, &cdb, Sent::boxed(&list));
    begin(&mut task, &volumes[1]);
    let other = initiator.to(logical_unit_number(1));
    let data = pattern(2, 8);
    let mut writes: Vec<_> = (0..3)
        .map(|address| {
            let cdb = write_10(address, 1);
            other.execute(
                10 + u64::from(address),
                TaskAttribute::Simple,
                &cdb,
                Sent::boxed(&data),
            )
        })
        .collect();
    // The copy has locked both blocks; writes next to them wait only for the volume.
    for _ in 0..10 {
        assert!(poll(&mut task).is_pending());
        assert!(writes.iter_mut().all(|write| poll(write).is_pending()));
    }
    assert_eq!(volumes[1].begun(), 2);
    volumes[1].release(1000);
    assert!(is_good(&Poll::Ready(block_on(task))));
    for write in writes {
        assert!(is_good(&Poll::Ready(block_on(write))));
    }
    assert_eq!(volumes[1].bytes(0, 12288), data.repeat(3));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 200, ..ProptestConfig::default() })]

    /// For all block sizes, between units and inside one.
    #[test]
    fn any_bytes_go_where_they_should(
        blocks in [prop_oneof![Just(512_u32), Just(4096)], prop_oneof![Just(512_u32), Just(4096)]],
        segments in prop::collection::vec(
            (0_u16..2, 0_u16..2, 0_u32..40_000, (0_u64..10, any::<u16>()), (0_u64..10, any::<u16>())),
            1..5,
        ),
    ) {
        const LENGTH: usize = 256 << 10;
        let Pair { volumes, initiator } = pair_on(blocks.map(with_blocks));
        let mut model = [pattern(1, LENGTH / 512), pattern(2, LENGTH / 512)];
        for (volume, data) in volumes.iter().zip(&model) {
            fill(volume, 0, data);
        }
        let first = |end: u16, (address, byte): (u64, u16)| {
            address as usize * blocks[usize::from(end)] as usize + usize::from(byte)
        };
        let segments: Vec<_> = segments
            .into_iter()
            // Those that overlap are refused.
            .filter(|&(source, destination, bytes, from, to)| {
                source != destination || first(source, from).abs_diff(first(source, to)) >= bytes as usize
            })
            .map(|(source, destination, bytes, from, to)| WithOffset(source, destination, bytes, from, to))
            .collect();
        for &WithOffset(source, destination, bytes, from, to) in &segments {
            let data = model[usize::from(source)][first(source, from)..][..bytes as usize].to_vec();
            model[usize::from(destination)][first(destination, to)..][..data.len()].copy_from_slice(&data);
        }
        copy(&initiator, &list(&[], &segments));
        for (volume, data) in volumes.iter().zip(&model) {
            prop_assert!(volume.bytes(0, LENGTH) == *data, "{:?}", segments);
        }
    }
}
