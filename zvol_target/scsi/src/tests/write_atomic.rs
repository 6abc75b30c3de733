// SPDX-License-Identifier: Apache-2.0
//! WRITE ATOMIC(16).

use volume::Stability;

use super::{
    BLOCKS, Event, INVALID_FIELD_IN_CDB, Initiator, OUT_OF_RANGE, RamVolume, options, pattern,
    setup,
};

fn write_atomic(address: u64, boundary: u16, blocks: u16) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = 0x9c;
    cdb[2..10].copy_from_slice(&address.to_be_bytes());
    cdb[10..12].copy_from_slice(&boundary.to_be_bytes());
    cdb[12..14].copy_from_slice(&blocks.to_be_bytes());
    cdb
}

#[test]
fn it_is_one_stable_write() {
    let volume = RamVolume::new(BLOCKS);
    volume.set_atomic_write_bytes(4096);
    let initiator = Initiator::new(&volume, options());
    for (address, blocks) in [(0, 8), (16, 1), (8, 5)] {
        initiator.send(
            &write_atomic(address, 0, blocks),
            &pattern(1, usize::from(blocks)),
        );
        assert_eq!(
            volume.events(),
            [Event::Write {
                offset: address * 512,
                length: usize::from(blocks) * 512,
                stability: Stability::Stable
            }]
        );
    }
    initiator.send(&write_atomic(8, 0, 0), &[]);
    let page = initiator.data(&[0x12, 1, 0xb0, 0, 64, 0]);
    assert_eq!(
        page[44..64],
        [0, 0, 0, 8, 0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]
    );
    // Too long, not aligned, across a boundary, truncated by the host, beyond the end.
    for (cdb, data, code) in [
        (write_atomic(0, 0, 9), 9, INVALID_FIELD_IN_CDB),
        (write_atomic(4, 0, 4), 4, INVALID_FIELD_IN_CDB),
        (write_atomic(0, 8, 8), 8, INVALID_FIELD_IN_CDB),
        (write_atomic(0, 0, 8), 7, (5, 0x0e, 3)),
        (write_atomic(BLOCKS, 0, 8), 8, OUT_OF_RANGE),
    ] {
        assert_eq!(initiator.code(&cdb, &pattern(2, data)), code);
    }
    assert_eq!(volume.events(), []);
}

#[test]
fn without_a_guarantee_the_command_is_not_supported() {
    let (_, initiator) = setup();
    assert_eq!(
        initiator.code(&write_atomic(0, 0, 1), &[0; 512]),
        (5, 0x20, 0)
    );
    let report = [0xa3, 0x0c, 1, 0x9c, 0, 0, 0, 0, 0, 255, 0, 0];
    assert_eq!(initiator.data(&report), [0, 1, 0, 0]);
}
