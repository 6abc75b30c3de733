// SPDX-License-Identifier: Apache-2.0
//! Short and long commands on one connection.

use std::collections::HashSet;

use crate::support::{FAST, Fixture, HOST, Initiator, MemoryTarget, TARGET, wait_until};
use iscsi::pdu::{TargetPdu, TaskManagementRequest};

const LONG: usize = 1 << 20;

fn read_by(device: &MemoryTarget) -> usize {
    let log = device.log.lock().unwrap();
    log.iter().filter(|cdb| cdb[0] == 0x28).count()
}

/// `count` reads of 1 MiB, within the memory of one connection. They have ended in the target, while almost nothing was read
/// here. Returns their tags.
fn long_reads(fixture: &Fixture, initiator: &mut Initiator, count: usize) -> Vec<u32> {
    let commands: Vec<_> = (0..count)
        .map(|_| initiator.read_command(0, 2048))
        .collect();
    for command in &commands {
        initiator.send(command.encode(), &[]);
    }
    wait_until("the reads have run", || {
        read_by(&fixture.device) == count && fixture.device.task_count() == 0
    });
    commands.iter().map(|c| c.initiator_task_tag).collect()
}

#[test]
fn a_short_read_overtakes_long_ones() {
    const COUNT: usize = 7;
    let fixture = Fixture::new();
    let mut initiator = Initiator::connect_with_small_buffer(fixture.address);
    initiator.log_in(HOST, TARGET, FAST);
    let mut tags = long_reads(&fixture, &mut initiator, COUNT);
    let short = initiator.read_command(0, 8);
    initiator.send(short.encode(), &[]);
    tags.push(short.initiator_task_tag);
    wait_until("the short read has run", || {
        read_by(&fixture.device) == COUNT + 1 && fixture.device.task_count() == 0
    });
    let ended = initiator.receive_all_data_in(&tags);
    assert_eq!(
        ended[0].0, short.initiator_task_tag,
        "the short one ends first"
    );
    assert!(ended[1..].iter().all(|(_, data)| data.len() == LONG));
}

#[test]
fn long_reads_share_the_connection() {
    const COUNT: usize = 7;
    let fixture = Fixture::new();
    let mut initiator = Initiator::connect_with_small_buffer(fixture.address);
    initiator.log_in(HOST, TARGET, FAST);
    let tags = long_reads(&fixture, &mut initiator, COUNT);
    // The first reads can have left before the others ran. Each of the others begins before any of them ends.
    let (mut begun, mut ended) = (HashSet::new(), 0);
    while ended < 3 {
        let received = initiator.receive();
        let TargetPdu::DataIn(pdu) = received.pdu else {
            panic!("{:?}", received.pdu);
        };
        begun.insert(pdu.initiator_task_tag);
        ended += usize::from(pdu.status_present);
    }
    assert_eq!(begun.len(), tags.len());
}

#[test]
fn a_task_management_response_does_not_overtake_the_status_of_an_ended_task() {
    let fixture = Fixture::new();
    let mut initiator = Initiator::connect_with_small_buffer(fixture.address);
    initiator.log_in(HOST, TARGET, FAST);
    let tags = long_reads(&fixture, &mut initiator, 6);
    let request = TaskManagementRequest {
        immediate: true,
        function: 1,
        initiator_task_tag: initiator.tag(),
        referenced_task_tag: tags[5],
        cmd_sn: initiator.cmd_sn,
        ref_cmd_sn: initiator.cmd_sn - 1,
        ..TaskManagementRequest::default()
    };
    initiator.send(request.encode(), &[]);
    let ended = initiator.receive_all_data_in(&tags);
    assert_eq!(ended.len(), tags.len());
    let received = initiator.receive();
    let TargetPdu::TaskManagementResponse(response) = received.pdu else {
        panic!("{:?}", received.pdu);
    };
    assert_eq!(response.response, 1, "the task does not exist any more");
}

#[test]
fn a_short_write_is_solicited_while_long_ones_wait() {
    const COUNT: usize = 12;
    let fixture = Fixture::new();
    let mut initiator = Initiator::connect(fixture.address);
    let keys: Vec<_> = FAST
        .iter()
        .map(|&(key, value)| match key {
            "InitialR2T" => (key, "Yes"),
            "ImmediateData" => (key, "No"),
            _ => (key, value),
        })
        .collect();
    initiator.log_in(HOST, TARGET, &keys);
    for _ in 0..COUNT {
        let command = initiator.write_command(0, 2048);
        initiator.send(command.encode(), &[]);
    }
    let short = initiator.write_command(0, 8);
    initiator.send(short.encode(), &[]);
    let mut solicited = 0;
    loop {
        let received = initiator.receive();
        let TargetPdu::ReadyToTransfer(r2t) = received.pdu else {
            panic!("{:?}", received.pdu);
        };
        if r2t.initiator_task_tag == short.initiator_task_tag {
            break;
        }
        solicited += r2t.desired_data_transfer_length as usize;
    }
    assert!(
        solicited <= 3 * LONG,
        "{solicited} bytes of long writes were requested before"
    );
}
