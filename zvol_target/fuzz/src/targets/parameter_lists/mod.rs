// SPDX-License-Identifier: Apache-2.0
//! Commands with a parameter list: a valid list with any content of its fields, or with changed bytes.
//!
//! Input: a byte whose bit 0 makes the volumes slow, then steps in the format of each target.

mod extended_copy;
mod mode_select;
mod persistent_reserve_out;
mod rig;
mod token;
mod unmap;

use crate::input::Input;
use crate::memory;
use rig::Rig;

/// Most steps of one input.
const MOST_STEPS: usize = 24;
/// Memory limit of an input: the volumes are small, and one command runs at a time.
const LIST_MEMORY: usize = 64 << 20;

fn run(data: &[u8], step: fn(&mut Rig, &mut Input)) {
    memory::bounded(LIST_MEMORY, || {
        let mut input = Input::new(data);
        let mut rig = Rig::new(input.byte() & 1 != 0);
        for _ in 0..MOST_STEPS {
            if input.is_empty() {
                break;
            }
            step(&mut rig, &mut input);
        }
    });
}

/// Changes bytes of a list: a count, then positions and values.
fn tamper(list: &mut Vec<u8>, input: &mut Input) -> bool {
    let count = input.byte() & 7;
    for _ in 0..count {
        let place = usize::from(input.half());
        let value = input.byte();
        match list.len() {
            0 => list.push(value),
            length => list[place % length] = value,
        }
    }
    count > 0
}

/// EXTENDED COPY (LID1): GOOD means that it has copied all segments in order.
pub fn run_extended_copy(data: &[u8]) {
    run(data, extended_copy::step);
}

/// UNMAP: GOOD means that exactly its ranges are zeroes.
pub fn run_unmap(data: &[u8]) {
    run(data, unmap::step);
}

/// PERSISTENT RESERVE OUT: PERSISTENT RESERVE IN returns valid data afterwards, with the key of a successful registration.
pub fn run_persistent_reserve_out(data: &[u8]) {
    run(data, persistent_reserve_out::step);
}

/// MODE SELECT: only changeable bits change, and none if it is refused.
pub fn run_mode_select(data: &[u8]) {
    run(data, mode_select::step);
}

/// POPULATE TOKEN and WRITE USING TOKEN: only created tokens are accepted, with the data at their creation.
pub fn run_token(data: &[u8]) {
    run(data, token::step);
}
