// SPDX-License-Identifier: Apache-2.0
//! READ, WRITE, SYNCHRONIZE CACHE, START STOP UNIT.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use volume::{Buffer, Stability, VolumeError};

use super::{
    BLOCKS, Broken, Event, INVALID_FIELD_IN_CDB, Initiator, OUT_OF_RANGE, RamVolume, Sent, UNIT,
    block_10, block_12, block_16, block_on, is_good, options, pattern, poll, read_10, seen,
    write_10,
};
use crate::sam::{DataOut, DeliveryError, LocalBoxFuture, Outcome, Status, TaskAttribute};
use crate::{Family, LogicalUnitOptions};

fn initiator() -> (Arc<RamVolume>, Initiator) {
    let volume = RamVolume::new(BLOCKS);
    let initiator = Initiator::new(&volume, options());
    (volume, initiator)
}

#[test]
fn every_read_returns_the_written_data() {
    let (volume, initiator) = initiator();
    let writes: [&[u8]; 4] = [
        &[0x0a, 0, 0, 9, 3, 0],
        &write_10(9, 3),
        &block_12(0xaa, 0, 9, 3),
        &block_16(0x8a, 0, 9, 3),
    ];
    let reads: [&[u8]; 4] = [
        &[0x08, 0, 0, 9, 3, 0],
        &read_10(9, 3),
        &block_12(0xa8, 0, 9, 3),
        &block_16(0x88, 0, 9, 3),
    ];
    for (seed, write) in (1..).zip(writes) {
        let data = pattern(seed, 3);
        initiator.send(write, &data);
        assert_eq!(
            volume.bytes(8 * 512, 5 * 512),
            [&[0; 512], &data[..], &[0; 512]].concat()
        );
        for read in reads {
            assert_eq!(initiator.data(read), data);
        }
    }
}

#[test]
fn zero_is_256_blocks_for_the_short_commands_only() {
    let (_, initiator) = initiator();
    let data = pattern(1, 256);
    initiator.send(&[0x0a, 0, 1, 0, 0, 0], &data);
    assert_eq!(initiator.data(&[0x08, 0, 1, 0, 0, 0]), data);
    assert_eq!(initiator.data(&read_10(0, 0)), []);
    initiator.send(&write_10(0, 0), &[]);
}

#[test]
fn addresses_past_the_end() {
    let (volume, initiator) = initiator();
    let end = BLOCKS as u32;
    for (cdb, first) in [
        (read_10(end - 1, 2), end),
        (read_10(end, 1), end),
        (read_10(end + 1, 0), end + 1),
        (read_10(u32::MAX, 0), u32::MAX),
        (read_10(u32::MAX, u16::MAX), u32::MAX),
        (write_10(end - 1, 2), end),
        (block_10(0x35, 0, end, 1), end),
    ] {
        let seen = initiator.sense(&cdb);
        assert_eq!(
            (seen.key, seen.code, seen.information),
            (5, (0x21, 0), Some(first)),
            "{cdb:x?}"
        );
    }
    assert_eq!(
        initiator.code(&block_16(0x88, 0, u64::MAX, u32::MAX), &[]),
        OUT_OF_RANGE
    );
    assert_eq!(
        initiator.code(&block_16(0x8a, 0, u64::MAX / 512, 1), &[]),
        OUT_OF_RANGE
    );
    assert_eq!(volume.events(), []);
    initiator.data(&read_10(end, 0));
    initiator.data(&read_10(end - 1, 1));
}

#[test]
fn longer_than_the_maximum_transfer_length() {
    let volume = RamVolume::new(4 * BLOCKS);
    let initiator = Initiator::new(&volume, options());
    // Some hosts ignore the 4 MiB of MAXIMUM TRANSFER LENGTH.
    let most = 32768;
    assert_eq!(initiator.data(&read_10(1, most)).len(), 16 << 20);
    let data = pattern(3, usize::from(most));
    initiator.send(&write_10(1, most), &data);
    assert_eq!(volume.bytes(512, 16 << 20), data);
    for (cdb, field) in [
        (read_10(0, most + 1).to_vec(), 7),
        (write_10(0, most + 1).to_vec(), 7),
        (block_12(0xa8, 0, 0, 32769).to_vec(), 6),
        (block_16(0x8a, 0, 0, 32769).to_vec(), 10),
    ] {
        let seen = initiator.sense(&cdb);
        assert_eq!((seen.code, seen.field), ((0x24, 0), Some([0xc0, 0, field])));
    }
}

