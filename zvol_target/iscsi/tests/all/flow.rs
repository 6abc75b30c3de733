// SPDX-License-Identifier: Apache-2.0
//! Commands keep flowing, and a session without progress ends: window, memory, missing data.

use std::io::Write as _;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::memory::WAIT;
use crate::support::{FAST, Fixture, HOST, Initiator, TARGET, wait_until};
use iscsi::ServerOptions;
use iscsi::pdu::{DataOut, NopOut, RESERVED_TAG, ScsiCommand, TargetPdu};

const LOGICAL_UNIT_RESET: u8 = 5;

fn neighbour(fixture: &Fixture) -> Initiator {
    let mut other = Initiator::connect(fixture.address);
    other.isid[5] = 1;
    other.log_in(HOST, TARGET, FAST);
    other
}

/// Fills the window with commands.
fn fill_window(fixture: &Fixture, initiator: &mut Initiator) -> Vec<ScsiCommand> {
    let commands: Vec<_> = (0..512)
        .map(|_| initiator.command(&[WAIT, 0, 0, 0, 0, 0]))
        .collect();
    for command in &commands {
        initiator.send(command.encode(), &[]);
    }
    wait_until("all run", || fixture.device.task_count() == 512);
    commands
}

#[test]
fn a_window_opened_by_another_nexus_is_announced() {
    let fixture = Fixture::new();
    let mut initiator = fixture.log_in();
    fill_window(&fixture, &mut initiator);
    let mut other = neighbour(&fixture);
    let tag = other.manage(LOGICAL_UNIT_RESET, None);
    assert_eq!(other.expect_managed(tag).response, 0);
    // No command ends, so NOP-Ins announce the window. They need no answer and use no StatSN.
    let mut last = initiator.expect_nop_in();
    let stat_sn = last.stat_sn;
    while last.max_cmd_sn != 1 + 511 + 512 {
        last = initiator.expect_nop_in();
    }
    assert_eq!((last.exp_cmd_sn, last.stat_sn), (513, stat_sn));
    assert_eq!(
        (last.initiator_task_tag, last.target_transfer_tag),
        (RESERVED_TAG, RESERVED_TAG)
    );
    assert_eq!(initiator.read(0, 1).len(), 512);
}

#[test]
fn task_aborted_status_is_sent_when_the_target_gives_it() {
    let fixture = Fixture::new();
    fixture
        .device
        .task_aborted_status
        .store(true, Ordering::Relaxed);
    let mut initiator = fixture.log_in();
    let commands = fill_window(&fixture, &mut initiator);
    let mut other = neighbour(&fixture);
    let tag = other.manage(LOGICAL_UNIT_RESET, None);
    assert_eq!(other.expect_managed(tag).response, 0);
    let mut tags: Vec<_> = commands
        .iter()
        .map(|command| command.initiator_task_tag)
        .collect();
    while !tags.is_empty() {
        let TargetPdu::ScsiResponse(response) = initiator.receive().pdu else {
            panic!("no response");
        };
        assert_eq!(response.status, 0x40);
        tags.retain(|tag| *tag != response.initiator_task_tag);
    }
    initiator.ping();
}

/// A command that has ended waits for announced data, which comes behind the data of all others.
#[test]
fn a_refused_command_frees_its_memory_before_its_data_arrives() {
    let fixture = Fixture::new();
    let mut initiator = fixture.log_in();
    let refused = ScsiCommand {
        r#final: false,
        ..initiator.write_command(1 << 20, u16::MAX)
    };
    initiator.send(refused.encode(), &[]);
    let data = vec![3; 64 << 10];
    let writes: Vec<_> = (0..120).map(|_| initiator.write_command(0, 128)).collect();
    let bytes: Vec<_> = writes
        .iter()
        .map(|write| iscsi::pdu::encode(write.encode(), &[], &data, initiator.digests))
        .collect();
    let last = DataOut {
        r#final: true,
        initiator_task_tag: refused.initiator_task_tag,
        target_transfer_tag: RESERVED_TAG,
        ..DataOut::default()
    };
    let last = iscsi::pdu::encode(last.encode(), &[], &data, initiator.digests);
    let mut stream = initiator.stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        for bytes in bytes {
            stream.write_all(&bytes).unwrap();
        }
        stream.write_all(&last).unwrap();
    });
    let mut good = 0;
    for _ in 0..=writes.len() {
        let TargetPdu::ScsiResponse(response) = initiator.receive().pdu else {
            panic!("no response");
        };
        if response.initiator_task_tag == refused.initiator_task_tag {
            assert_eq!(response.status, 2);
        } else {
            assert_eq!(response.status, 0);
            good += 1;
        }
    }
    sender.join().unwrap();
    assert_eq!(good, writes.len());
    assert_eq!(initiator.read(0, 128), data);
}

/// Early commands bring unsolicited data; the command that they wait for is behind them in the socket.
#[test]
fn data_of_early_commands_does_not_block_the_next_command() {
    let fixture = Fixture::new();
    let mut initiator = fixture.log_in();
    let data = vec![5; 64 << 10];
    let first = initiator.write_command(0, 128);
    let early: Vec<_> = (0..120).map(|_| initiator.write_command(0, 128)).collect();
    let bytes: Vec<_> = early
        .iter()
        .chain([&first])
        .map(|write| iscsi::pdu::encode(write.encode(), &[], &data, initiator.digests))
        .collect();
    let mut stream = initiator.stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        for bytes in bytes {
            stream.write_all(&bytes).unwrap();
        }
    });
    for _ in 0..=early.len() {
        let TargetPdu::ScsiResponse(response) = initiator.receive().pdu else {
            panic!("no response");
        };
        assert_eq!(response.status, 0);
    }
    sender.join().unwrap();
    assert_eq!(initiator.read(0, 128), data);
}

