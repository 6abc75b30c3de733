// SPDX-License-Identifier: Apache-2.0
//! Task management and the order of commands: which commands a function affects, and the meaning of `RefCmdSN` (RFC 7143 11.5,
//! 11.6).

use std::collections::HashSet;
use std::time::{Duration, Instant};

use crate::support::{FAST, Fixture, HOST, Initiator, TARGET, wait_until};
use iscsi::pdu::{RESERVED_TAG, ScsiCommand, TaskManagementRequest};

const WAIT: [u8; 6] = [0xc0, 0, 0, 0, 0, 0];
/// An abort does not end it.
const HANG: [u8; 6] = [0xc1, 0, 0, 0, 0, 0];
const ABORT_TASK: u8 = 1;
const ABORT_TASK_SET: u8 = 2;
const CLEAR_TASK_SET: u8 = 4;
const LOGICAL_UNIT_RESET: u8 = 5;

const FUNCTION_COMPLETE: u8 = 0;
const TASK_DOES_NOT_EXIST: u8 = 1;

#[test]
fn abort_task_set_affects_one_nexus_and_clear_task_set_all() {
    let fixture = Fixture::new();
    let mut initiator = fixture.log_in();
    let mut other = Initiator::connect(fixture.address);
    other.isid[5] = 1;
    other.log_in(HOST, TARGET, FAST);
    let wait = |initiator: &mut Initiator| {
        let command = initiator.command(&WAIT);
        initiator.send(command.encode(), &[]);
    };
    for (function, left) in [(ABORT_TASK_SET, 1), (CLEAR_TASK_SET, 0)] {
        wait(&mut initiator);
        wait(&mut initiator);
        if left == 1 {
            wait(&mut other);
            wait_until("all run", || fixture.device.task_count() == 3);
        }
        let tag = initiator.manage(function, None);
        let response = initiator.expect_managed(tag).response;
        assert_eq!(response, FUNCTION_COMPLETE, "{function}");
        assert_eq!(fixture.device.task_count(), left);
    }
    // The other initiator's window opens; the command gets no other response.
    assert_eq!(other.expect_nop_in().max_cmd_sn, 513);
}

/// ABORT TASK with the given numbers.
fn abort(initiator: &mut Initiator, referenced_task_tag: u32, ref_cmd_sn: u32, cmd_sn: u32) -> u8 {
    let request = TaskManagementRequest {
        immediate: true,
        function: ABORT_TASK,
        initiator_task_tag: initiator.tag(),
        referenced_task_tag,
        ref_cmd_sn,
        cmd_sn,
        ..TaskManagementRequest::default()
    };
    initiator.send(request.encode(), &[]);
    initiator
        .expect_managed(request.initiator_task_tag)
        .response
}

#[test]
fn an_abort_of_an_unknown_task_depends_on_ref_cmd_sn() {
    let fixture = Fixture::new();
    let mut initiator = fixture.log_in();
    let command = initiator.command(&WAIT);
    initiator.send(command.encode(), &[]);
    wait_until("it runs", || fixture.device.task_count() == 1);
    for (ref_cmd_sn, cmd_sn, expected) in [
        // Delivered under another tag, and outside the window.
        (1, 5, TASK_DOES_NOT_EXIST),
        (0, 5, TASK_DOES_NOT_EXIST),
        (2000, 5, TASK_DOES_NOT_EXIST),
        // Not before the request itself: an immediate command that has ended, or was not sent.
        (5, 5, TASK_DOES_NOT_EXIST),
        (6, 5, TASK_DOES_NOT_EXIST),
        // Not arrived yet: counts as received and aborted (11.6.1 b), once.
        (3, 5, FUNCTION_COMPLETE),
        (3, 5, TASK_DOES_NOT_EXIST),
        (2, 5, FUNCTION_COMPLETE),
    ] {
        let response = abort(&mut initiator, 0x9999, ref_cmd_sn, cmd_sn);
        assert_eq!(response, expected, "RefCmdSN {ref_cmd_sn}");
    }
    // 2 and 3 are used up: later commands with these numbers are ignored, and 4 is next.
    for cmd_sn in [2, 3] {
        let late = ScsiCommand {
            cmd_sn,
            ..initiator.read_command(0, 1)
        };
        initiator.send(late.encode(), &[]);
    }
    let next = ScsiCommand {
        cmd_sn: 4,
        ..initiator.read_command(0, 1)
    };
    initiator.send(next.encode(), &[]);
    initiator.receive_data_in(next.initiator_task_tag);
    assert_eq!(fixture.device.log.lock().unwrap().len(), 2);
    // A running task is found by its tag, for any RefCmdSN.
    let response = abort(&mut initiator, command.initiator_task_tag, 77, 5);
    assert_eq!(response, FUNCTION_COMPLETE);
    assert_eq!(fixture.device.task_count(), 0);
}

