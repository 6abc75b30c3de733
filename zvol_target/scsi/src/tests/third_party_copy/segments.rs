// SPDX-License-Identifier: Apache-2.0
//! Data and errors of segments in a parameter list.

use super::super::{BLOCKS, Broken, Event, RamVolume, Sent, options, pattern};
use super::{
    COPY_ABORTED, Pair, Segment, UNITS, anonymous, codes, copy, extended_copy, fill, names, pair,
    pair_on, send,
};
use crate::sam::Status;
use crate::{Family, LogicalUnit, LogicalUnitOptions};
use volume::{Geometry, Volume as _, VolumeError};

#[test]
fn segments_are_copied_in_order_between_units_and_within_one() {
    let Pair { volumes, initiator } = pair();
    let data = pattern(7, 3000);
    fill(&volumes[0], 512 * 10, &data);
    let segments = [
        Segment(0, 1, 3000, 10, 1),
        // Copies what the first segment wrote.
        Segment(1, 1, 100, 1, 5000),
        Segment(1, 0, 1, 5099, 0),
        Segment(0, 1, 0, BLOCKS, 0),
    ];
    copy(&initiator, &anonymous(&names(), &segments));
    assert_eq!(volumes[1].bytes(512, data.len()), data);
    assert_eq!(volumes[1].bytes(512 * 5000, 512 * 100), data[..512 * 100]);
    assert_eq!(volumes[0].bytes(0, 512), data[512 * 99..512 * 100]);
    let statistics = initiator.device.logical_unit(0).unwrap().statistics();
    assert_eq!(statistics[Family::ExtendedCopy].operations, 1);
    assert_eq!(statistics[Family::ExtendedCopy].bytes, 512 * 3101);
    assert_eq!(statistics.offload.copied_bytes, 512 * 3101);
    let hosts = initiator.device.host_statistics();
    let host = &hosts[&initiator.nexus.initiator_device];
    assert_eq!(host.offload.copied_bytes, 512 * 3101);
}

#[test]
fn copied_data_is_stable() {
    let Pair { volumes, initiator } = pair();
    copy(&initiator, &anonymous(&names(), &[Segment(0, 1, 8, 0, 0)]));
    let events = volumes[1].events();
    assert_eq!(events.last(), Some(&Event::Flush), "{events:?}");
}

#[test]
fn nothing_is_no_error() {
    let Pair { volumes, initiator } = pair();
    assert_eq!(initiator.run(&extended_copy(0)).status, Status::Good);
    copy(&initiator, &anonymous(&[], &[]));
    copy(&initiator, &anonymous(&names(), &[]));
    assert!(volumes.iter().all(|volume| volume.events().is_empty()));
}

/// Block where a piece of a copy ends.
const BETWEEN_PIECES: u64 = (64 << 20) / 512;

#[test]
fn a_piece_can_end_inside_a_segment() {
    let blocks = 2 * BETWEEN_PIECES;
    let Pair { volumes, initiator } = pair_on([RamVolume::new(blocks), RamVolume::new(blocks)]);
    let data = pattern(3, 400);
    fill(&volumes[0], 512 * 3, &data);
    let to = BETWEEN_PIECES - 13;
    copy(
        &initiator,
        &anonymous(&names(), &[Segment(0, 1, 400, 3, to)]),
    );
    assert_eq!(volumes[1].bytes(to as usize * 512, data.len()), data);
}

#[test]
fn every_segment_is_checked_before_anything_is_written() {
    let Pair { volumes, initiator } = pair();
    let good = Segment(0, 1, 8, 0, 0);
    for (bad, code, pointer) in [
        (Segment(2, 1, 1, 0, 0), (0x08, 0x04), [0xa0, 0, 4]),
        (Segment(0, 0xffff, 1, 0, 0), (0x08, 0x04), [0xa0, 0, 6]),
        (Segment(0, 1, 2, BLOCKS - 1, 0), (0, 0), [0xa0, 0, 12]),
        (Segment(0, 1, 2, 0, BLOCKS - 1), (0, 0), [0xa0, 0, 20]),
        (Segment(0, 1, 2, 0, u64::MAX), (0, 0), [0xa0, 0, 20]),
        (Segment(0, 0, 8, 8, 1), (0, 0), [0xa0, 0, 20]),
        (Segment(0, 0, 8, 1, 8), (0, 0), [0xa0, 0, 20]),
    ] {
        let completion = send(&initiator, &anonymous(&names(), &[good, bad]));
        assert_eq!(codes(&completion), (COPY_ABORTED, code.0, code.1));
        let sense = &completion.sense;
        // No residual, as nothing was written. Segment 1.
        assert_eq!((sense[0], &sense[8..12]), (0x70, &[0, 0, 0, 1][..]));
        assert_eq!(sense[15..18], pointer);
    }
    assert!(volumes.iter().all(|volume| volume.events().is_empty()));
}

#[test]
fn several_segments_copy_at_most_256_mib_or_64_that_cannot_be_cloned() {
    let geometry = |physical_block_bytes| Geometry {
        size_bytes: u64::from(u16::MAX) * 512,
        physical_block_bytes,
    };
    // Three segments exceed 64 MiB, nine 256 MiB.
    let refused = |change: &dyn Fn(&RamVolume), block, most: u8| {
        let volumes = [16384, block].map(|block| RamVolume::with_geometry(geometry(block)));
        for volume in &volumes {
            volume.seem_to_clone();
        }
        let Pair { volumes, initiator } = pair_on(volumes);
        change(&volumes[1]);
        let whole = Segment(0, 1, u16::MAX, 0, 0);
        let list = anonymous(&names(), &vec![whole; usize::from(most) + 1]);
        let completion = send(&initiator, &list);
        assert_eq!(codes(&completion), (COPY_ABORTED, 0x26, 0x00));
        assert_eq!(completion.sense[8..12], [0, 0, 0, most]);
        assert!(volumes.iter().all(|volume| volume.events().is_empty()));
    };
    refused(&|_| {}, 16384, 8);
    refused(&|volume| drop(volume.set_thick(true)), 16384, 2);
    refused(&|_| {}, 8192, 2);
}

