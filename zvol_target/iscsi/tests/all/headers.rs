// SPDX-License-Identifier: Apache-2.0
//! Fields of PDUs: sequence numbers, additional headers, residuals, pings.

use std::io::Write as _;

use crate::support::{Fixture, HOST, Initiator, TARGET};
use iscsi::pdu::{self, LogoutRequest, NopOut, RESERVED_TAG, ScsiCommand, TargetPdu};

const WAIT: u8 = 0xc0;

/// Sends a PDU with additional header segments.
fn send_with(initiator: &mut Initiator, header: pdu::Header, additional: &[u8]) {
    let bytes = pdu::encode(header, additional, &[], initiator.digests);
    initiator.stream.write_all(&bytes).unwrap();
}

#[test]
fn additional_headers_of_a_command_are_passed_over_and_others_end_the_session() {
    // An extended CDB of four bytes.
    let additional = [0, 5, 1, 0, 1, 2, 3, 4];
    for digest in ["None", "CRC32C"] {
        let fixture = Fixture::new();
        let mut initiator = Initiator::connect(fixture.address);
        initiator.log_in(HOST, TARGET, &[("HeaderDigest", digest)]);
        let command = initiator.command(&[0x7f]);
        send_with(&mut initiator, command.encode(), &additional);
        // INVALID COMMAND OPERATION CODE
        let (response, sense) = initiator.expect_response(command.initiator_task_tag);
        assert_eq!((response.status, sense[14]), (2, 0x20));
        let ping = NopOut {
            immediate: true,
            initiator_task_tag: 1,
            target_transfer_tag: RESERVED_TAG,
            ..NopOut::default()
        };
        send_with(&mut initiator, ping.encode(), &additional);
        initiator.expect_closed();
    }
}

#[test]
fn stat_sn_counts_responses() {
    let fixture = Fixture::new();
    let mut initiator = fixture.log_in();
    let mut expected = None;
    let mut count = |stat_sn: u32, used: bool| {
        assert_eq!(*expected.get_or_insert(stat_sn), stat_sn);
        expected = Some(stat_sn.wrapping_add(u32::from(used)));
    };
    for _ in 0..3 {
        let command = initiator.command(&[0; 6]);
        initiator.send(command.encode(), &[]);
        count(
            initiator
                .expect_response(command.initiator_task_tag)
                .0
                .stat_sn,
            true,
        );
        let command = initiator.read_command(0, 1024);
        initiator.send(command.encode(), &[]);
        // Of several PDUs, only the one with the status has one.
        let pdus = initiator.receive_data_in(command.initiator_task_tag).1;
        assert!(pdus.len() > 1);
        count(pdus.last().unwrap().stat_sn, true);
        let command = initiator.write_command(0, 8);
        initiator.send(command.encode(), &[]);
        let r2t = initiator.expect_r2t(command.initiator_task_tag);
        count(r2t.stat_sn, false);
        initiator.satisfy(&r2t, &[1; 4096], 0, 4096);
        count(
            initiator
                .expect_response(command.initiator_task_tag)
                .0
                .stat_sn,
            true,
        );
        let tag = initiator.manage(5, None);
        count(initiator.expect_managed(tag).stat_sn, true);
    }
}

#[test]
fn a_ping_is_echoed_up_to_the_initiators_limit() {
    let fixture = Fixture::new();
    let mut initiator = Initiator::connect(fixture.address);
    initiator.log_in(HOST, TARGET, &[("MaxRecvDataSegmentLength", "512")]);
    let ping = NopOut {
        initiator_task_tag: 3,
        target_transfer_tag: RESERVED_TAG,
        lun: [0, 1, 0, 0, 0, 0, 0, 0],
        cmd_sn: initiator.cmd_sn,
        ..NopOut::default()
    };
    let data: Vec<u8> = (0..=255).cycle().take(2000).collect();
    initiator.send(ping.encode(), &data);
    let answer = initiator.receive();
    let TargetPdu::NopIn(echo) = answer.pdu else {
        panic!("{answer:?}");
    };
    assert_eq!(answer.data, data[..512]);
    // It was not immediate, so it used its CmdSN.
    assert_eq!(
        (
            echo.initiator_task_tag,
            echo.target_transfer_tag,
            echo.exp_cmd_sn,
            echo.lun
        ),
        (3, RESERVED_TAG, ping.cmd_sn + 1, ping.lun)
    );
}

/// As many as other commands: a host can abort all of those at once.
const IMMEDIATE_MAX: u32 = 512;

#[test]
fn immediate_commands_are_bounded() {
    let fixture = Fixture::new();
    let mut initiator = fixture.log_in();
    for number in 0..=IMMEDIATE_MAX {
        let command = ScsiCommand {
            immediate: true,
            r#final: true,
            initiator_task_tag: number,
            cmd_sn: initiator.cmd_sn,
            cdb: [WAIT; 16],
            ..ScsiCommand::default()
        };
        initiator.send(command.encode(), &[]);
    }
    assert_eq!(initiator.expect_reject(), 6);
    assert_eq!(fixture.device.task_count(), IMMEDIATE_MAX as usize);
    fixture.device.release();
    for _ in 0..IMMEDIATE_MAX {
        let TargetPdu::ScsiResponse(response) = initiator.receive().pdu else {
            panic!("no response");
        };
        // None of them moved the window.
        assert_eq!((response.exp_cmd_sn, response.max_cmd_sn), (1, 512));
    }
    initiator.ping();
}

#[test]
fn a_logout_for_an_unknown_reason_is_rejected() {
    let fixture = Fixture::new();
    let mut initiator = fixture.log_in();
    let logout = LogoutRequest {
        immediate: true,
        reason: 3,
        initiator_task_tag: 5,
        cid: 1,
        cmd_sn: initiator.cmd_sn,
        ..LogoutRequest::default()
    };
    initiator.send(logout.encode(), &[]);
    assert_eq!(initiator.expect_reject(), 9);
    initiator.ping();
}
