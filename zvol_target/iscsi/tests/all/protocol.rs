// SPDX-License-Identifier: Apache-2.0
//! The full feature phase beyond reading and writing: order, task management, errors, the end of sessions.

use std::time::{Duration, Instant};

use crate::support::{FAST, Fixture, HOST, Initiator, TARGET, definition, only, wait_until};
use iscsi::pdu::{
    DataOut, LogoutRequest, NopOut, RESERVED_TAG, ScsiCommand, SnackRequest, TargetPdu, TextRequest,
};
use iscsi::{ServerOptions, TargetPort};

const WAIT: u8 = 0xc0;
const HANG: u8 = 0xc1;
const ABORT_TASK: u8 = 1;
const ABORT_TASK_SET: u8 = 2;
const CLEAR_ACA: u8 = 3;
const LOGICAL_UNIT_RESET: u8 = 5;
const TARGET_WARM_RESET: u8 = 6;
const TARGET_COLD_RESET: u8 = 7;
const TASK_REASSIGN: u8 = 8;

#[test]
fn commands_run_in_the_order_of_their_numbers() {
    let fixture = Fixture::new();
    let mut initiator = fixture.log_in();
    let commands: Vec<_> = (0..4)
        .map(|block| initiator.read_command(block, 1))
        .collect();
    for at in [2, 1, 3] {
        initiator.send(commands[at].encode(), &[]);
    }
    // A ping is answered; the commands wait for the first one.
    initiator.ping();
    assert_eq!(fixture.device.log.lock().unwrap().len(), 0);
    // A duplicate, and a command outside the window, are ignored.
    initiator.send(
        ScsiCommand {
            initiator_task_tag: 1,
            ..commands[2]
        }
        .encode(),
        &[],
    );
    initiator.send(
        ScsiCommand {
            initiator_task_tag: 2,
            cmd_sn: 5000,
            ..commands[2]
        }
        .encode(),
        &[],
    );
    initiator.send(commands[0].encode(), &[]);
    for command in &commands {
        initiator.receive_data_in(command.initiator_task_tag);
    }
    initiator.send(
        ScsiCommand {
            initiator_task_tag: 3,
            ..commands[0]
        }
        .encode(),
        &[],
    );
    initiator.ping();
    let blocks: Vec<_> = fixture
        .device
        .log
        .lock()
        .unwrap()
        .iter()
        .map(|cdb| cdb[5])
        .collect();
    assert_eq!(blocks, [0, 1, 2, 3]);
}

#[test]
fn data_of_an_ignored_command_is_swallowed() {
    let fixture = Fixture::new();
    let mut initiator = fixture.log_in();
    let command = initiator.write_command(0, 1);
    initiator.send(command.encode(), &[1; 512]);
    initiator.expect_response(command.initiator_task_tag);
    initiator.send(command.encode(), &[2; 512]);
    initiator.ping();
    assert_eq!(fixture.device.bytes(0, 512), [1; 512]);
}

#[test]
fn the_window_bounds_commands_under_way() {
    let fixture = Fixture::new();
    let mut initiator = fixture.log_in();
    let commands: Vec<_> = (0..600)
        .map(|_| initiator.command(&[WAIT, 0, 0, 0, 0, 0]))
        .collect();
    for command in &commands {
        initiator.send(command.encode(), &[]);
    }
    initiator.ping();
    assert_eq!(fixture.device.task_count(), 512);
    fixture.device.release();
    let mut last = None;
    for _ in 0..512 {
        let TargetPdu::ScsiResponse(response) = initiator.receive().pdu else {
            panic!()
        };
        last = Some(response);
    }
    let last = last.unwrap();
    assert_eq!((last.exp_cmd_sn, last.max_cmd_sn), (513, 1024));
    // The other 88 were outside the window: the initiator sends them again, as required.
    for command in &commands[512..] {
        initiator.send(command.encode(), &[]);
    }
    for command in &commands[512..] {
        initiator.expect_response(command.initiator_task_tag);
    }
}