#[test]
fn no_more_is_read_than_the_initiator_takes() {
    let (volume, initiator) = initiator();
    let data = pattern(5, 8);
    initiator.send(&write_10(0, 8), &data);
    for (room, read) in [(0, 0), (1, 512), (512, 512), (1000, 1024), (9000, 4096)] {
        volume.events();
        let narrow = Initiator {
            data_in_buffer_size: room,
            ..initiator.to(UNIT)
        };
        let completion = narrow.run(&read_10(0, 8));
        assert_eq!(
            (completion.status, completion.data_in_required),
            (Status::Good, 4096)
        );
        let got = completion.data_in.map_or(0, |got| {
            assert_eq!(data[..got.len()], got[..]);
            got.len()
        });
        assert_eq!(got, read, "{room}");
        let expected = (read > 0).then_some(Event::Read {
            offset: 0,
            length: read,
        });
        assert_eq!(volume.events(), Vec::from_iter(expected));
    }
}

#[test]
fn large_writes_are_fetched_in_chunks() {
    let (volume, initiator) = initiator();
    initiator.send(&write_10(8, 4097), &pattern(1, 4097));
    let write = |offset, length| Event::Write {
        offset,
        length,
        stability: Stability::Stable,
    };
    assert_eq!(
        volume.events(),
        [
            write(4096, 1 << 20),
            write(4096 + (1 << 20), 1 << 20),
            write(4096 + (2 << 20), 512)
        ]
    );
}

/// A transport with memory for two parts. Counts the requested parts.
struct Ahead {
    sent: Box<dyn DataOut>,
    requested: Arc<AtomicUsize>,
}

impl DataOut for Ahead {
    fn receive(&mut self, length: u32) -> LocalBoxFuture<'_, Result<Buffer, DeliveryError>> {
        self.requested.fetch_add(1, Ordering::Relaxed);
        self.sent.receive(length)
    }

    fn receive_ahead(
        &mut self,
        length: u32,
    ) -> Option<LocalBoxFuture<'_, Result<Buffer, DeliveryError>>> {
        Some(self.receive(length))
    }
}

#[test]
fn the_next_part_of_a_large_write_is_received_while_one_is_written() {
    let (volume, initiator) = initiator();
    let data = pattern(3, 6144);
    let requested = Arc::<AtomicUsize>::default();
    let data_out = Ahead {
        sent: Sent::boxed(&data),
        requested: Arc::clone(&requested),
    };
    volume.hold();
    let mut write = initiator.execute(
        1,
        TaskAttribute::Simple,
        &write_10(0, 6144),
        Box::new(data_out),
    );
    for part in 1..=3 {
        assert!(poll(&mut write).is_pending());
        assert_eq!(volume.begun(), part);
        // One more than the part that is being written, until all have arrived.
        assert_eq!(requested.load(Ordering::Relaxed), 3.min(part + 1));
        volume.release(1);
    }
    assert!(is_good(&poll(&mut write)));
    assert_eq!(volume.bytes(0, data.len()), data);
}

#[test]
fn good_means_stable() {
    let (volume, initiator) = initiator();
    let data = pattern(1, 1);
    for flags in [0, 0x10, 0x08, 0x18] {
        initiator.send(&block_10(0x2a, flags, 0, 1), &data);
        initiator.data(&block_10(0x28, flags, 0, 1));
    }
    let pair = [
        Event::Write {
            offset: 0,
            length: 512,
            stability: Stability::Stable,
        },
        Event::Read {
            offset: 0,
            length: 512,
        },
    ];
    assert_eq!(volume.events(), pair.repeat(4));
}

#[test]
fn synchronize_cache_flushes() {
    let (volume, initiator) = initiator();
    initiator.data(&block_10(0x35, 0, 0, 0));
    initiator.data(&block_10(0x35, 0x02, 7, 1));
    initiator.data(&block_16(0x91, 0, BLOCKS, 0));
    assert_eq!(volume.events(), [Event::Flush; 3]);
}

