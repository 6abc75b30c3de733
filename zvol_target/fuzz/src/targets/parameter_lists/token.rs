// SPDX-License-Identifier: Apache-2.0
//! A step: host and disk, and one of: create a token; write with a created or changed token; write to a disk.

use scsi::sam::Status;

use super::rig::{BLOCK_BYTES, BLOCKS, DISKS, Rig};
use super::tamper;
use crate::input::Input;

const TOKEN_BYTES: usize = 512;
const POPULATE_TOKEN: u8 = 0x10;
const WRITE_USING_TOKEN: u8 = 0x11;
const RECEIVE_ROD_TOKEN_INFORMATION: u8 = 0x07;

pub(super) fn step(rig: &mut Rig, input: &mut Input) {
    let what = input.byte();
    let (disk, host) = (usize::from(what) % DISKS, usize::from((what >> 2) & 1));
    match (what >> 3) & 3 {
        0 | 1 => populate(rig, input, host, disk),
        2 => write(rig, input, host, disk),
        _ => {
            // WRITE(10) of a block: cancels the tokens for it.
            let address = input.byte();
            let cdb = [0x2a, 0, 0, 0, 0, address, 0, 0, 1, 0];
            rig.execute(host, disk, &cdb, &[input.byte(); BLOCK_BYTES]);
        }
    }
}

/// Block device range descriptors (SBC-4 5.21.3), and their ranges.
fn ranges(input: &mut Input) -> (Vec<u8>, Vec<(usize, usize)>) {
    let (mut descriptors, mut named) = (Vec::new(), Vec::new());
    for _ in 0..input.byte() & 3 {
        let (address, blocks) = (u64::from(input.half() % 600), u32::from(input.byte()));
        descriptors.extend(address.to_be_bytes());
        descriptors.extend(blocks.to_be_bytes());
        descriptors.extend([0; 4]);
        // A descriptor of zero blocks has no range.
        if blocks > 0 {
            named.push((address as usize, blocks as usize));
        }
    }
    (descriptors, named)
}

fn third_party(code: u8, service_action: u8, at: usize, identifier: u8, length: usize) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = code;
    cdb[1] = service_action;
    cdb[at + 3] = identifier;
    cdb[10..14].copy_from_slice(&(length as u32).to_be_bytes());
    cdb
}

fn content_of(disk: &[u8], ranges: &[(usize, usize)]) -> Vec<u8> {
    let bytes = |&(address, blocks): &(usize, usize)| {
        address * BLOCK_BYTES..(address + blocks) * BLOCK_BYTES
    };
    ranges
        .iter()
        .flat_map(|range| disk[bytes(range)].iter().copied())
        .collect()
}

fn populate(rig: &mut Rig, input: &mut Input, host: usize, disk: usize) {
    let (identifier, flags, timeout) = (input.byte() & 3, input.byte() & 1, input.byte());
    let (descriptors, named) = ranges(input);
    let mut list = vec![0, 0, flags, 0, 0, 0, 0, timeout, 0, 0, 0, 0, 0, 0];
    list.extend((descriptors.len() as u16).to_be_bytes());
    list.extend(descriptors);
    let length = list.len() as u16 - 2;
    list[..2].copy_from_slice(&length.to_be_bytes());
    let changed = tamper(&mut list, input);
    let cdb = third_party(0x83, POPULATE_TOKEN, 6, identifier, list.len());
    let held = rig.contents();
    let answer = rig.execute(host, disk, &cdb, &list);
    assert!(rig.contents() == held, "creating a token changed a disk");
    let cdb = third_party(0x84, RECEIVE_ROD_TOKEN_INFORMATION, 2, identifier, 4096);
    let reported = rig.execute(host, disk, &cdb, &[]);
    if answer.status != Status::Good || reported.status != Status::Good || changed {
        return;
    }
    let data = reported.data;
    let descriptors = 32 + usize::from(data[13]);
    let Some(length) = data.get(descriptors..descriptors + 4) else {
        return;
    };
    if u32::from_be_bytes(length.try_into().expect("four bytes")) as usize == TOKEN_BYTES + 2 {
        let end = named.iter().map(|(address, blocks)| address + blocks).max();
        assert!(
            end.unwrap_or(0) as u64 <= BLOCKS,
            "a token for blocks beyond the end"
        );
        let token = data[descriptors + 6..descriptors + 6 + TOKEN_BYTES].to_vec();
        rig.tokens.push((token, content_of(&held[disk], &named)));
    }
}

fn write(rig: &mut Rig, input: &mut Input, host: usize, disk: usize) {
    let (identifier, which, flags) = (
        input.byte() & 3,
        usize::from(input.byte()),
        input.byte() & 3,
    );
    let offset = usize::from(input.byte());
    let (mut token, stood_for) = match rig.tokens.len() {
        0 => (vec![0; TOKEN_BYTES], Vec::new()),
        count => rig.tokens[which % count].clone(),
    };
    let forged = tamper(&mut token, input) && !rig.tokens.iter().any(|(known, _)| *known == token);
    let (descriptors, named) = ranges(input);
    let mut list = vec![0, 0, flags, 0, 0, 0, 0, 0];
    list.extend((offset as u64).to_be_bytes());
    list.extend(&token);
    list.extend([0; 6]);
    list.extend((descriptors.len() as u16).to_be_bytes());
    list.extend(descriptors);
    let length = list.len() as u16 - 2;
    list[..2].copy_from_slice(&length.to_be_bytes());
    let cdb = third_party(0x83, WRITE_USING_TOKEN, 6, identifier, list.len());
    let mut expected = rig.contents();
    let answer = rig.execute(host, disk, &cdb, &list);
    if answer.status != Status::Good {
        return;
    }
    let blocks: usize = named.iter().map(|(_, blocks)| blocks).sum();
    assert!(
        blocks == 0 || (!forged && !rig.tokens.is_empty()),
        "a forged token is accepted"
    );
    // Ranges beyond the token's data are not written (residual data).
    let from = (offset * BLOCK_BYTES).min(stood_for.len());
    let mut source = stood_for[from..].iter().copied();
    for (address, blocks) in named {
        assert!((address + blocks) as u64 <= BLOCKS, "beyond the end");
        let range = address * BLOCK_BYTES..(address + blocks) * BLOCK_BYTES;
        for (to, byte) in expected[disk][range].iter_mut().zip(source.by_ref()) {
            *to = byte;
        }
    }
    assert!(rig.contents() == expected, "not the data of the token");
}
