// SPDX-License-Identifier: Apache-2.0
//! Commands with a parameter list: each list well-formed, with any content of its fields, or with bytes of it changed.
//!
//! Input: a byte of which bit 0 says whether the volumes are slow, and steps, which each target takes apart by itself.

mod extended_copy;
mod mode_select;
mod persistent_reserve_out;
mod rig;
mod token;
mod unmap;

use crate::input::Input;
use crate::memory;
use rig::Rig;

/// Steps of one input.
const MOST_STEPS: usize = 24;
/// What an input may hold: the volumes are small, and one command runs at a time.
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

/// Changes bytes of a list: a count, and as many places and values.
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

/// EXTENDED COPY (LID1): what ends with GOOD has copied what it says, in order.
pub fn run_extended_copy(data: &[u8]) {
    run(data, extended_copy::step);
}

/// UNMAP: what ends with GOOD has made zeroes of its ranges, and of nothing else.
pub fn run_unmap(data: &[u8]) {
    run(data, unmap::step);
}

/// PERSISTENT RESERVE OUT: what PERSISTENT RESERVE IN says afterwards is well-formed, and has the key of whom it let register.
pub fn run_persistent_reserve_out(data: &[u8]) {
    run(data, persistent_reserve_out::step);
}

/// MODE SELECT: only what is changeable changes, and nothing when it is refused.
pub fn run_mode_select(data: &[u8]) {
    run(data, mode_select::step);
}

/// POPULATE TOKEN and WRITE USING TOKEN: only tokens that were given out, for what they stood for then.
pub fn run_token(data: &[u8]) {
    run(data, token::step);
}
