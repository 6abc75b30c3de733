// SPDX-License-Identifier: Apache-2.0
//! VERIFY and WRITE AND VERIFY.

use volume::Stability;

use super::{
    BLOCKS, Event, INVALID_FIELD_IN_CDB, Initiator, OUT_OF_RANGE, RamVolume, Sent, block_10,
    block_12, block_16, options, pattern, seen, write_10,
};
use crate::sam::Status;

const MISCOMPARE: (u8, u8, u8) = (0x0e, 0x1d, 0);
const COMPARE: u8 = 0x02;
const COMPARE_EACH: u8 = 0x06;

#[test]
fn without_data_it_only_reads() {
    let volume = RamVolume::new(BLOCKS);
    let initiator = Initiator::new(&volume, options());
    let completion = initiator.run_with(&block_10(0x2f, 0, 0, 1), Sent::boxed(&[1; 512]));
    assert_eq!(
        (completion.status, completion.data_out_required),
        (Status::Good, 0)
    );
    assert_eq!(
        volume.events(),
        [Event::Read {
            offset: 0,
            length: 512
        }]
    );
    // Longer than the limit for transfers: a VERIFY has no limit.
    initiator.data(&block_16(0x8f, 0, 0, BLOCKS as u32));
    assert_eq!(volume.events().len(), 8);
    volume.fail(|| std::io::Error::other("bad sector").into());
    assert_eq!(initiator.code(&block_10(0x2f, 0, 0, 1), &[]), (3, 0x11, 0));
}

#[test]
fn of_data_compares_every_byte() {
    let initiator = Initiator::new(&RamVolume::new(BLOCKS), options());
    let data = pattern(5, 3);
    initiator.send(&write_10(4, 3), &data);
    let verifies: [&[u8]; 3] = [
        &block_10(0x2f, COMPARE, 4, 3),
        &block_12(0xaf, COMPARE, 4, 3),
        &block_16(0x8f, COMPARE, 4, 3),
    ];
    for verify in verifies {
        initiator.send(verify, &data);
        for at in [0, 511, 512, 1535] {
            let mut other = data.clone();
            other[at] ^= 1;
            assert_eq!(initiator.code(verify, &other), MISCOMPARE);
        }
    }
    initiator.send(&block_10(0x2f, COMPARE, 4, 0), &[]);
}

#[test]
fn of_data_beyond_one_chunk() {
    let initiator = Initiator::new(&RamVolume::new(4 * BLOCKS), options());
    let data = pattern(5, 4100);
    initiator.send(&write_10(1, 4100), &data);
    initiator.send(&block_10(0x2f, COMPARE, 1, 4100), &data);
    let mut other = data;
    *other.last_mut().unwrap() ^= 1;
    assert_eq!(
        initiator.code(&block_10(0x2f, COMPARE, 1, 4100), &other),
        MISCOMPARE
    );
    assert_eq!(
        initiator.code(&block_10(0x2f, COMPARE, 0, 32769), &[]),
        INVALID_FIELD_IN_CDB
    );
}

#[test]
fn of_one_block_compares_it_with_each() {
    let initiator = Initiator::new(&RamVolume::new(BLOCKS), options());
    let block = pattern(5, 1);
    initiator.send(&write_10(0, 100), &block.repeat(100));
    initiator.send(&block_10(0x2f, COMPARE_EACH, 0, 100), &block);
    assert_eq!(
        initiator.code(&block_10(0x2f, COMPARE_EACH, 0, 101), &block),
        MISCOMPARE
    );
    // Zero blocks: nothing to compare, nothing required.
    initiator.send(&block_10(0x2f, COMPARE_EACH, 0, 0), &[]);
    assert_eq!(
        initiator.code(&block_10(0x2f, COMPARE_EACH, 0, 1), &block[..100]),
        (5, 0x0e, 3)
    );
}

#[test]
fn bad_fields() {
    let initiator = Initiator::new(&RamVolume::new(BLOCKS), options());
    assert_eq!(
        initiator.sense(&block_10(0x2f, 0x04, 0, 1)).field,
        Some([0xca, 0, 1])
    );
    assert_eq!(
        initiator.sense(&block_10(0x2e, 0x04, 0, 1)).field,
        Some([0xca, 0, 1])
    );
    assert_eq!(
        initiator.sense(&block_10(0x2e, 0x06, 0, 1)).field,
        Some([0xca, 0, 1])
    );
    // VRPROTECT.
    assert_eq!(
        initiator.sense(&block_10(0x2f, 0x20, 0, 1)).field,
        Some([0xcd, 0, 1])
    );
    for flags in [0, COMPARE, COMPARE_EACH] {
        assert_eq!(
            initiator.code(&block_10(0x2f, flags, BLOCKS as u32 + 1, 0), &[]),
            OUT_OF_RANGE
        );
    }
}

#[test]
fn write_and_verify_is_stable_and_read_back() {
    let volume = RamVolume::new(BLOCKS);
    let initiator = Initiator::new(&volume, options());
    let data = pattern(9, 2);
    let commands: [&[u8]; 3] = [
        &block_10(0x2e, 0, 6, 2),
        &block_12(0xae, COMPARE, 6, 2),
        &block_16(0x8e, COMPARE, 6, 2),
    ];
    for command in commands {
        initiator.send(command, &data);
        assert_eq!(
            volume.events(),
            [
                Event::Write {
                    offset: 3072,
                    length: 1024,
                    stability: Stability::Stable
                },
                Event::Read {
                    offset: 3072,
                    length: 1024
                },
            ]
        );
    }
    assert_eq!(volume.bytes(3072, 1024), data);
    // The residual cases of a WRITE.
    let completion = initiator.run_with(&block_10(0x2e, COMPARE, 0, 2), Sent::boxed(&data[..512]));
    assert_eq!(
        (completion.status, completion.data_out_required),
        (Status::Good, 1024)
    );
    let completion = initiator.run_with(&block_10(0x2e, COMPARE, 0, 1), Sent::boxed(&data[..200]));
    assert_eq!(
        (seen(&completion).key, seen(&completion).code),
        (5, (0x0e, 0x03))
    );
}
