// SPDX-License-Identifier: Apache-2.0
//! Commands and their data.

use crate::support::{FAST, Fixture, HOST, Initiator, TARGET, wait_until};
use iscsi::ServerOptions;
use iscsi::pdu::{DataOut, RESERVED_TAG, ScsiCommand};
use proptest::prelude::*;

fn pattern(length: usize) -> Vec<u8> {
    (0..length)
        .map(|at| (at / 512) as u8 ^ (at as u8).wrapping_mul(7))
        .collect()
}

#[test]
fn immediate_data_is_written_and_read_back() {
    let fixture = Fixture::new();
    let mut initiator = fixture.log_in();
    let data = pattern(8 * 512);
    let command = initiator.write_command(3, 8);
    initiator.send(command.encode(), &data);
    let (response, sense) = initiator.expect_response(command.initiator_task_tag);
    assert_eq!(
        (response.status, response.overflow, response.underflow),
        (0, false, false)
    );
    assert_eq!(sense, []);
    assert_eq!(fixture.device.bytes(3 * 512, data.len()), data);
    assert_eq!(initiator.read(3, 8), data);
}

#[test]
fn a_long_write_takes_immediate_unsolicited_and_solicited_data() {
    for digest in ["None", "CRC32C"] {
        for chunk in [u32::MAX, 100 << 10, 3000] {
            let fixture = Fixture::new();
            *fixture.device.write_chunk.lock().unwrap() = chunk;
            let mut initiator = Initiator::connect(fixture.address);
            initiator.log_in(
                HOST,
                TARGET,
                &[
                    ("HeaderDigest", digest),
                    ("DataDigest", digest),
                    ("InitialR2T", "No"),
                    ("MaxBurstLength", "300000"),
                    ("FirstBurstLength", "65536"),
                    ("MaxOutstandingR2T", "2"),
                    ("MaxRecvDataSegmentLength", "65536"),
                ],
            );
            let data = pattern(2048 * 512);
            let command = ScsiCommand {
                r#final: false,
                ..initiator.write_command(5, 2048)
            };
            let tag = command.initiator_task_tag;
            initiator.send(command.encode(), &data[..40000]);
            for (data_sn, (start, end)) in [(40000, 50001), (50001, 65_536)].into_iter().enumerate()
            {
                let pdu = DataOut {
                    r#final: end == 65_536,
                    initiator_task_tag: tag,
                    target_transfer_tag: RESERVED_TAG,
                    data_sn: data_sn as u32,
                    buffer_offset: start as u32,
                    ..DataOut::default()
                };
                initiator.send(pdu.encode(), &data[start..end]);
            }
            let mut solicited = 65_536;
            let mut r2ts = 0;
            while solicited < data.len() {
                let r2t = initiator.expect_r2t(tag);
                assert_eq!((r2t.buffer_offset as usize, r2t.r2t_sn), (solicited, r2ts));
                assert!(r2t.desired_data_transfer_length <= 300_000);
                initiator.satisfy(&r2t, &data, 0, 100_000);
                solicited += r2t.desired_data_transfer_length as usize;
                r2ts += 1;
            }
            let (response, _) = initiator.expect_response(tag);
            assert_eq!(
                (response.status, response.residual, response.exp_data_sn),
                (0, 0, 0)
            );
            assert_eq!(fixture.device.bytes(5 * 512, data.len()), data);
            assert_eq!(initiator.read(5, 2048), data);
        }
    }
}

