// SPDX-License-Identifier: Apache-2.0
//! EXTENDED COPY and the commands that query copies.

mod access;
mod operating_parameters;
mod operations;
mod segments;

use std::sync::Arc;

use super::{
    BLOCKS, Initiator, RamVolume, Sent, TEST_UNIT_READY, Task, block_on, options, poll, product,
};
use crate::address::logical_unit_number;
use crate::sam::{Completion, Status};
use crate::{Device, LogicalUnit, LogicalUnitAccess, LogicalUnitOptions};
use volume::Volume;

const COPY_ABORTED: u8 = 0x0a;

/// CDB with a parameter list of this length.
fn extended_copy(length: usize) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = 0x83;
    cdb[10..14].copy_from_slice(&(length as u32).to_be_bytes());
    cdb
}

fn receive(service_action: u8, list_identifier: u8) -> [u8; 16] {
    [
        0x84,
        service_action,
        list_identifier,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        4,
        0,
        0,
        0,
    ]
}

fn receive_lid4(list_identifier: u32) -> [u8; 16] {
    let mut cdb = receive(0x05, 0);
    cdb[2..6].copy_from_slice(&list_identifier.to_be_bytes());
    cdb
}

fn copy_operation_abort(list_identifier: u32) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[..2].copy_from_slice(&[0x83, 0x1c]);
    cdb[2..6].copy_from_slice(&list_identifier.to_be_bytes());
    cdb
}

/// Source and destination by index, number of blocks, both addresses.
#[derive(Clone, Copy)]
struct Segment(u16, u16, u16, u64, u64);

/// A parameter list: names of logical units, and segments.
fn parameter_list(
    list_identifier: u8,
    usage: u8,
    units: &[[u8; 16]],
    segments: &[Segment],
) -> Vec<u8> {
    let mut list = vec![list_identifier, usage << 3, 0, 32 * units.len() as u8];
    list.extend_from_slice(&[0; 4]);
    list.extend_from_slice(&(28 * segments.len() as u32).to_be_bytes());
    list.extend_from_slice(&[0; 4]);
    for naa in units {
        list.extend_from_slice(&[0xe4, 0, 0, 0, 1, 3, 0, 16]);
        list.extend_from_slice(naa);
        list.extend_from_slice(&[0; 8]);
    }
    for Segment(source, destination, blocks, from, to) in segments {
        list.extend_from_slice(&[0x02, 0, 0, 0x18]);
        list.extend_from_slice(&source.to_be_bytes());
        list.extend_from_slice(&destination.to_be_bytes());
        list.extend_from_slice(&[0, 0]);
        list.extend_from_slice(&blocks.to_be_bytes());
        list.extend_from_slice(&from.to_be_bytes());
        list.extend_from_slice(&to.to_be_bytes());
    }
    list
}

/// Without a list identifier.
fn anonymous(units: &[[u8; 16]], segments: &[Segment]) -> Vec<u8> {
    parameter_list(0, 0b11, units, segments)
}

fn send(initiator: &Initiator, list: &[u8]) -> Completion {
    initiator.run_with(&extended_copy(list.len()), Sent::boxed(list))
}

fn copy(initiator: &Initiator, list: &[u8]) {
    initiator.send(&extended_copy(list.len()), list);
}

fn codes(completion: &Completion) -> (u8, u8, u8) {
    assert_eq!(completion.status, Status::CheckCondition);
    let sense = &completion.sense;
    (sense[2] & 0x0f, sense[12], sense[13])
}

/// A unit whose UUID consists of this byte, with changed options.
fn unit_with(
    volume: &Arc<RamVolume>,
    uuid: u8,
    change: impl FnOnce(&mut LogicalUnitOptions),
) -> LogicalUnit {
    let mut options = LogicalUnitOptions {
        uuid: [uuid; 16],
        ..options()
    };
    change(&mut options);
    let volume: Arc<dyn Volume> = Arc::clone(volume) as _;
    LogicalUnit::new(volume, options).unwrap()
}

fn unit(volume: &Arc<RamVolume>, uuid: u8) -> LogicalUnit {
    unit_with(volume, uuid, |_| {})
}

fn naa(uuid: u8) -> [u8; 16] {
    crate::identity::naa([uuid; 16])
}

/// An initiator of a device with units 0 (UUID 1) and 1 (UUID 2), with their volumes.
struct Pair {
    volumes: [Arc<RamVolume>; 2],
    initiator: Initiator,
}

const UNITS: [u8; 2] = [1, 2];

fn pair_on(volumes: [Arc<RamVolume>; 2]) -> Pair {
    let device = Arc::new(Device::new(product()));
    for (number, (volume, uuid)) in volumes.iter().zip(UNITS).enumerate() {
        let unit = unit(volume, uuid);
        device
            .insert_logical_unit(number as u16, unit, LogicalUnitAccess::Any)
            .unwrap();
    }
    let initiator = Initiator::of(device);
    while initiator
        .to(logical_unit_number(1))
        .run(&TEST_UNIT_READY)
        .status
        != Status::Good
    {}
    Pair { volumes, initiator }
}

fn pair() -> Pair {
    pair_on([RamVolume::new(BLOCKS), RamVolume::new(BLOCKS)])
}

fn names() -> [[u8; 16]; 2] {
    UNITS.map(naa)
}

fn fill(volume: &RamVolume, offset: u64, data: &[u8]) {
    block_on(volume.write(
        offset,
        volume::Buffer::from(data),
        volume::Stability::Stable,
    ))
    .unwrap();
}

/// Runs the task until the volume has an operation of it.
fn begin(task: &mut Task, volume: &RamVolume) {
    while volume.begun() == 0 {
        assert!(poll(task).is_pending());
    }
    block_on(volume.wait_for_operation());
}