#[test]
fn several_segments_copy_at_most_64_mib_without_clone_support() {
    let volumes = [0, 1].map(|_| RamVolume::new(u64::from(u16::MAX)));
    let Pair { initiator, .. } = pair_on(volumes);
    let whole = Segment(0, 1, u16::MAX, 0, 0);
    let completion = send(&initiator, &anonymous(&names(), &[whole; 3]));
    assert_eq!(codes(&completion), (COPY_ABORTED, 0x26, 0x00));
}

#[test]
fn a_descriptor_that_does_not_fit_the_unit_is_refused() {
    let Pair { initiator, .. } = pair();
    let segment = [Segment(0, 1, 1, 0, 0)];
    // Peripheral device type; block length.
    for (at, value, code) in [(1, 0x01, (0x0d, 0x03)), (30, 0x10, (0x26, 0x00))] {
        let mut list = anonymous(&names(), &segment);
        list[16 + 32 + at] = value;
        let completion = send(&initiator, &list);
        assert_eq!(codes(&completion), (COPY_ABORTED, code.0, code.1));
        let byte = if at == 1 { 49 } else { 77 };
        assert_eq!(completion.sense[15..18], [0x80, 0, byte]);
    }
    // The right block length.
    let mut list = anonymous(&names(), &segment);
    list[16 + 30] = 0x02;
    copy(&initiator, &list);
}

#[test]
fn only_designators_of_logical_units_find_one() {
    let Pair { initiator, .. } = pair();
    let change = |at: usize, value: u8| {
        let mut list = anonymous(&names(), &[Segment(0, 1, 1, 0, 0)]);
        list[16 + at] = value;
        codes(&send(&initiator, &list))
    };
    let unreachable = (COPY_ABORTED, 0x0d, 0x02);
    // Code set, designator type, designator length, designator.
    for (at, value) in [(4, 2), (5, 2), (7, 15), (8, 0x61), (23, 0)] {
        assert_eq!(change(at, value), unreachable, "{at}");
    }
    // LU ID TYPE, NUL and reserved fields are ignored.
    let mut list = anonymous(&names(), &[Segment(0, 1, 1, 0, 0)]);
    list[17] = 0xe0;
    list[16 + 6] = 1;
    copy(&initiator, &list);
}

#[test]
fn a_failed_unit_is_reported_with_its_sense_data_and_the_residual() {
    let Pair { volumes, initiator } = pair();
    let list = anonymous(&names(), &[Segment(0, 1, 8, 0, 0)]);
    for (failing, error, pointer) in [
        (
            0,
            (|| VolumeError::Device(std::io::ErrorKind::Other.into())) as fn() -> VolumeError,
            (3, 0x11, 0),
        ),
        (1, || VolumeError::OutOfSpace, (7, 0x27, 0x07)),
    ] {
        volumes[failing].fail(error);
        let completion = send(&initiator, &list);
        assert_eq!(codes(&completion), (COPY_ABORTED, 0x0d, 0x01));
        let sense = &completion.sense;
        assert_eq!((sense[7], sense.len()), (29, 37));
        let mut offsets = [0, 0, 0, 0];
        offsets[failing] = 18;
        assert_eq!(sense[8..12], offsets);
        // The CSCD descriptor of the failed unit.
        assert_eq!(sense[15..18], [0x80, 0, 16 + 32 * failing as u8]);
        assert_eq!((sense[18], sense[19]), (2, 0x70));
        assert_eq!((sense[21], sense[31], sense[32]), pointer);
        let volumes = &volumes;
        volumes[failing].mend();
    }
    copy(&initiator, &list);
}

#[test]
fn write_protected_and_absent_volumes_are_the_ends_failures() {
    let Pair { volumes, initiator } = pair();
    volumes[1].set_read_only();
    let list = anonymous(&names(), &[Segment(0, 1, 8, 0, 0)]);
    let completion = send(&initiator, &list);
    assert_eq!(codes(&completion), (COPY_ABORTED, 0x0d, 0x01));
    let sense = &completion.sense;
    assert_eq!((sense[9], sense[21], sense[31]), (18, 7, 0x27));
    // A read is allowed.
    copy(&initiator, &anonymous(&names(), &[Segment(1, 0, 8, 0, 0)]));
    let absent = LogicalUnit::not_ready(LogicalUnitOptions {
        uuid: [UNITS[1]; 16],
        ..options()
    });
    initiator.device.replace_logical_unit(1, absent).unwrap();
    let completion = send(&initiator, &list);
    assert_eq!(codes(&completion), (COPY_ABORTED, 0x0d, 0x01));
    let sense = &completion.sense;
    assert_eq!((sense[9], sense[21], sense[31]), (18, 2, 0x04));
}

#[test]
fn an_incomplete_list_copies_nothing() {
    let Pair { volumes, initiator } = pair();
    let list = anonymous(&names(), &[Segment(0, 1, 8, 0, 0)]);
    let cdb = extended_copy(list.len());
    let cut = initiator.run_with(&cdb, Sent::boxed(&list[..list.len() - 1]));
    assert_eq!(codes(&cut), (5, 0x1a, 0));
    let long = initiator.run_with(&extended_copy(1 << 20), Box::new(Broken::Missing));
    assert_eq!(codes(&long), (5, 0x1a, 0));
    assert!(volumes.iter().all(|volume| volume.events().is_empty()));
}
