// SPDX-License-Identifier: Apache-2.0
//! COMPARE AND WRITE.

use std::sync::Arc;
use std::thread;

use proptest::prelude::*;
use volume::{Stability, VolumeError};

use super::{
    BLOCKS, Event, INVALID_FIELD_IN_CDB, Initiator, OUT_OF_RANGE, RamVolume, Sent, UNIT, block_16,
    block_on, has_status, is_aborted, is_good, manage, options, pattern, poll, seen, setup,
    write_10,
};
use crate::Family;
use crate::sam::{FunctionResponse, Outcome, Status, TaskAttribute, TaskManagementFunction};

fn compare_and_write(address: u64, blocks: u8) -> [u8; 16] {
    block_16(0x89, 0, address, u32::from(blocks))
}

fn both(expected: &[u8], new: &[u8]) -> Vec<u8> {
    [expected, new].concat()
}

fn writes(volume: &RamVolume) -> usize {
    let events = volume.events();
    let is_write = |event: &&Event| matches!(event, Event::Write { .. });
    events.iter().filter(is_write).count()
}

#[test]
fn writes_where_it_finds_what_it_expects() {
    let (volume, initiator) = setup();
    let (first, second) = (pattern(1, 255), pattern(2, 255));
    initiator.send(
        &compare_and_write(7, 255),
        &both(&vec![0; 255 * 512], &first),
    );
    initiator.send(&compare_and_write(7, 255), &both(&first, &second));
    assert_eq!(volume.bytes(7 * 512, 255 * 512), second);
    let unit = initiator.device.logical_unit(0).unwrap().statistics();
    let counted = &unit[Family::CompareAndWrite];
    assert_eq!(
        (counted.operations, counted.bytes, counted.errors),
        (2, 2 * 255 * 512, 0)
    );
}

#[test]
fn a_miscompare_reports_the_first_different_byte_and_nothing_is_written() {
    let (volume, initiator) = setup();
    let stored = pattern(3, 200);
    initiator.send(&write_10(9, 200), &stored);
    volume.events();
    for at in [0, 1, 511, 512, 70_000, 200 * 512 - 1] {
        let mut expected = stored.clone();
        expected[at] ^= 0x10;
        let data = both(&expected, &pattern(4, 200));
        let completion = initiator.run_with(&compare_and_write(9, 200), Sent::boxed(&data));
        let seen = seen(&completion);
        assert_eq!(
            (seen.key, seen.code, seen.information),
            (0x0e, (0x1d, 0), Some(at as u32))
        );
    }
    assert_eq!(writes(&volume), 0);
    let unit = initiator.device.logical_unit(0).unwrap().statistics();
    assert_eq!(
        (
            unit.offload.miscompares,
            unit[Family::CompareAndWrite].errors
        ),
        (6, 6)
    );
    // In descriptor format too: MODE SELECT of D_SENSE.
    let mut list = vec![0; 4];
    list.extend(initiator.data(&[0x1a, 0x08, 0x0a, 0, 255, 0]).split_off(4));
    list[6] |= 0x04;
    initiator.send(&[0x15, 0x10, 0, 0, list.len() as u8, 0], &list);
    let data = both(&pattern(9, 1), &pattern(4, 1));
    let sense = initiator
        .run_with(&compare_and_write(0, 1), Sent::boxed(&data))
        .sense;
    let at = pattern(9, 1).iter().position(|&byte| byte != 0).unwrap();
    assert_eq!(sense[..4], [0x72, 0x0e, 0x1d, 0]);
    assert_eq!(sense[8..12], [0, 0x0a, 0x80, 0]);
    assert_eq!(sense[12..20], (at as u64).to_be_bytes());
}

#[test]
fn good_means_stable_as_for_any_write() {
    for flags in [0, 0x08] {
        let (volume, initiator) = setup();
        let data = both(&[0; 512], &pattern(1, 1));
        initiator.send(&block_16(0x89, flags, 4, 1), &data);
        assert_eq!(
            volume.events().pop(),
            Some(Event::Write {
                offset: 2048,
                length: 512,
                stability: Stability::Stable
            })
        );
    }
}

#[test]
fn invalid_requests_are_refused_and_zero_blocks_are_valid() {
    let (volume, initiator) = setup();
    initiator.send(&compare_and_write(BLOCKS, 0), &[]);
    let block = both(&[0; 512], &[1; 512]);
    assert_eq!(
        initiator.code(&compare_and_write(BLOCKS, 1), &block),
        OUT_OF_RANGE
    );
    assert_eq!(
        initiator.code(&compare_and_write(BLOCKS - 1, 2), &block),
        OUT_OF_RANGE
    );
    // WRPROTECT; a number of blocks in a reserved byte.
    assert_eq!(
        initiator.code(&block_16(0x89, 0x20, 0, 1), &block),
        INVALID_FIELD_IN_CDB
    );
    assert_eq!(
        initiator.code(&block_16(0x89, 0, 0, 256), &block),
        INVALID_FIELD_IN_CDB
    );
    // Data-Out that is longer or shorter than both halves.
    let more = [&block[..], &block].concat();
    for length in [0, 512, 1000, 1023, 1025, 2048] {
        assert_eq!(
            initiator.code(&compare_and_write(0, 1), &more[..length]),
            (5, 0x0e, 3)
        );
    }
    volume.set_read_only();
    assert_eq!(
        initiator.code(&compare_and_write(0, 1), &block),
        (7, 0x27, 0)
    );
    assert_eq!(volume.events(), []);
}