#[test]
fn a_task_tag_in_use_is_rejected() {
    let fixture = Fixture::new();
    let mut initiator = fixture.log_in();
    let first = initiator.command(&[WAIT, 0, 0, 0, 0, 0]);
    initiator.send(first.encode(), &[]);
    let second = ScsiCommand {
        initiator_task_tag: first.initiator_task_tag,
        ..initiator.command(&[0; 6])
    };
    initiator.send(second.encode(), &[]);
    assert_eq!(initiator.expect_reject(), 7);
    assert_eq!(initiator.read(0, 1).len(), 512);
}

#[test]
fn an_aborted_command_gives_no_response() {
    let fixture = Fixture::new();
    let mut initiator = fixture.log_in();
    let command = initiator.command(&[WAIT, 0, 0, 0, 0, 0]);
    initiator.send(command.encode(), &[]);
    let tag = initiator.manage(ABORT_TASK, Some(&command));
    assert_eq!(initiator.expect_managed(tag).response, 0);
    assert_eq!(fixture.device.task_count(), 0);
    // The second time, the task does not exist.
    let tag = initiator.manage(ABORT_TASK, Some(&command));
    assert_eq!(initiator.expect_managed(tag).response, 1);
    initiator.ping();
}

#[test]
fn a_write_that_waits_for_data_can_be_aborted_and_its_data_is_discarded() {
    let fixture = Fixture::new();
    let mut initiator = fixture.log_in();
    let data = vec![7; 1024 * 512];
    let command = initiator.write_command(0, 1024);
    initiator.send(command.encode(), &data[..1000]);
    let r2t = initiator.expect_r2t(command.initiator_task_tag);
    // A part of the data arrives before the abort, the rest after it.
    let part = DataOut {
        initiator_task_tag: r2t.initiator_task_tag,
        target_transfer_tag: r2t.target_transfer_tag,
        buffer_offset: r2t.buffer_offset,
        ..DataOut::default()
    };
    initiator.send(part.encode(), &data[..5000]);
    let tag = initiator.manage(ABORT_TASK, Some(&command));
    assert_eq!(initiator.expect_managed(tag).response, 0);
    let rest = DataOut {
        r#final: true,
        data_sn: 1,
        buffer_offset: r2t.buffer_offset + 5000,
        ..part
    };
    initiator.send(rest.encode(), &data[..100_000]);
    initiator.ping();
    assert_eq!(fixture.device.bytes(0, 512), [0; 512]);
    // The tag is free again.
    let again = ScsiCommand {
        initiator_task_tag: command.initiator_task_tag,
        ..initiator.read_command(0, 1)
    };
    initiator.send(again.encode(), &[]);
    initiator.receive_data_in(again.initiator_task_tag);
}

#[test]
fn a_command_that_waits_for_its_turn_can_be_aborted() {
    let fixture = Fixture::new();
    let mut initiator = fixture.log_in();
    let missing = initiator.read_command(0, 1);
    let early = initiator.write_command(1, 1);
    initiator.send(early.encode(), &[1; 512]);
    let tag = initiator.manage(ABORT_TASK, Some(&early));
    assert_eq!(initiator.expect_managed(tag).response, 0);
    // A command that has not arrived counts as aborted too (11.6.1 b).
    let tag = initiator.manage(ABORT_TASK, Some(&missing));
    assert_eq!(initiator.expect_managed(tag).response, 0);
    initiator.send(missing.encode(), &[]);
    assert_eq!(initiator.read(1, 1), [0; 512]);
    assert_eq!(fixture.device.log.lock().unwrap().len(), 1);
}

#[test]
fn sets_and_units_are_managed_whole() {
    let fixture = Fixture::new();
    let mut initiator = fixture.log_in();
    for function in [ABORT_TASK_SET, LOGICAL_UNIT_RESET, TARGET_WARM_RESET] {
        for _ in 0..3 {
            let command = initiator.command(&[WAIT, 0, 0, 0, 0, 0]);
            initiator.send(command.encode(), &[]);
        }
        let tag = initiator.manage(function, None);
        assert_eq!(initiator.expect_managed(tag).response, 0, "{function}");
        assert_eq!(fixture.device.task_count(), 0);
    }
    for (function, response) in [(CLEAR_ACA, 5), (TASK_REASSIGN, 4), (60, 5)] {
        let tag = initiator.manage(function, None);
        assert_eq!(
            initiator.expect_managed(tag).response,
            response,
            "{function}"
        );
    }
    initiator.ping();
}

