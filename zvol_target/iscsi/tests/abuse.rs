// SPDX-License-Identifier: Apache-2.0
//! Malicious and broken peers: nothing panics, memory has a limit, other hosts are served.

mod support;

use std::collections::HashSet;
use std::io::{ErrorKind, Write as _};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

use iscsi::ServerOptions;
use iscsi::pdu::{
    self, DataOut, Digests, Header, NopOut, RESERVED_TAG, ScsiCommand, SnackRequest, TargetPdu,
};
use proptest::prelude::*;
use support::{FAST, Fixture, HOST, Initiator, TARGET, wait_until};

/// Panics on threads of the server.
static PANICS: AtomicUsize = AtomicUsize::new(0);

fn count_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if std::thread::current()
                .name()
                .is_some_and(|name| name.starts_with("iscsi-"))
            {
                PANICS.fetch_add(1, Ordering::Relaxed);
            }
            usual(panic);
        }));
    });
}

/// Runs one test at a time: it measures the memory of the whole process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Resident memory of this process, bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = status.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

/// Sends `bytes` repeatedly until the target accepts no more for a while, or `limit` bytes. Returns the accepted bytes.
fn flood(initiator: &mut Initiator, bytes: &[u8], limit: usize) -> usize {
    initiator
        .stream
        .set_write_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    let mut taken = 0;
    while taken < limit {
        match initiator.stream.write_all(bytes) {
            Ok(()) => taken += bytes.len(),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                break;
            }
            Err(error) => panic!("{error}"),
        }
    }
    taken
}

#[test]
fn peers_that_do_not_read_have_a_memory_limit_and_others_are_served() {
    let _alone = alone();
    count_panics();
    let options = ServerOptions {
        keepalive_interval: Duration::from_secs(60),
        ..ServerOptions::default()
    };
    let fixture = Fixture::with(options, |_| {});
    let reads = || fixture.device.reads.load(Ordering::Relaxed);
    let mut working = fixture.log_in();
    working.ping();
    let before = resident();
    let stalled: Vec<Initiator> = (1..=8)
        .map(|number| {
            let mut initiator = Initiator::connect(fixture.address);
            initiator.isid[5] = number;
            initiator.log_in(HOST, TARGET, FAST);
            let bytes = match number % 3 {
                0 => {
                    // Pings with data.
                    let ping = NopOut {
                        immediate: true,
                        initiator_task_tag: 5,
                        target_transfer_tag: RESERVED_TAG,
                        cmd_sn: 1,
                        ..NopOut::default()
                    };
                    pdu::encode(ping.encode(), &[], &[0; 8192], Digests::default())
                }
                // Requests that are rejected, each with a copy of its header.
                1 => SnackRequest::default().encode().repeat(100),
                // Reads of 4 MiB. The target accepts them, but those beyond its memory do not run.
                _ => {
                    let before = reads();
                    for _ in 0..100 {
                        let read = initiator.read_command(0, 8192);
                        initiator.send(read.encode(), &[]);
                    }
                    wait_until("the first one runs", || reads() > before);
                    return initiator;
                }
            };
            let limit = 64 << 20;
            let taken = flood(&mut initiator, &bytes, limit);
            assert!(taken < limit, "{number}: the target accepted all of it");
            initiator
        })
        .collect();
    assert!(reads() < 60, "{} of 300 reads hold memory", reads());
    let grown = resident().saturating_sub(before);
    // The thread's memory for all of them, and for each a command, answers and a receive buffer.
    assert!(
        grown < (24 << 20) + stalled.len() * (8 << 20),
        "{} MiB for 8 stalled peers",
        grown >> 20
    );
    let start = Instant::now();
    for _ in 0..50 {
        assert_eq!(working.read(0, 8).len(), 4096);
    }
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(PANICS.load(Ordering::Relaxed), 0);
}