#[test]
fn data_in_is_split_into_segments_and_bursts() {
    let fixture = Fixture::new();
    let mut initiator = Initiator::connect(fixture.address);
    initiator.log_in(
        HOST,
        TARGET,
        &[
            ("MaxRecvDataSegmentLength", "4096"),
            ("MaxBurstLength", "10240"),
        ],
    );
    let command = initiator.read_command(0, 60);
    initiator.send(command.encode(), &[]);
    let (data, pdus) = initiator.receive_data_in(command.initiator_task_tag);
    assert_eq!(data.len(), 60 * 512);
    let ends: Vec<_> = pdus.iter().map(|pdu| pdu.r#final).collect();
    assert_eq!(
        ends,
        [false, false, true, false, false, true, false, false, true]
    );
}

#[test]
fn residuals_say_how_much_was_too_much_or_too_little() {
    let fixture = Fixture::new();
    let mut initiator = fixture.log_in();
    // The initiator expects more than the command returns.
    let command = ScsiCommand {
        expected_data_transfer_length: 4096,
        ..initiator.read_command(0, 2)
    };
    initiator.send(command.encode(), &[]);
    let (data, pdus) = initiator.receive_data_in(command.initiator_task_tag);
    assert_eq!(
        (data.len(), pdus[0].underflow, pdus[0].residual),
        (1024, true, 3072)
    );
    // It expects less.
    let command = ScsiCommand {
        expected_data_transfer_length: 512,
        ..initiator.read_command(0, 2)
    };
    initiator.send(command.encode(), &[]);
    let (data, pdus) = initiator.receive_data_in(command.initiator_task_tag);
    assert_eq!(
        (data.len(), pdus[0].overflow, pdus[0].residual),
        (512, true, 512)
    );
    // It expects nothing.
    let command = ScsiCommand {
        read: false,
        expected_data_transfer_length: 0,
        ..initiator.read_command(0, 2)
    };
    initiator.send(command.encode(), &[]);
    let (response, _) = initiator.expect_response(command.initiator_task_tag);
    assert_eq!((response.overflow, response.residual), (true, 1024));
    // It sends less than the command needs, and more.
    let command = ScsiCommand {
        expected_data_transfer_length: 512,
        ..initiator.write_command(0, 2)
    };
    initiator.send(command.encode(), &[1; 512]);
    let (response, _) = initiator.expect_response(command.initiator_task_tag);
    assert_eq!((response.overflow, response.residual), (true, 512));
    let command = ScsiCommand {
        expected_data_transfer_length: 1536,
        ..initiator.write_command(0, 2)
    };
    initiator.send(command.encode(), &[1; 1536]);
    let (response, _) = initiator.expect_response(command.initiator_task_tag);
    assert_eq!((response.underflow, response.residual), (true, 512));
}

#[test]
fn a_refused_write_swallows_its_data() {
    let fixture = Fixture::new();
    let mut initiator = fixture.log_in();
    let data = pattern(128 * 512);
    // Beyond the end; more data follows the command.
    let command = ScsiCommand {
        r#final: false,
        ..initiator.write_command(1 << 20, 128)
    };
    let tag = command.initiator_task_tag;
    initiator.send(command.encode(), &data[..10000]);
    initiator.ping();
    let pdu = DataOut {
        r#final: true,
        initiator_task_tag: tag,
        target_transfer_tag: RESERVED_TAG,
        buffer_offset: 10000,
        ..DataOut::default()
    };
    initiator.send(pdu.encode(), &data[10000..]);
    let (response, sense) = initiator.expect_response(tag);
    assert_eq!(response.status, 2);
    assert_eq!(
        (sense[..2].to_vec(), sense[4], sense[14]),
        (vec![0, 18], 5, 0x21)
    );
    assert_eq!((response.underflow, response.residual), (true, 128 * 512));
    assert_eq!(initiator.read(0, 1), [0; 512]);
}

#[test]
fn split_and_joined_pdus_are_the_same_to_the_target() {
    use std::io::Write as _;
    let fixture = Fixture::new();
    let mut initiator = fixture.log_in();
    let data = pattern(512);
    let mut bytes = Vec::new();
    let commands: Vec<_> = (0..20)
        .map(|block| initiator.write_command(block, 1))
        .collect();
    for command in &commands {
        bytes.extend(iscsi::pdu::encode(
            command.encode(),
            &[],
            &data,
            initiator.digests,
        ));
    }
    for part in bytes.chunks(77) {
        initiator.stream.write_all(part).unwrap();
    }
    for command in &commands {
        let (response, _) = initiator.expect_response(command.initiator_task_tag);
        assert_eq!(response.status, 0);
    }
    assert_eq!(initiator.read(19, 1), data);
}

#[test]
fn without_immediate_data_everything_is_solicited() {
    let fixture = Fixture::new();
    let mut initiator = Initiator::connect(fixture.address);
    let mut keys = FAST.to_vec();
    keys.retain(|(key, _)| !matches!(*key, "InitialR2T" | "ImmediateData"));
    keys.extend([("InitialR2T", "Yes"), ("ImmediateData", "No")]);
    initiator.log_in(HOST, TARGET, &keys);
    let data = pattern(16 * 512);
    let command = initiator.write_command(0, 16);
    initiator.send(command.encode(), &[]);
    let r2t = initiator.expect_r2t(command.initiator_task_tag);
    assert_eq!(
        (r2t.buffer_offset, r2t.desired_data_transfer_length),
        (0, 16 * 512)
    );
    initiator.satisfy(&r2t, &data, 0, 1000);
    assert_eq!(
        initiator
            .expect_response(command.initiator_task_tag)
            .0
            .status,
        0
    );
    assert_eq!(initiator.read(0, 16), data);
}

#[test]
fn many_sessions_on_several_reactors_do_not_mix() {
    let options = ServerOptions {
        reactors: 2,
        ..ServerOptions::default()
    };
    let fixture = Fixture::with(options, |_| {});
    std::thread::scope(|scope| {
        for number in 0..16u8 {
            let mut initiator = Initiator::connect(fixture.address);
            initiator.isid[5] = number;
            initiator.log_in(HOST, TARGET, FAST);
            scope.spawn(move || {
                for round in 0..50u8 {
                    let data = vec![number ^ round; 64 * 512];
                    let command = initiator.write_command(u32::from(number) * 64, 64);
                    initiator.send(command.encode(), &data);
                    assert_eq!(
                        initiator
                            .expect_response(command.initiator_task_tag)
                            .0
                            .status,
                        0
                    );
                    assert_eq!(initiator.read(u32::from(number) * 64, 64), data);
                }
            });
        }
    });
    wait_until("all sessions are gone", || {
        fixture.server.sessions().is_empty()
    });
}

/// How one write is split.
#[derive(Clone, Debug)]
struct Cut {
    blocks: u16,
    first_burst: u32,
    max_burst: u32,
    outstanding: u32,
    immediate: usize,
    unsolicited: bool,
    segment: usize,
    chunk: u32,
    digest: bool,
}

fn cut() -> impl Strategy<Value = Cut> {
    let sizes = (1u16..400, 512u32..65_537, 512u32..100_000, 1u32..5);
    let parts = (
        0usize..70_000,
        any::<bool>(),
        300usize..70_000,
        1u32..300_000,
        any::<bool>(),
    );
    (sizes, parts).prop_map(|((blocks, first_burst, max_burst, outstanding), parts)| {
        let (immediate, unsolicited, segment, chunk, digest) = parts;
        let first_burst = first_burst.min(max_burst);
        let immediate = immediate
            .min(first_burst as usize)
            .min(usize::from(blocks) * 512);
        Cut {
            blocks,
            first_burst,
            max_burst,
            outstanding,
            immediate,
            unsolicited,
            segment,
            chunk,
            digest,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
    #[test]
    fn a_write_arrives_whole_however_it_is_cut(cut in cut()) {
        thread_local! {
            static FIXTURE: Fixture = Fixture::new();
        }
        FIXTURE.with(|fixture| write_cut(fixture, &cut));
    }
}

fn write_cut(fixture: &Fixture, cut: &Cut) {
    *fixture.device.write_chunk.lock().unwrap() = cut.chunk;
    let mut initiator = Initiator::connect(fixture.address);
    let digest = if cut.digest { "CRC32C" } else { "None" };
    let numbers =
        [cut.max_burst, cut.first_burst, cut.outstanding].map(|number| number.to_string());
    initiator.log_in(
        HOST,
        TARGET,
        &[
            ("FirstBurstLength", &numbers[1]),
            ("MaxBurstLength", &numbers[0]),
            ("MaxOutstandingR2T", &numbers[2]),
            ("InitialR2T", "No"),
            ("DataDigest", digest),
        ],
    );
    let data = pattern(usize::from(cut.blocks) * 512);
    let until = data.len().min(cut.first_burst as usize);
    let more = cut.unsolicited && cut.immediate < until;
    let command = ScsiCommand {
        r#final: !more,
        ..initiator.write_command(0, cut.blocks)
    };
    let tag = command.initiator_task_tag;
    initiator.send(command.encode(), &data[..cut.immediate]);
    let mut sent = cut.immediate;
    let mut data_sn = 0;
    while more && sent < until {
        let end = until.min(sent + cut.segment);
        let pdu = DataOut {
            r#final: end == until,
            initiator_task_tag: tag,
            target_transfer_tag: RESERVED_TAG,
            data_sn,
            buffer_offset: sent as u32,
            ..DataOut::default()
        };
        initiator.send(pdu.encode(), &data[sent..end]);
        (sent, data_sn) = (end, data_sn + 1);
    }
    while sent < data.len() {
        let r2t = initiator.expect_r2t(tag);
        assert_eq!(r2t.buffer_offset as usize, sent);
        assert!(r2t.desired_data_transfer_length <= cut.max_burst);
        initiator.satisfy(&r2t, &data, 0, cut.segment);
        sent += r2t.desired_data_transfer_length as usize;
    }
    assert_eq!(initiator.expect_response(tag).0.status, 0);
    assert!(fixture.device.bytes(0, data.len()) == data);
}