#[test]
fn a_cold_reset_is_refused_and_reaches_nobody() {
    let fixture = Fixture::new();
    let mut initiator = fixture.log_in();
    let mut other = Initiator::connect(fixture.address);
    other.isid[5] = 1;
    other.log_in(HOST, TARGET, FAST);
    let command = other.command(&[WAIT, 0, 0, 0, 0, 0]);
    other.send(command.encode(), &[]);
    wait_until("it runs", || fixture.device.task_count() == 1);
    let tag = initiator.manage(TARGET_COLD_RESET, None);
    assert_eq!(initiator.expect_managed(tag).response, 6);
    initiator.ping();
    other.ping();
    assert_eq!(fixture.device.task_count(), 1);
}

/// A write with an R2T for all of its 64 KiB. `send` violates the protocol; `sense` is the expected sense data.
fn broken_write(send: impl FnOnce(&mut Initiator, DataOut), sense: [u8; 3]) {
    let fixture = Fixture::new();
    let mut initiator = fixture.log_in();
    let command = initiator.write_command(0, 128);
    initiator.send(command.encode(), &[]);
    let r2t = initiator.expect_r2t(command.initiator_task_tag);
    let pdu = DataOut {
        r#final: true,
        initiator_task_tag: r2t.initiator_task_tag,
        target_transfer_tag: r2t.target_transfer_tag,
        ..DataOut::default()
    };
    send(&mut initiator, pdu);
    let (response, data) = initiator.expect_response(command.initiator_task_tag);
    assert_eq!(response.status, 2);
    assert_eq!([data[4], data[14], data[15]], sense);
    // The session continues.
    assert_eq!(initiator.read(0, 128), vec![0; 65536]);
}

#[test]
fn a_wrong_data_sn_ends_the_command_after_all_its_data() {
    broken_write(
        |initiator, pdu| {
            let first = DataOut {
                r#final: false,
                data_sn: 1,
                ..pdu
            };
            initiator.send(first.encode(), &[1; 1000]);
            // No response before the sequence has ended.
            initiator.ping();
            let last = DataOut {
                data_sn: 2,
                buffer_offset: 1000,
                ..pdu
            };
            initiator.send(last.encode(), &vec![1; 64536]);
        },
        [0x0b, 0x47, 0x05],
    );
}

#[test]
fn too_little_too_much_and_misplaced_data_end_the_command() {
    let sense = [0x0b, 0x0c, 0x0d];
    broken_write(
        |initiator, pdu| initiator.send(pdu.encode(), &vec![1; 65535]),
        sense,
    );
    broken_write(
        |initiator, pdu| initiator.send(pdu.encode(), &vec![1; 65537]),
        sense,
    );
    broken_write(
        |initiator, pdu| {
            let pdu = DataOut {
                buffer_offset: 4,
                ..pdu
            };
            initiator.send(pdu.encode(), &vec![1; 65532]);
        },
        sense,
    );
}

#[test]
fn unsolicited_data_that_was_not_agreed_on_is_refused() {
    let fixture = Fixture::new();
    let mut initiator = Initiator::connect(fixture.address);
    initiator.log_in(
        HOST,
        TARGET,
        &[("ImmediateData", "No"), ("InitialR2T", "Yes")],
    );
    let command = initiator.write_command(0, 1);
    initiator.send(command.encode(), &[1; 512]);
    let (response, data) = initiator.expect_response(command.initiator_task_tag);
    assert_eq!(
        (response.status, data[4], data[14], data[15]),
        (2, 0x0b, 0x0c, 0x0c)
    );
    let command = ScsiCommand {
        r#final: false,
        ..initiator.write_command(0, 1)
    };
    initiator.send(command.encode(), &[]);
    let pdu = DataOut {
        r#final: true,
        initiator_task_tag: command.initiator_task_tag,
        target_transfer_tag: RESERVED_TAG,
        ..DataOut::default()
    };
    initiator.send(pdu.encode(), &[1; 512]);
    let (response, data) = initiator.expect_response(command.initiator_task_tag);
    assert_eq!(
        (response.status, data[4], data[14], data[15]),
        (2, 0x0b, 0x0c, 0x0c)
    );
    assert_eq!(initiator.read(0, 1), [0; 512]);
    assert_eq!(fixture.device.log.lock().unwrap().len(), 1);
}