#[test]
fn start_stop_unit_flushes_and_stays_ready() {
    let volume = RamVolume::new(BLOCKS);
    let initiator = Initiator::new(&volume, options());
    initiator.data(&[0x1b, 0, 0, 0, 0x01, 0]);
    initiator.data(&[0x1b, 0, 0, 0, 0x04, 0]);
    assert_eq!(volume.events(), []);
    initiator.data(&[0x1b, 1, 0, 0, 0, 0]);
    assert_eq!(volume.events(), [Event::Flush]);
    initiator.data(&read_10(0, 1));
    // LOEJ, POWER CONDITION.
    assert_eq!(
        initiator.code(&[0x1b, 0, 0, 0, 0x02, 0], &[]),
        INVALID_FIELD_IN_CDB
    );
    assert_eq!(
        initiator.code(&[0x1b, 0, 0, 0, 0x10, 0], &[]),
        INVALID_FIELD_IN_CDB
    );
}

#[test]
fn write_protected_in_either_way() {
    let data = pattern(1, 1);
    let by_option = Initiator::new(
        &RamVolume::new(BLOCKS),
        LogicalUnitOptions {
            read_only: true,
            ..options()
        },
    );
    let volume = RamVolume::new(BLOCKS);
    volume.set_read_only();
    let by_volume = Initiator::new(&volume, options());
    for initiator in [by_option, by_volume] {
        assert_eq!(initiator.code(&write_10(0, 1), &data), (7, 0x27, 0));
        assert_eq!(
            initiator.code(&block_10(0x2e, 0, 0, 1), &data),
            (7, 0x27, 0)
        );
        assert_eq!(initiator.data(&read_10(0, 1)).len(), 512);
        // WP in MODE SENSE(6) and (10).
        assert_eq!(initiator.data(&[0x1a, 0, 0x3f, 0, 4, 0])[2], 0x90);
        assert_eq!(
            initiator.data(&[0x5a, 0, 0x3f, 0, 0, 0, 0, 0, 8, 0])[3],
            0x90
        );
    }
}

#[test]
fn failures_of_the_volume() {
    let data = pattern(1, 1);
    let faults: [(fn() -> VolumeError, _, _); 5] = [
        (|| VolumeError::OutOfSpace, (7, 0x27, 7), (7, 0x27, 7)),
        (|| VolumeError::ReadOnly, (7, 0x27, 0), (7, 0x27, 0)),
        (
            || std::io::Error::other("bad sector").into(),
            (3, 0x11, 0),
            (3, 0x0c, 0),
        ),
        (
            || VolumeError::Gone(std::io::Error::other("pulled")),
            (2, 0x04, 1),
            (2, 0x04, 1),
        ),
        (
            || VolumeError::OutOfRange {
                offset: 0,
                length: 512,
                size_bytes: 0,
            },
            OUT_OF_RANGE,
            OUT_OF_RANGE,
        ),
    ];
    for (fault, read, write) in faults {
        let (volume, initiator) = initiator();
        volume.fail(fault);
        assert_eq!(initiator.code(&read_10(0, 1), &[]), read);
        assert_eq!(initiator.code(&write_10(0, 1), &data), write);
        assert_eq!(initiator.code(&block_10(0x35, 0, 0, 0), &[]), write);
    }
}

#[test]
fn a_host_that_announces_less_than_the_cdb_requires() {
    let (volume, initiator) = initiator();
    let two_blocks = |sent: &[u8]| initiator.run_with(&write_10(0, 2), Sent::boxed(sent));
    // Whole blocks are written, and the transport gets the required length.
    let completion = two_blocks(&[0xbb; 512]);
    assert_eq!(
        (completion.status, completion.data_out_required),
        (Status::Good, 1024)
    );
    assert_eq!(volume.bytes(0, 1024), [[0xbb; 512], [0; 512]].concat());
    let completion = two_blocks(&[]);
    assert_eq!(
        (completion.status, completion.data_out_required),
        (Status::Good, 1024)
    );
    // A partial block is never written.
    volume.events();
    for partial in [1, 200, 511, 513, 1023] {
        let completion = two_blocks(&vec![0xcc; partial]);
        assert_eq!(
            (seen(&completion).key, seen(&completion).code),
            (5, (0x0e, 0x03))
        );
        assert_eq!(completion.data_out_required, 1024);
    }
    assert_eq!(volume.events(), []);
    // After a partial write, the sense key is different.
    let sent = vec![0xdd; (1 << 20) + 100];
    assert_eq!(
        initiator.code(&write_10(0, 4096), &sent),
        (0x0b, 0x0e, 0x03)
    );
}