/// A host that waits too long for a disk aborts all its commands at once.
#[test]
fn every_command_can_be_aborted_at_once() {
    let fixture = Fixture::new();
    let mut initiator = fixture.log_in();
    let commands: Vec<_> = (0..128).map(|_| initiator.command(&HANG)).collect();
    for command in &commands {
        initiator.send(command.encode(), &[]);
    }
    wait_until("all run", || fixture.device.task_count() == commands.len());
    let tags: HashSet<u32> = commands
        .iter()
        .map(|command| initiator.manage(ABORT_TASK, Some(command)))
        .collect();
    let responses: Vec<_> = tags.iter().map(|_| initiator.receive_managed()).collect();
    assert!(
        responses
            .iter()
            .all(|response| response.response == FUNCTION_COMPLETE)
    );
    let managed: HashSet<u32> = responses
        .iter()
        .map(|response| response.initiator_task_tag)
        .collect();
    assert_eq!(managed, tags);
}

#[test]
fn a_function_that_is_not_immediate_waits_for_the_commands_before_it() {
    let fixture = Fixture::new();
    let mut initiator = fixture.log_in();
    let first = initiator.command(&WAIT);
    let second = initiator.command(&WAIT);
    let request = TaskManagementRequest {
        function: ABORT_TASK_SET,
        initiator_task_tag: initiator.tag(),
        referenced_task_tag: RESERVED_TAG,
        cmd_sn: initiator.cmd_sn,
        ..TaskManagementRequest::default()
    };
    initiator.cmd_sn += 1;
    initiator.send(second.encode(), &[]);
    initiator.send(request.encode(), &[]);
    initiator.ping();
    initiator.send(first.encode(), &[]);
    let response = initiator.expect_managed(request.initiator_task_tag);
    assert_eq!(response.response, FUNCTION_COMPLETE);
    assert_eq!((response.exp_cmd_sn, response.max_cmd_sn), (4, 515));
    // The target received both before.
    assert_eq!(fixture.device.log.lock().unwrap().len(), 2);
    initiator.ping();
}

#[test]
fn commands_behind_an_immediate_function_stay() {
    let fixture = Fixture::new();
    let mut initiator = fixture.log_in();
    let missing = initiator.read_command(0, 1);
    let before = initiator.read_command(1, 1);
    let behind = initiator.read_command(2, 1);
    for command in [&before, &behind] {
        initiator.send(command.encode(), &[]);
    }
    let request = TaskManagementRequest {
        immediate: true,
        function: ABORT_TASK_SET,
        initiator_task_tag: initiator.tag(),
        referenced_task_tag: RESERVED_TAG,
        cmd_sn: behind.cmd_sn,
        ..TaskManagementRequest::default()
    };
    initiator.send(request.encode(), &[]);
    let response = initiator.expect_managed(request.initiator_task_tag);
    assert_eq!(response.response, FUNCTION_COMPLETE);
    initiator.send(missing.encode(), &[]);
    initiator.receive_data_in(missing.initiator_task_tag);
    initiator.receive_data_in(behind.initiator_task_tag);
    let log = fixture.device.log.lock().unwrap().clone();
    let blocks: Vec<_> = log.iter().map(|cdb| cdb[5]).collect();
    assert_eq!(blocks, [0, 2]);
}

#[test]
fn a_function_is_answered_though_a_command_hangs() {
    for function in [ABORT_TASK, ABORT_TASK_SET, LOGICAL_UNIT_RESET] {
        let fixture = Fixture::new();
        let mut initiator = fixture.log_in();
        let hanging = initiator.command(&HANG);
        initiator.send(hanging.encode(), &[]);
        wait_until("it runs", || fixture.device.task_count() == 1);
        let began = Instant::now();
        let tag = initiator.manage(function, Some(&hanging));
        let response = initiator.expect_managed(tag);
        assert_eq!(response.response, FUNCTION_COMPLETE);
        assert!(began.elapsed() < Duration::from_secs(30));
        // Its place in the window is free, and so is its tag.
        assert_eq!((response.exp_cmd_sn, response.max_cmd_sn), (2, 513));
        let again = ScsiCommand {
            initiator_task_tag: hanging.initiator_task_tag,
            ..initiator.command(&WAIT)
        };
        initiator.send(again.encode(), &[]);
        wait_until("it runs", || fixture.device.log.lock().unwrap().len() == 2);
        fixture.device.release();
        // One response: that of the second command.
        let (response, _) = initiator.expect_response(again.initiator_task_tag);
        assert_eq!((response.status, response.max_cmd_sn), (0, 514));
        initiator.ping();
    }
}