#[test]
fn data_with_a_tag_never_given_is_rejected() {
    let fixture = Fixture::new();
    let mut initiator = fixture.log_in();
    let pdu = DataOut {
        r#final: true,
        target_transfer_tag: 99,
        ..DataOut::default()
    };
    initiator.send(pdu.encode(), &[1; 512]);
    assert_eq!(initiator.expect_reject(), 9);
    initiator.ping();
}

#[test]
fn digest_errors_end_the_session() {
    use std::io::Write as _;
    for (at, reject) in [(30, None), (100, Some(2))] {
        let fixture = Fixture::new();
        let mut initiator = Initiator::connect(fixture.address);
        initiator.log_in(
            HOST,
            TARGET,
            &[("HeaderDigest", "CRC32C"), ("DataDigest", "CRC32C")],
        );
        assert_eq!(initiator.read(0, 1), [0; 512]);
        let command = initiator.write_command(0, 1);
        let mut bytes = iscsi::pdu::encode(command.encode(), &[], &[1; 512], initiator.digests);
        bytes[at] ^= 1;
        initiator.stream.write_all(&bytes).unwrap();
        if let Some(reason) = reject {
            assert_eq!(initiator.expect_reject(), reason);
        }
        initiator.expect_closed();
        assert_eq!(fixture.device.bytes(0, 512), [0; 512]);
        wait_until("the session is gone", || {
            fixture.server.sessions().is_empty()
        });
    }
}

#[test]
fn too_long_a_segment_ends_the_session_before_it_is_read() {
    let fixture = Fixture::new();
    let mut initiator = fixture.log_in();
    let mut header = initiator.write_command(0, 1024).encode();
    iscsi::pdu::set_data_segment_length(&mut header, 262_145);
    std::io::Write::write_all(&mut initiator.stream, &header).unwrap();
    initiator.expect_closed();
}

#[test]
fn unsupported_requests_are_rejected() {
    let fixture = Fixture::new();
    let mut initiator = fixture.log_in();
    let mut unknown = NopOut::default().encode();
    unknown[0] = 0x1c;
    initiator.send(unknown, b"vendor data");
    assert_eq!(initiator.expect_reject(), 5);
    initiator.send(SnackRequest::default().encode(), &[]);
    assert_eq!(initiator.expect_reject(), 3);
    let text = TextRequest {
        immediate: true,
        target_transfer_tag: 5,
        cmd_sn: initiator.cmd_sn,
        ..TextRequest::default()
    };
    initiator.send(text.encode(), &[]);
    assert_eq!(initiator.expect_reject(), 9);
    initiator.ping();
}

#[test]
fn logout_ends_running_commands_first() {
    let fixture = Fixture::new();
    let mut initiator = fixture.log_in();
    let command = initiator.command(&[WAIT, 0, 0, 0, 0, 0]);
    initiator.send(command.encode(), &[]);
    // For recovery: not supported, and the session continues.
    let logout = LogoutRequest {
        immediate: true,
        reason: 2,
        initiator_task_tag: 77,
        cid: 1,
        cmd_sn: initiator.cmd_sn,
        ..LogoutRequest::default()
    };
    for (reason, cid, expected) in [(2, 1, 2), (1, 9, 1), (0, 1, 0)] {
        initiator.send(
            LogoutRequest {
                reason,
                cid,
                ..logout
            }
            .encode(),
            &[],
        );
        let TargetPdu::LogoutResponse(response) = initiator.receive().pdu else {
            panic!()
        };
        assert_eq!(
            (response.initiator_task_tag, response.response),
            (77, expected)
        );
    }
    initiator.expect_closed();
    assert_eq!(fixture.device.task_count(), 0);
    assert!(fixture.device.nexuses.lock().unwrap().is_empty());
}

