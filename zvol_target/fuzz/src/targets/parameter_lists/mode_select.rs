// SPDX-License-Identifier: Apache-2.0
//! A step: host and disk, the MODE SELECT, the MODE SENSE pages of the list, and the changes of the list.

use scsi::sam::Status;

use super::rig::{DISKS, Rig};
use super::tamper;
use crate::input::Input;

const ALL_PAGES: u8 = 0x3f;
const CURRENT: u8 = 0;
const CHANGEABLE: u8 = 1;
/// DBD: no block descriptors.
const NO_BLOCK_DESCRIPTORS: u8 = 0x08;

pub(super) fn step(rig: &mut Rig, input: &mut Input) {
    let what = input.byte();
    let (disk, host, ten) = (
        usize::from(what) % DISKS,
        usize::from((what >> 2) & 1),
        what & 8 != 0,
    );
    let before = sense(rig, disk, ten, CURRENT, ALL_PAGES);
    let changeable = sense(rig, disk, ten, CHANGEABLE, ALL_PAGES);
    assert_eq!(before.len(), changeable.len());

    let pages = if what & 16 != 0 {
        ALL_PAGES
    } else {
        input.byte() & 0x3f
    };
    let mut list = sense(rig, disk, ten, CURRENT, pages);
    // The length of mode data is reserved in MODE SELECT (SPC-5 7.5.5).
    let length_bytes = if ten { 2 } else { 1 };
    if list.len() > length_bytes {
        list[..length_bytes].fill(0);
    }
    tamper(&mut list, input);
    let said = match input.byte() {
        0 => list.len() as u16,
        _ => input.half(),
    };
    let flags = 0x10 | (input.byte() & 1);
    let cdb = if ten {
        let [high, low] = said.to_be_bytes();
        vec![0x55, flags, 0, 0, 0, 0, 0, high, low, 0]
    } else {
        vec![0x15, flags, 0, 0, said.min(255) as u8, 0]
    };
    let answer = rig.execute(host, disk, &cdb, &list);

    let after = sense(rig, disk, ten, CURRENT, ALL_PAGES);
    assert_eq!(after.len(), before.len());
    if answer.status != Status::Good {
        assert_eq!(after, before, "a refused MODE SELECT changes nothing");
    }
    // The header has properties of the LUN, not its settings.
    let header = if ten { 8 } else { 4 };
    for at in header..after.len() {
        assert_eq!(
            (after[at] ^ before[at]) & !changeable[at],
            0,
            "byte {at} is not changeable"
        );
    }
}

/// MODE SENSE: header and pages; empty if the page does not exist.
fn sense(rig: &mut Rig, disk: usize, ten: bool, control: u8, page: u8) -> Vec<u8> {
    let page = (control << 6) | page;
    let cdb = if ten {
        vec![0x5a, NO_BLOCK_DESCRIPTORS, page, 0, 0, 0, 0, 0xff, 0xff, 0]
    } else {
        vec![0x1a, NO_BLOCK_DESCRIPTORS, page, 0, 0xff, 0]
    };
    // Host 0 gets a unit attention if host 1 changed something.
    for _ in 0..2 {
        let answer = rig.execute(0, disk, &cdb, &[]);
        if answer.status == Status::Good {
            return answer.data;
        }
    }
    assert_ne!(page & 0x3f, ALL_PAGES, "MODE SENSE of all pages is refused");
    Vec::new()
}