#[test]
fn a_host_that_announces_more_than_the_cdb_requires() {
    let (volume, initiator) = initiator();
    let completion = initiator.run_with(&write_10(0, 1), Sent::boxed(&[0xee; 1024]));
    assert_eq!(
        (completion.status, completion.data_out_required),
        (Status::Good, 512)
    );
    assert_eq!(volume.bytes(0, 1024), [[0xee; 512], [0; 512]].concat());
}

#[test]
fn transfers_that_fail() {
    let (volume, initiator) = initiator();
    let broken = Broken::Failing(DeliveryError::TransferFailed);
    let completion = initiator.run_with(&write_10(0, 1), Box::new(broken));
    assert_eq!(
        (seen(&completion).key, seen(&completion).code),
        (0x0b, (0x4b, 0))
    );
    let broken = Broken::Failing(DeliveryError::NexusLost);
    let outcome =
        block_on(initiator.execute(1, TaskAttribute::Simple, &write_10(0, 1), Box::new(broken)));
    assert!(matches!(outcome, Outcome::Aborted));
    assert_eq!(volume.events(), []);
}

#[test]
fn protection_is_refused_and_a_group_number_is_advice() {
    let (_, initiator) = initiator();
    for code in [0x28, 0x2a] {
        let seen = initiator.sense(&block_10(code, 0x20, 0, 1));
        assert_eq!((seen.code, seen.field), ((0x24, 0), Some([0xcd, 0, 1])));
        let mut cdb = block_10(code, 0, 0, 1);
        cdb[6] = 0x1f;
        let completion = initiator.run_with(&cdb, Sent::boxed(&pattern(1, 1)));
        assert_eq!(completion.status, Status::Good);
        cdb[6] = 0x20;
        assert_eq!(initiator.sense(&cdb).field, Some([0xcd, 0, 6]));
    }
    // NACA.
    let mut cdb = read_10(0, 1);
    cdb[9] = 0x04;
    assert_eq!(initiator.sense(&cdb).field, Some([0xca, 0, 9]));
}

#[test]
fn an_attribute_that_needs_aca() {
    let (_, initiator) = initiator();
    let future = initiator.execute(
        1,
        TaskAttribute::AutoContingentAllegiance,
        &read_10(0, 1),
        Sent::boxed(&[]),
    );
    let Outcome::Completed(completion) = block_on(future) else {
        panic!("aborted")
    };
    assert_eq!(
        (seen(&completion).key, seen(&completion).code),
        (0x0b, (0x49, 0))
    );
}

#[test]
fn operations_bytes_and_errors_are_counted() {
    let (_, initiator) = initiator();
    initiator.send(&write_10(0, 4), &pattern(1, 4));
    initiator.data(&read_10(0, 2));
    initiator.code(&read_10(u32::MAX, 2), &[]);
    initiator.data(&block_10(0x35, 0, 0, 0));
    initiator.data(&block_10(0x2f, 0, 0, 8));
    let statistics = initiator.device.logical_unit(0).unwrap().statistics();
    let counts =
        |family: &crate::FamilyStatistics| (family.operations, family.bytes, family.errors);
    assert_eq!(counts(&statistics[Family::Write]), (1, 2048, 0));
    assert_eq!(counts(&statistics[Family::Read]), (2, 1024, 1));
    assert_eq!(counts(&statistics[Family::SynchronizeCache]), (1, 0, 0));
    assert_eq!(counts(&statistics[Family::Verify]), (1, 4096, 0));
    assert_eq!(statistics.aborted, 0);
}
