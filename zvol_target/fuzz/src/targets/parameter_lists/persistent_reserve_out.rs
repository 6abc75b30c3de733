// SPDX-License-Identifier: Apache-2.0
//! A step: host and disk, service action, scope and type, keys, flags, and the changes of the list.

use scsi::sam::Status;

use super::rig::{DISKS, Rig};
use super::tamper;
use crate::input::Input;

const REGISTER: u8 = 0x00;
const REGISTER_AND_IGNORE_EXISTING_KEY: u8 = 0x06;
/// Bytes of the basic parameter list.
const BASIC_BYTES: usize = 24;
/// More than the conditions that changes of reservations establish.
const MOST_UNIT_ATTENTIONS: usize = 4;
/// More than two hosts with two ports each have.
const MOST_REGISTRATIONS: usize = 8;

pub(super) fn step(rig: &mut Rig, input: &mut Input) {
    let what = input.byte();
    let (disk, host) = (usize::from(what) % DISKS, usize::from((what >> 2) & 1));
    let service_action = input.byte() & 0x1f;
    let scope_and_type = input.byte();
    // Few keys, so that they often match.
    let keys = input.byte();
    let (key, action_key) = (u64::from(keys & 7), u64::from((keys >> 4) & 7));
    let flags = input.byte();
    let mut list = Vec::new();
    list.extend(key.to_be_bytes());
    list.extend(action_key.to_be_bytes());
    list.extend([0, 0, 0, 0, flags, 0, 0, 0]);
    let changed = tamper(&mut list, input);
    let said = match input.byte() {
        0 => list.len() as u32,
        _ => u32::from(input.half()),
    };
    let mut cdb = [0x5f, service_action, scope_and_type, 0, 0, 0, 0, 0, 0, 0];
    cdb[5..9].copy_from_slice(&said.to_be_bytes());
    let answer = rig.execute(host, disk, &cdb, &list);

    let keys = keys_of(rig, host, disk);
    let registers = matches!(service_action, REGISTER | REGISTER_AND_IGNORE_EXISTING_KEY);
    if answer.status == Status::Good
        && registers
        && !changed
        && list.len() == BASIC_BYTES
        && action_key != 0
    {
        assert!(keys.contains(&action_key), "GOOD, but not registered");
    }
    well_formed(rig, host, disk);
}

fn persistent_reserve_in(rig: &mut Rig, host: usize, disk: usize, service_action: u8) -> Vec<u8> {
    let cdb = [0x5e, service_action, 0, 0, 0, 0, 0, 0xff, 0xff, 0];
    let mut answer = rig.execute(host, disk, &cdb, &[]);
    // The host's earlier steps on this disk, and the other host's, may have left several.
    for _ in 0..MOST_UNIT_ATTENTIONS {
        if !answer.unit_attention {
            break;
        }
        answer = rig.execute(host, disk, &cdb, &[]);
    }
    assert_eq!(
        answer.status,
        Status::Good,
        "PERSISTENT RESERVE IN {service_action}"
    );
    answer.data
}

/// READ KEYS.
fn keys_of(rig: &mut Rig, host: usize, disk: usize) -> Vec<u64> {
    let data = persistent_reserve_in(rig, host, disk, 0);
    let length = u32::from_be_bytes(data[4..8].try_into().expect("four bytes")) as usize;
    assert!(length % 8 == 0 && length / 8 <= MOST_REGISTRATIONS && data.len() == 8 + length);
    data[8..]
        .chunks(8)
        .map(|key| u64::from_be_bytes(key.try_into().expect("eight bytes")))
        .collect()
}

/// Checks the format of READ RESERVATION, REPORT CAPABILITIES and READ FULL STATUS.
fn well_formed(rig: &mut Rig, host: usize, disk: usize) {
    let reservation = persistent_reserve_in(rig, host, disk, 1);
    assert!(matches!(reservation.len(), 8 | 24));
    assert_eq!(persistent_reserve_in(rig, host, disk, 2).len(), 8);
    let full = persistent_reserve_in(rig, host, disk, 3);
    let length = u32::from_be_bytes(full[4..8].try_into().expect("four bytes")) as usize;
    assert_eq!(full.len(), 8 + length);
    let (mut at, mut holders) = (8, 0);
    while at < full.len() {
        holders += usize::from(full[at + 12] & 1);
        let additional = u32::from_be_bytes(full[at + 20..at + 24].try_into().expect("four bytes"));
        at += 24 + additional as usize;
    }
    assert_eq!(at, full.len());
    assert!(
        reservation.len() == 24 || holders == 0,
        "a holder without a reservation"
    );
    assert!(
        reservation.len() == 8 || holders > 0,
        "a reservation without a holder"
    );
}