/// Commands with data that the target does not read, as on a disk that stalls: PDUs behind them are still processed.
#[test]
fn pings_are_answered_while_commands_with_data_hang() {
    let fixture = Fixture::new();
    let mut initiator = fixture.log_in();
    let data = vec![5; 64 << 10];
    let commands: Vec<_> = (0..120)
        .map(|_| ScsiCommand {
            write: true,
            expected_data_transfer_length: data.len() as u32,
            ..initiator.command(&[WAIT])
        })
        .collect();
    for command in &commands {
        initiator.send(command.encode(), &data);
    }
    wait_until("they run", || fixture.device.task_count() == commands.len());
    initiator.ping();
    fixture.device.release();
    for _ in &commands {
        let TargetPdu::ScsiResponse(response) = initiator.receive().pdu else {
            panic!("no response");
        };
        assert_eq!(response.status, 0);
    }
}

/// Requests with data wait for a request that never comes.
#[test]
fn early_pings_without_end_end_the_session() {
    let fixture = Fixture::new();
    let mut initiator = fixture.log_in();
    let data = vec![0; 200 << 10];
    let pings: Vec<u8> = (1..=6)
        .flat_map(|early| {
            let ping = NopOut {
                initiator_task_tag: initiator.tag(),
                target_transfer_tag: RESERVED_TAG,
                cmd_sn: initiator.cmd_sn + early,
                ..NopOut::default()
            };
            iscsi::pdu::encode(ping.encode(), &[], &data, initiator.digests)
        })
        .collect();
    // The last one can find a closed connection.
    let _ = initiator.stream.write_all(&pings);
    initiator.expect_closed();
}

fn impatient() -> Fixture {
    let options = ServerOptions {
        keepalive_interval: Duration::from_secs(3),
        ..ServerOptions::default()
    };
    Fixture::with(options, |_| {})
}

#[test]
fn an_initiator_that_answers_pings_but_sends_no_data_is_dropped() {
    for unsolicited in [false, true] {
        let fixture = impatient();
        let mut initiator = fixture.log_in();
        let write = ScsiCommand {
            r#final: !unsolicited,
            ..initiator.write_command(0, 64)
        };
        initiator.send(write.encode(), &[]);
        if !unsolicited {
            initiator.expect_r2t(write.initiator_task_tag);
        }
        let mut pings = 0;
        let message = loop {
            match initiator.receive().pdu {
                TargetPdu::NopIn(ping) => initiator.answer(&ping),
                other => break other,
            }
            pings += 1;
        };
        assert!(
            matches!(message, TargetPdu::AsynchronousMessage(message) if message.event == 3),
            "{message:?}"
        );
        assert!(pings > 0);
        initiator.expect_closed();
        wait_until("its task is gone", || {
            fixture.device.task_count() == 0 && fixture.server.sessions().is_empty()
        });
    }
}

#[test]
fn slow_data_is_accepted() {
    const PART: usize = 4 << 10;
    let fixture = impatient();
    let mut initiator = fixture.log_in();
    let write = initiator.write_command(0, 64);
    initiator.send(write.encode(), &[]);
    let r2t = initiator.expect_r2t(write.initiator_task_tag);
    let data = vec![7; 32 << 10];
    for (data_sn, part) in data.chunks(PART).enumerate() {
        // In total, longer than the timeout for an initiator that sends nothing.
        std::thread::sleep(Duration::from_millis(1300));
        let offset = (data_sn * PART) as u32;
        let pdu = DataOut {
            r#final: offset + part.len() as u32 == r2t.desired_data_transfer_length,
            initiator_task_tag: write.initiator_task_tag,
            target_transfer_tag: r2t.target_transfer_tag,
            data_sn: data_sn as u32,
            buffer_offset: offset,
            ..DataOut::default()
        };
        initiator.send(pdu.encode(), part);
    }
    let response = loop {
        match initiator.receive().pdu {
            TargetPdu::NopIn(ping) => initiator.answer(&ping),
            other => break other,
        }
    };
    assert!(matches!(response, TargetPdu::ScsiResponse(response) if response.status == 0));
    assert_eq!(fixture.device.bytes(0, data.len()), data);
}

#[test]
fn unsolicited_data_goes_up_to_first_burst_length() {
    let fixture = Fixture::new();
    let mut initiator = Initiator::connect(fixture.address);
    let keys = [("InitialR2T", "No"), ("FirstBurstLength", "4096")];
    initiator.log_in(HOST, TARGET, &keys);
    // 11.4.7.2: the command has more data, so the sequence must not end early.
    let write = ScsiCommand {
        r#final: false,
        ..initiator.write_command(0, 16)
    };
    initiator.send(write.encode(), &[1; 1024]);
    let pdu = DataOut {
        r#final: true,
        initiator_task_tag: write.initiator_task_tag,
        target_transfer_tag: RESERVED_TAG,
        buffer_offset: 1024,
        ..DataOut::default()
    };
    initiator.send(pdu.encode(), &[1; 1024]);
    let (response, sense) = initiator.expect_response(write.initiator_task_tag);
    assert_eq!(
        (response.status, sense[4], sense[14], sense[15]),
        (2, 0x0b, 0x0c, 0x0d)
    );
    // Immediate data alone may be shorter.
    let write = initiator.write_command(0, 16);
    initiator.send(write.encode(), &[1; 1024]);
    let r2t = initiator.expect_r2t(write.initiator_task_tag);
    initiator.satisfy(&r2t, &[1; 8192], 0, 8192);
    assert_eq!(
        initiator.expect_response(write.initiator_task_tag).0.status,
        0
    );
}