#[test]
fn commands_run_on_while_a_connection_waits_for_its_initiator_to_close() {
    let ends_soon = || {
        let fixture = Fixture::new();
        let mut initiator = fixture.log_in();
        let command = initiator.command(&[HANG, 0, 0, 0, 0, 0]);
        initiator.send(command.encode(), &[]);
        wait_until("it runs", || fixture.device.task_count() == 1);
        let logout = LogoutRequest {
            immediate: true,
            initiator_task_tag: 77,
            cid: 1,
            cmd_sn: initiator.cmd_sn,
            ..LogoutRequest::default()
        };
        initiator.send(logout.encode(), &[]);
        assert!(matches!(
            initiator.receive().pdu,
            TargetPdu::LogoutResponse(_)
        ));
        let began = Instant::now();
        fixture.device.release();
        wait_until("it has ended", || fixture.device.task_count() == 0);
        // The connection waits for a second.
        began.elapsed() < Duration::from_millis(500)
    };
    assert!((0..5).any(|_| ends_soon()));
}

#[test]
fn a_second_login_replaces_the_session() {
    let fixture = Fixture::new();
    let mut old = fixture.log_in();
    let command = old.command(&[WAIT, 0, 0, 0, 0, 0]);
    old.send(command.encode(), &[]);
    old.ping();
    let mut new = fixture.log_in();
    old.expect_closed();
    assert_ne!(old.tsih, new.tsih);
    // The old session's commands had ended before the new login was accepted.
    assert_eq!(fixture.device.task_count(), 0);
    assert_eq!(new.read(0, 1).len(), 512);
    // Another ISID, or another name, is another session.
    let mut third = Initiator::connect(fixture.address);
    third.isid[5] = 9;
    third.log_in(HOST, TARGET, FAST);
    new.ping();
    assert_eq!(fixture.server.sessions().len(), 2);
    // The connection of a session can be replaced too; the TSIH does not change.
    let mut again = Initiator::connect(fixture.address);
    again.tsih = new.tsih;
    again.log_in(HOST, TARGET, FAST);
    assert_eq!(again.tsih, new.tsih);
    new.expect_closed();
    again.ping();
}

#[test]
fn a_login_does_not_wait_for_a_command_that_hangs() {
    let options = ServerOptions {
        max_connections: 1,
        ..ServerOptions::default()
    };
    let fixture = Fixture::with(options, |_| {});
    let mut old = fixture.log_in();
    let command = old.command(&[HANG, 0, 0, 0, 0, 0]);
    old.send(command.encode(), &[]);
    wait_until("it runs", || fixture.device.task_count() == 1);
    // A session that only waits for its command does not count.
    let began = Instant::now();
    let mut new = fixture.log_in();
    assert!(began.elapsed() < Duration::from_secs(30));
    old.expect_closed();
    assert_eq!(new.read(0, 1).len(), 512);
    assert_eq!(fixture.server.sessions().len(), 1);
    assert_eq!(fixture.device.task_count(), 1);
    fixture.device.release();
    wait_until("it has ended", || fixture.device.task_count() == 0);
    new.ping();
}

#[test]
fn a_lost_connection_is_a_lost_nexus() {
    let fixture = Fixture::new();
    let mut initiator = fixture.log_in();
    let command = initiator.command(&[WAIT, 0, 0, 0, 0, 0]);
    initiator.send(command.encode(), &[]);
    let write = initiator.write_command(0, 1024);
    initiator.send(write.encode(), &[]);
    initiator.expect_r2t(write.initiator_task_tag);
    drop(initiator);
    wait_until("tasks and nexus are gone", || {
        fixture.device.task_count() == 0
            && fixture.device.nexuses.lock().unwrap().is_empty()
            && fixture.server.sessions().is_empty()
    });
}

#[test]
fn a_silent_initiator_is_pinged_and_then_dropped() {
    let options = ServerOptions {
        keepalive_interval: Duration::from_secs(3),
        ..ServerOptions::default()
    };
    let fixture = Fixture::with(options, |_| {});
    let mut initiator = fixture.log_in();
    for _ in 0..3 {
        let TargetPdu::NopIn(ping) = initiator.receive().pdu else {
            panic!()
        };
        assert_ne!(ping.target_transfer_tag, RESERVED_TAG);
        let answer = NopOut {
            immediate: true,
            initiator_task_tag: RESERVED_TAG,
            target_transfer_tag: ping.target_transfer_tag,
            cmd_sn: initiator.cmd_sn,
            ..NopOut::default()
        };
        initiator.send(answer.encode(), &[]);
    }
    assert!(matches!(initiator.receive().pdu, TargetPdu::NopIn(_)));
    initiator.expect_closed();
}