#[test]
fn a_full_volume_says_so() {
    let (volume, initiator) = setup();
    volume.fail(|| VolumeError::OutOfSpace);
    let data = both(&[0; 512], &[1; 512]);
    assert_eq!(
        initiator.code(&compare_and_write(0, 1), &data),
        (7, 0x27, 7)
    );
}

#[test]
fn it_locks_exactly_its_range() {
    let (volume, initiator) = setup();
    let other = Initiator::of(Arc::clone(&initiator.device));
    volume.hold();
    let data = both(&[0; 512], &pattern(1, 1));
    let mut task = initiator.execute(
        1,
        TaskAttribute::Simple,
        &compare_and_write(8, 1),
        Sent::boxed(&data),
    );
    assert!(poll(&mut task).is_pending());
    // Every kind of write waits for it.
    let block = pattern(2, 1);
    let mut overlapping: Vec<_> = [
        (write_10(7, 2).to_vec(), pattern(2, 2)),
        (block_16(0x8e, 0, 8, 1).to_vec(), block.clone()),
        (block_16(0x8b, 0, 8, 1).to_vec(), block.clone()),
        (block_16(0x93, 0, 0, 100).to_vec(), block.clone()),
        (block_16(0x93, 0x01, 0, 100).to_vec(), Vec::new()),
        (compare_and_write(8, 1).to_vec(), data.clone()),
    ]
    .into_iter()
    .zip(2..)
    .map(|((cdb, data), id)| {
        let mut task = other.execute(id, TaskAttribute::Simple, &cdb, Sent::boxed(&data));
        assert!(poll(&mut task).is_pending());
        task
    })
    .collect();
    let mut elsewhere = other.execute(
        99,
        TaskAttribute::Simple,
        &write_10(9, 1),
        Sent::boxed(&block),
    );
    assert!(poll(&mut elsewhere).is_pending());
    // Two operations began: the read of the first command, the write of the other.
    volume.release(1);
    assert!(poll(&mut task).is_pending());
    volume.release(1);
    assert!(is_good(&poll(&mut elsewhere)));
    assert!(overlapping.iter_mut().all(|task| poll(task).is_pending()));
    volume.release(1);
    assert!(is_good(&poll(&mut task)));
    assert_eq!(volume.bytes(8 * 512, 512), pattern(1, 1));
    volume.release(1000);
    for task in &mut overlapping {
        while poll(task).is_pending() {}
    }
}

/// Aborts a command during its write. Returns the results of both.
fn aborted_while_writing(
    initiator: &Initiator,
    volume: &RamVolume,
    aborter: &Initiator,
    function: TaskManagementFunction,
) -> std::task::Poll<Outcome> {
    volume.hold();
    let data = both(&pattern(1, 1), &pattern(2, 1));
    let mut task = initiator.execute(
        1,
        TaskAttribute::Simple,
        &compare_and_write(3, 1),
        Sent::boxed(&data),
    );
    assert!(poll(&mut task).is_pending());
    volume.release(1);
    assert!(poll(&mut task).is_pending());
    // The write is running.
    let mut function = manage(aborter, function);
    assert!(poll(&mut function).is_pending());
    assert!(poll(&mut task).is_pending());
    volume.release(1);
    // It is undone before the task ends.
    assert!(poll(&mut task).is_pending());
    assert!(poll(&mut function).is_pending());
    volume.release(1);
    let outcome = poll(&mut task);
    assert_eq!(block_on(function), FunctionResponse::Complete);
    volume.release(1 << 20);
    outcome
}

#[test]
fn an_abort_undoes_it_so_that_a_retry_succeeds() {
    let abort = TaskManagementFunction::AbortTask {
        logical_unit: UNIT,
        identifier: 1,
    };
    let reset = TaskManagementFunction::LogicalUnitReset(UNIT);
    for (function, by_another) in [(abort, false), (reset, true)] {
        let (volume, initiator) = setup();
        let other = Initiator::of(Arc::clone(&initiator.device));
        initiator.send(&write_10(3, 1), &pattern(1, 1));
        let aborter = if by_another { &other } else { &initiator };
        let outcome = aborted_while_writing(&initiator, &volume, aborter, function);
        if by_another {
            assert!(has_status(&outcome, Status::TaskAborted));
            initiator.sense(&super::TEST_UNIT_READY);
        } else {
            assert!(is_aborted(&outcome));
        }
        assert_eq!(volume.bytes(3 * 512, 512), pattern(1, 1));
        let data = both(&pattern(1, 1), &pattern(2, 1));
        initiator.send(&compare_and_write(3, 1), &data);
        assert_eq!(volume.bytes(3 * 512, 512), pattern(2, 1));
    }
}

