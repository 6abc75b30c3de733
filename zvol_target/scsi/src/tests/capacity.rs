// SPDX-License-Identifier: Apache-2.0
//! READ CAPACITY.

use volume::Geometry;

use super::{BLOCKS, INVALID_FIELD_IN_CDB, Initiator, RamVolume, options};
use crate::{LogicalUnit, LogicalUnitError};

const READ_CAPACITY_10: [u8; 10] = [0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0];

fn read_capacity_16(allocation_length: u8) -> [u8; 16] {
    [
        0x9e,
        0x10,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        allocation_length,
        0,
        0,
    ]
}

#[test]
fn last_block_and_block_length() {
    let initiator = Initiator::new(&RamVolume::new(BLOCKS), options());
    assert_eq!(
        initiator.data(&READ_CAPACITY_10),
        [0, 0, 0x3f, 0xff, 0, 0, 2, 0]
    );
    let data = initiator.data(&read_capacity_16(255));
    assert_eq!(data.len(), 32);
    assert_eq!(data[..12], [0, 0, 0, 0, 0, 0, 0x3f, 0xff, 0, 0, 2, 0]);
    // Eight logical blocks in a physical one, although the volume's blocks have 16 KiB.
    assert_eq!((data[12], data[13]), (0, 3));
    assert!(data[14..].iter().all(|&byte| byte == 0));
}

#[test]
fn physical_blocks_are_supported_by_esxi_and_larger_ones_are_granularity() {
    for (physical, exponent) in [(512, 0), (2048, 0), (4096, 3), (131_072, 3)] {
        let volume = RamVolume::with_geometry(Geometry {
            size_bytes: 1 << 30,
            physical_block_bytes: physical,
        });
        let initiator = Initiator::new(&volume, options());
        assert_eq!(initiator.data(&read_capacity_16(32))[13], exponent);
        let limits = initiator.data(&[0x12, 1, 0xb0, 1, 0, 0]);
        let granularity = u16::from_be_bytes([limits[6], limits[7]]);
        assert_eq!(u32::from(granularity) * 512, physical);
    }
}

#[test]
fn allocation_length_cuts() {
    let initiator = Initiator::new(&RamVolume::new(BLOCKS), options());
    for length in 0..=32 {
        assert_eq!(
            initiator.data(&read_capacity_16(length)).len(),
            usize::from(length)
        );
    }
}

#[test]
fn obsolete_fields_are_refused() {
    let initiator = Initiator::new(&RamVolume::new(BLOCKS), options());
    let mut cdb = READ_CAPACITY_10;
    cdb[5] = 1;
    assert_eq!(initiator.code(&cdb, &[]), INVALID_FIELD_IN_CDB);
    assert_eq!(initiator.sense(&cdb).field, Some([0xc8, 0, 5]));
}

#[test]
fn more_than_two_tebibytes_need_the_long_form() {
    let initiator = Initiator::new(&RamVolume::new(8 << 31), options());
    assert_eq!(
        initiator.data(&READ_CAPACITY_10),
        [0xff, 0xff, 0xff, 0xff, 0, 0, 2, 0]
    );
    assert_eq!(
        initiator.data(&read_capacity_16(8)),
        ((8u64 << 31) - 1).to_be_bytes()
    );
    // The block descriptor of MODE SENSE too.
    let short = initiator.data(&[0x5a, 0, 0x0a, 0, 0, 0, 0, 0, 255, 0]);
    assert_eq!(short[8..16], [0xff, 0xff, 0xff, 0xff, 0, 0, 2, 0]);
    let long = initiator.data(&[0x5a, 0x10, 0x0a, 0, 0, 0, 0, 0, 255, 0]);
    assert_eq!((long[4], long[7]), (1, 16));
    assert_eq!(
        long[8..24],
        [0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0]
    );
}

#[test]
fn geometries_without_a_form_in_sbc_are_refused() {
    let unit = |size_bytes, physical_block_bytes| {
        let geometry = Geometry {
            size_bytes,
            physical_block_bytes,
        };
        LogicalUnit::new(RamVolume::with_geometry(geometry), options()).map(|_| ())
    };
    assert_eq!(unit(1 << 20, 16 << 20), Ok(()));
    for physical in [256, 520, 32 << 20] {
        let refused = Err(LogicalUnitError::PhysicalBlock(physical));
        assert_eq!(unit(1 << 20, physical), refused);
    }
    assert_eq!(unit(511, 4096), Err(LogicalUnitError::Empty(511)));
}