#[test]
fn initiators_are_notified_when_their_target_is_removed_or_the_server_stops() {
    let fixture = Fixture::new();
    let mut initiator = fixture.log_in();
    // A change of other settings does not affect the session.
    let mut changed = definition(&fixture.device);
    changed.ports.push(TargetPort {
        portal_group_tag: 70,
        relative_target_port: 70,
    });
    fixture.server.set_targets(vec![changed.clone()]).unwrap();
    initiator.ping();
    changed.access = only("iqn.2001-04.com.example:other");
    fixture.server.set_targets(vec![changed]).unwrap();
    assert!(
        matches!(initiator.receive().pdu, TargetPdu::AsynchronousMessage(message) if message.event == 3)
    );
    initiator.expect_closed();

    fixture
        .server
        .set_targets(vec![definition(&fixture.device)])
        .unwrap();
    let mut initiator = fixture.log_in();
    let command = initiator.command(&[WAIT, 0, 0, 0, 0, 0]);
    initiator.send(command.encode(), &[]);
    initiator.ping();
    assert!(fixture.server.stop());
    assert!(
        matches!(initiator.receive().pdu, TargetPdu::AsynchronousMessage(message) if message.event == 3)
    );
    initiator.expect_closed();
    assert_eq!(fixture.device.task_count(), 0);
    assert!(std::net::TcpStream::connect(fixture.address).is_err());
}

#[test]
fn portals_come_and_go_in_both_families() {
    let fixture = Fixture::new();
    let mut initiator = fixture.log_in();
    let portal = |address: &str| iscsi::Portal {
        address: address.parse().unwrap(),
        group_tag: 7,
        advertised: None,
    };
    let old = fixture.server.portals()[0];
    fixture
        .server
        .set_portals(&[portal("127.0.0.1:0"), portal("[::1]:0")])
        .unwrap();
    let portals = fixture.server.portals();
    assert_eq!(portals.len(), 2);
    // The portal that existed before is unchanged.
    assert_eq!(portals[0], old);
    let mut second = Initiator::connect(portals[1].address);
    second.isid[5] = 2;
    second.log_in(HOST, TARGET, FAST);
    fixture.server.set_portals(&[portal("[::1]:0")]).unwrap();
    wait_until("the first portal is closed", || {
        std::net::TcpStream::connect(old.address).is_err()
    });
    initiator.ping();
    second.ping();
    let taken = iscsi::Portal {
        address: portals[1].address,
        group_tag: 8,
        advertised: None,
    };
    assert!(
        fixture
            .server
            .set_portals(&[portal("[::1]:0"), taken])
            .is_err()
    );
}

#[test]
fn a_refused_portal_names_the_portal_that_has_its_port() {
    let fixture = Fixture::new();
    let portal = |address| iscsi::Portal {
        address,
        group_tag: 7,
        advertised: None,
    };
    let every = portal("0.0.0.0:0".parse().unwrap());
    fixture.server.set_portals(&[every]).unwrap();
    let open = fixture.server.portals()[0].address;
    let second = portal(std::net::SocketAddr::new(
        [127, 0, 0, 1].into(),
        open.port(),
    ));
    let error = fixture.server.set_portals(&[every, second]).unwrap_err();
    let reason = format!("the portal {open} has this port; remove or replace it");
    assert_eq!(
        error.to_string(),
        format!("cannot listen at {}: {reason}", second.address)
    );
    // Another program's portal has no name here.
    let foreign = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = portal(foreign.local_addr().unwrap());
    let error = fixture.server.set_portals(&[every, taken]).unwrap_err();
    assert!(error.to_string().contains("os error"), "{error}");
}

#[test]
fn a_portal_changes_its_group_at_its_address() {
    let fixture = Fixture::new();
    fixture.server.set_portals(&[]).unwrap();
    for round in 0..50 {
        let portal = iscsi::Portal {
            address: fixture.address,
            group_tag: 1 + round % 2,
            advertised: None,
        };
        fixture.server.set_portals(&[portal]).unwrap();
        assert_eq!(fixture.server.portals(), [portal]);
    }
}
