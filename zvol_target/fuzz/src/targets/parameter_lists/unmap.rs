// SPDX-License-Identifier: Apache-2.0
//! A step: disk, number of descriptors, the descriptors, and the changes of the list.

use scsi::sam::Status;

use super::rig::{BLOCK_BYTES, BLOCKS, DISKS, Rig};
use super::tamper;
use crate::input::Input;

pub(super) fn step(rig: &mut Rig, input: &mut Input) {
    let what = input.byte();
    let (disk, count) = (usize::from(what) % DISKS, usize::from(what >> 4));
    let mut ranges = Vec::new();
    let mut descriptors = Vec::new();
    for _ in 0..count {
        let (address, blocks) = (u64::from(input.half() % 600), u32::from(input.byte()));
        ranges.push((address, blocks));
        descriptors.extend(address.to_be_bytes());
        descriptors.extend(blocks.to_be_bytes());
        descriptors.extend([0; 4]);
    }
    let mut list = Vec::new();
    list.extend((descriptors.len() as u16 + 6).to_be_bytes());
    list.extend((descriptors.len() as u16).to_be_bytes());
    list.extend([0; 4]);
    list.extend(descriptors);
    let changed = tamper(&mut list, input);
    let said = match input.byte() {
        0 => list.len() as u16,
        _ => input.half(),
    };
    let mut cdb = [0x42, input.byte() & 1, 0, 0, 0, 0, 0, 0, 0, 0];
    cdb[7..9].copy_from_slice(&said.to_be_bytes());

    let mut expected = rig.contents();
    let answer = rig.execute(0, disk, &cdb, &list);
    let left = rig.contents();
    if answer.status != Status::Good {
        assert_eq!(left, expected, "a refused UNMAP changes nothing");
    } else if !changed && usize::from(said) == list.len() {
        for (address, blocks) in ranges {
            assert!(address + u64::from(blocks) <= BLOCKS, "beyond the end");
            let from = address as usize * BLOCK_BYTES;
            expected[disk][from..from + blocks as usize * BLOCK_BYTES].fill(0);
        }
        assert_eq!(left, expected);
    } else {
        // For every list: other disks do not change, and this one changes only to zeroes.
        for (number, (after, before)) in left.iter().zip(&expected).enumerate() {
            let same =
                |(after, before): (&u8, &u8)| after == before || (number == disk && *after == 0);
            assert!(after.iter().zip(before).all(same));
        }
    }
}