/// Data of commands whose turn never comes, one byte in each PDU.
#[test]
fn data_in_tiny_pieces_costs_no_more_than_the_data() {
    const COMMANDS: usize = 60;
    const PIECES: u32 = 2000;
    let _alone = alone();
    let fixture = Fixture::new();
    let mut initiator = fixture.log_in();
    let _first = initiator.write_command(0, 1);
    let before = resident();
    for _ in 0..COMMANDS {
        let write = ScsiCommand {
            r#final: false,
            ..initiator.write_command(0, 128)
        };
        let mut bytes = write.encode().to_vec();
        for piece in 0..PIECES {
            let pdu = DataOut {
                initiator_task_tag: write.initiator_task_tag,
                target_transfer_tag: RESERVED_TAG,
                data_sn: piece,
                buffer_offset: piece,
                ..DataOut::default()
            };
            bytes.extend(pdu::encode(pdu.encode(), &[], &[7], Digests::default()));
        }
        initiator.stream.write_all(&bytes).unwrap();
    }
    initiator.ping();
    let grown = resident().saturating_sub(before);
    assert!(grown < 32 << 20, "{} MiB", grown >> 20);
}

/// PDUs and bytes that a hostile peer sends after login.
#[derive(Clone, Debug)]
enum Act {
    /// A header with a known opcode and random fields, and a matching data segment.
    Pdu {
        opcode: u8,
        header: [u8; 48],
        data: Vec<u8>,
    },
    /// The same with small numbers, which match existing tags, window and offsets.
    Near {
        opcode: u8,
        flags: u8,
        numbers: [u8; 8],
        data: Vec<u8>,
    },
    /// A valid write, as a target for the others.
    Write { blocks: u16, r#final: bool },
    /// Random bytes.
    Bytes(Vec<u8>),
}

fn act() -> impl Strategy<Value = Act> {
    let opcode = prop::sample::select(vec![0u8, 1, 2, 4, 5, 6, 0x10, 0x1c, 0x20]);
    let immediate = prop::sample::select(vec![0u8, 0x40]);
    let opcode = (opcode, immediate).prop_map(|(opcode, immediate)| opcode | immediate);
    let data = || prop::collection::vec(any::<u8>(), 0..700);
    prop_oneof![
        1 => (opcode.clone(), any::<[u8; 48]>(), data())
            .prop_map(|(opcode, header, data)| Act::Pdu { opcode, header, data }),
        8 => (opcode, any::<u8>(), prop::array::uniform8(0u8..6), data())
            .prop_map(|(opcode, flags, numbers, data)| Act::Near { opcode, flags, numbers, data }),
        4 => (1u16..600, any::<bool>()).prop_map(|(blocks, r#final)| Act::Write { blocks, r#final }),
        1 => data().prop_map(Act::Bytes),
    ]
}

fn bytes_of(act: &Act, initiator: &mut Initiator) -> Vec<u8> {
    let frame = |header: Header, data: &[u8]| pdu::encode(header, &[], data, initiator.digests);
    match act {
        Act::Pdu {
            opcode,
            header,
            data,
        } => {
            let mut header = *header;
            header[0] = *opcode;
            frame(header, data)
        }
        Act::Near {
            opcode,
            flags,
            numbers,
            data,
        } => {
            let mut header = [0; 48];
            header[0] = *opcode;
            header[1] = *flags;
            // The words from the Initiator Task Tag on; 5 means the reserved value.
            for (word, number) in header[16..].chunks_exact_mut(4).zip(numbers) {
                word.fill(if *number == 5 { 0xff } else { 0 });
                if *number < 5 {
                    word[3] = *number;
                }
            }
            frame(header, data)
        }
        Act::Write { blocks, r#final } => {
            let command = ScsiCommand {
                r#final: *r#final,
                ..initiator.write_command(0, *blocks)
            };
            pdu::encode(command.encode(), &[], &[], initiator.digests)
        }
        Act::Bytes(bytes) => bytes.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]
    #[test]
    fn a_live_session_survives_anything(
        acts in prop::collection::vec(act(), 1..60), digests: bool, cut in 1usize..5000,
    ) {
        let _alone = alone();
        count_panics();
        thread_local! {
            static FIXTURE: Fixture = Fixture::new();
        }
        FIXTURE.with(|fixture| {
            let mut hostile = Initiator::connect(fixture.address);
            hostile.cmd_sn = 0;
            hostile.next_tag = 0;
            let choice = if digests { "CRC32C" } else { "None" };
            hostile.log_in(HOST, TARGET, &[
                ("HeaderDigest", choice), ("DataDigest", choice), ("InitialR2T", "No"), ("MaxOutstandingR2T", "3"),
            ]);
            let mut bytes = Vec::new();
            for act in &acts {
                bytes.extend(bytes_of(act, &mut hostile));
            }
            for part in bytes.chunks(cut) {
                // The target can have closed the connection.
                if hostile.stream.write_all(part).is_err() {
                    break;
                }
            }
            let mut good = Initiator::connect(fixture.address);
            good.isid[5] = 0x77;
            good.log_in(HOST, TARGET, FAST);
            good.ping();
            drop(hostile);
        });
        prop_assert_eq!(PANICS.load(Ordering::Relaxed), 0);
        prop_assert!(resident() < 300 << 20);
    }

    #[test]
    fn arbitrary_bytes_before_login_are_no_trouble(bytes in prop::collection::vec(any::<u8>(), 0..600), login: bool) {
        let _alone = alone();
        count_panics();
        thread_local! {
            static FIXTURE: Fixture = Fixture::new();
        }
        FIXTURE.with(|fixture| {
            let mut hostile = Initiator::connect(fixture.address);
            let request = hostile.operational().encode();
            let bytes = if login { pdu::encode(request, &[], &bytes, Digests::default()) } else { bytes.clone() };
            let _ = hostile.stream.write_all(&bytes);
            fixture.log_in().ping();
        });
        prop_assert_eq!(PANICS.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn a_peer_that_reads_late_gets_every_answer() {
    let _alone = alone();
    let fixture = Fixture::new();
    let mut initiator = fixture.log_in();
    let ping = NopOut {
        immediate: true,
        initiator_task_tag: 5,
        target_transfer_tag: RESERVED_TAG,
        cmd_sn: 1,
        ..NopOut::default()
    };
    let bytes = pdu::encode(ping.encode(), &[], &[0; 8192], Digests::default());
    // More than the target answers and the sockets buffer.
    let mut writer = initiator.stream.try_clone().unwrap();
    let count = 4000;
    let sender = std::thread::spawn(move || {
        for _ in 0..count {
            writer.write_all(&bytes).unwrap();
        }
    });
    // The absence of an event has no condition to wait for.
    std::thread::sleep(Duration::from_millis(500));
    assert!(!sender.is_finished(), "the target accepted all of it");
    for _ in 0..count {
        assert_eq!(initiator.receive().data.len(), 8192);
    }
    sender.join().unwrap();
}

#[test]
fn reads_that_wait_for_memory_are_all_served() {
    let _alone = alone();
    let fixture = Fixture::new();
    let mut initiator = fixture.log_in();
    // 120 reads of 1 MiB, and writes in between: far above a connection's memory.
    let commands: Vec<_> = (0..120).map(|_| initiator.read_command(0, 2048)).collect();
    for command in &commands {
        initiator.send(command.encode(), &[]);
    }
    let write = initiator.write_command(0, 8);
    initiator.send(write.encode(), &[9; 4096]);
    wait_until("the first ones run", || {
        fixture.device.reads.load(Ordering::Relaxed) >= 8
    });
    // The absence of an event has no condition to wait for.
    std::thread::sleep(Duration::from_millis(300));
    let reads = fixture.device.reads.load(Ordering::Relaxed);
    assert!(reads < 60, "{reads} reads hold memory");
    let mut left: HashSet<u32> = commands.iter().map(|c| c.initiator_task_tag).collect();
    let mut bytes = 0;
    while !left.is_empty() {
        let received = initiator.receive();
        match received.pdu {
            TargetPdu::DataIn(pdu) => {
                bytes += received.data.len();
                if pdu.status_present {
                    assert!(left.remove(&pdu.initiator_task_tag));
                }
            }
            TargetPdu::ScsiResponse(response) => {
                assert_eq!(response.initiator_task_tag, write.initiator_task_tag);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(bytes, commands.len() << 20);
    assert_eq!(initiator.read(0, 8), [9; 4096]);
}
