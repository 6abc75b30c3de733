// SPDX-License-Identifier: Apache-2.0
//! ORWRITE(16).

use volume::Stability;

use super::{BLOCKS, Event, OUT_OF_RANGE, block_16, pattern, setup, write_10};

#[test]
fn bits_are_added_to_the_stored_bits() {
    let (volume, initiator) = setup();
    let (stored, sent) = (pattern(1, 300), pattern(0x5a, 300));
    initiator.send(&write_10(5, 300), &stored);
    initiator.send(&block_16(0x8b, 0, 5, 300), &sent);
    let both: Vec<u8> = stored
        .iter()
        .zip(&sent)
        .map(|(left, right)| left | right)
        .collect();
    assert_eq!(volume.bytes(5 * 512, 300 * 512), both);
    assert!(matches!(
        volume.events().pop(),
        Some(Event::Write {
            stability: Stability::Stable,
            ..
        })
    ));
}

#[test]
fn invalid_requests_are_refused() {
    let (volume, initiator) = setup();
    initiator.send(&block_16(0x8b, 0, 0, 0), &[]);
    assert_eq!(
        initiator.code(&block_16(0x8b, 0, BLOCKS, 1), &[1; 512]),
        OUT_OF_RANGE
    );
    assert_eq!(
        initiator.code(&block_16(0x8b, 0, 0, 1), &[1; 100]),
        (5, 0x0e, 3)
    );
    volume.set_read_only();
    assert_eq!(
        initiator.code(&block_16(0x8b, 0, 0, 1), &[1; 512]),
        (7, 0x27, 0)
    );
    assert_eq!(volume.events(), []);
}