#[test]
fn an_abort_during_its_wait_leaves_no_lock() {
    let (volume, initiator) = setup();
    volume.hold();
    let mut write = initiator.execute(
        1,
        TaskAttribute::Simple,
        &write_10(3, 1),
        Sent::boxed(&pattern(1, 1)),
    );
    assert!(poll(&mut write).is_pending());
    let data = both(&pattern(1, 1), &pattern(2, 1));
    let cdb = compare_and_write(3, 1);
    let mut task = initiator.execute(2, TaskAttribute::Simple, &cdb, Sent::boxed(&data));
    assert!(poll(&mut task).is_pending());
    let mut function = manage(
        &initiator,
        TaskManagementFunction::AbortTask {
            logical_unit: UNIT,
            identifier: 2,
        },
    );
    assert!(is_aborted(&poll(&mut task)));
    assert!(poll(&mut function).is_ready());
    volume.release(1 << 20);
    assert!(is_good(&poll(&mut write)));
    initiator.send(&cdb, &data);
}

#[test]
fn a_unit_in_the_place_of_another_keeps_its_commands_apart() {
    let (volume, initiator) = setup();
    volume.hold();
    let data = both(&[0; 512], &pattern(2, 1));
    let cdb = compare_and_write(3, 1);
    let mut before = initiator.execute(1, TaskAttribute::Simple, &cdb, Sent::boxed(&data));
    assert!(poll(&mut before).is_pending());
    let unit = crate::LogicalUnit::new(Arc::clone(&volume) as _, options()).unwrap();
    initiator.device.replace_logical_unit(0, unit).unwrap();
    let mut after = initiator.execute(2, TaskAttribute::Simple, &cdb, Sent::boxed(&data));
    assert!(poll(&mut after).is_pending());
    volume.release(1 << 20);
    assert!(is_good(&poll(&mut before)));
    assert!(has_status(&poll(&mut after), Status::CheckCondition));
}

/// Several threads increment a counter in a block, like the locks of hosts: no successful COMPARE AND WRITE is lost.
#[test]
fn counters_of_several_threads_lose_no_increment() {
    const REPEATS: u64 = 400;
    let (volume, initiator) = setup();
    let device = Arc::clone(&initiator.device);
    thread::scope(|scope| {
        for _ in 0..3 {
            let device = Arc::clone(&device);
            scope.spawn(move || {
                let initiator = Initiator::of(device);
                let block = |value: u64| value.to_be_bytes().repeat(64);
                let mut value = 0;
                let mut done = 0;
                while done < REPEATS {
                    let data = both(&block(value), &block(value + 1));
                    let completion =
                        initiator.run_with(&compare_and_write(5, 1), Sent::boxed(&data));
                    if completion.status == Status::Good {
                        done += 1;
                        value += 1;
                    } else {
                        assert_eq!(seen(&completion).code, (0x1d, 0));
                        let stored = initiator.data(&super::read_10(5, 1));
                        value = u64::from_be_bytes(stored[..8].try_into().unwrap());
                    }
                }
            });
        }
    });
    assert_eq!(volume.bytes(5 * 512, 8), (3 * REPEATS).to_be_bytes());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// It writes all of its data if and only if the comparison succeeds.
    #[test]
    fn it_is_a_comparison_and_a_write(
        blocks in 1_usize..=16,
        address in 0_u64..8,
        flips in prop::collection::vec((0_usize..16 * 512, 1_u8..), 0..2),
    ) {
        let (volume, initiator) = setup();
        let stored = pattern(1, 32);
        initiator.send(&write_10(0, 32), &stored);
        let at = address as usize * 512;
        let mut expected = stored[at..at + blocks * 512].to_vec();
        for (index, flip) in flips {
            if let Some(byte) = expected.get_mut(index) {
                *byte ^= flip;
            }
        }
        let equal = expected[..] == stored[at..at + blocks * 512];
        let new = pattern(9, blocks);
        let completion = initiator.run_with(
            &compare_and_write(address, blocks as u8),
            Sent::boxed(&both(&expected, &new)),
        );
        prop_assert_eq!(completion.status == Status::Good, equal);
        let mut after = stored;
        if equal {
            after[at..at + blocks * 512].copy_from_slice(&new);
        }
        prop_assert_eq!(volume.bytes(0, 32 * 512), after);
    }
}
