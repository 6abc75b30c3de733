// SPDX-License-Identifier: Apache-2.0
//! Seeds for [`crate::targets::parameter_lists`]: a byte for the volumes, and the steps of each target.

use super::Seeds;

/// No byte and no length of a list is changed.
const AS_IT_IS: [u8; 2] = [0, 0];

fn input(slow: bool, steps: &[&[u8]]) -> Vec<u8> {
    [&[u8::from(slow)], steps.concat().as_slice()].concat()
}

/// For `extended_copy`.
pub fn extended_copy() -> Seeds {
    let copy = |what: u8, flags: u8, cscds: &[u8], segments: &[&[u8]]| {
        let counts = (cscds.len() as u8) | ((segments.len() as u8) << 3);
        let mut bytes = vec![what, 1, flags, counts];
        bytes.extend(cscds);
        bytes.extend(segments.concat());
        bytes.extend([0, 0, 0]);
        bytes
    };
    let operating_parameters = [0x80, 3, 0, 1, 0];
    let status = [0x80, 0, 1, 1, 0];
    // Source and destination, blocks, addresses.
    let segment: &[u8] = &[0x10, 16, 0, 8, 1, 64];
    let inside: &[u8] = &[0x00, 32, 0, 0, 0, 16];
    vec![
        (
            "between_luns",
            input(false, &[&copy(1, 0x18, &[0, 1], &[segment])]),
        ),
        (
            "between_devices",
            input(true, &[&copy(6, 0x10, &[0, 2], &[segment, segment])]),
        ),
        (
            "inside_and_overlapping",
            input(false, &[&copy(0, 0x00, &[0], &[inside]), &status]),
        ),
        (
            "operating_parameters",
            input(false, &[&operating_parameters]),
        ),
        (
            "unknown",
            input(false, &[&copy(0, 0x18, &[0, 0x81], &[segment])]),
        ),
        (
            "held",
            input(
                true,
                &[&copy(0, 0x00, &[3, 0], &[segment]), &status, &status],
            ),
        ),
    ]
}

/// For `unmap`.
pub fn unmap() -> Seeds {
    let unmap = |disk: u8, ranges: &[[u8; 3]]| {
        let mut bytes = vec![disk | ((ranges.len() as u8) << 4)];
        bytes.extend(ranges.concat());
        bytes.extend(AS_IT_IS);
        bytes.push(0);
        bytes
    };
    vec![
        ("one", input(false, &[&unmap(0, &[[0, 32, 32]])])),
        (
            "edges",
            input(true, &[&unmap(1, &[[0, 5, 60], [1, 0, 1], [0, 0, 0]])]),
        ),
        (
            "overlapping",
            input(false, &[&unmap(2, &[[0, 0, 64], [0, 32, 64]])]),
        ),
        ("none", input(false, &[&unmap(0, &[])])),
        (
            "beyond_the_end",
            input(false, &[&unmap(0, &[[1, 255, 255]])]),
        ),
    ]
}

/// For `persistent_reserve_out`.
pub fn persistent_reserve_out() -> Seeds {
    let first = |service_action: u8, kind: u8, keys: u8| {
        [&[0, service_action, kind, keys, 1], AS_IT_IS.as_slice()].concat()
    };
    let other = |service_action: u8, kind: u8, keys: u8| {
        [&[4, service_action, kind, keys, 0], AS_IT_IS.as_slice()].concat()
    };
    let register = [first(0, 0, 0x10), other(6, 0, 0x20)].concat();
    let mut seeds = vec![
        ("register", input(false, &[&register, &first(0, 0, 1)])),
        (
            "release",
            input(false, &[&register, &first(1, 5, 1), &first(2, 5, 1)]),
        ),
        (
            "clear",
            input(false, &[&register, &first(1, 1, 1), &other(3, 0, 2)]),
        ),
        (
            "preempt",
            input(false, &[&register, &first(1, 6, 1), &other(4, 6, 0x12)]),
        ),
        (
            "preempt_and_abort",
            input(false, &[&register, &first(1, 3, 1), &other(5, 3, 0x12)]),
        ),
    ];
    for (name, kind) in [("all_registrants_write", 7), ("all_registrants", 8)] {
        seeds.push((
            name,
            input(false, &[&register, &first(1, kind, 1), &first(0, 0, 1)]),
        ));
    }
    seeds
}

/// For `mode_select`.
pub fn mode_select() -> Seeds {
    let caching = |bits: u8| [&[bits, 0x08], AS_IT_IS.as_slice(), &[0]].concat();
    let control_changed =
        |bits: u8, place: u8, value: u8| vec![bits, 0x0a, 1, 0, place, value, 0, 0];
    vec![
        ("all_pages", input(false, &[&[16, 0, 0, 0], &[24, 0, 0, 0]])),
        ("caching", input(false, &[&caching(0), &caching(8)])),
        (
            "control",
            input(
                false,
                &[&control_changed(0, 6, 4), &control_changed(8, 10, 4)],
            ),
        ),
        ("write_cache", input(false, &[&[0, 0x08, 1, 0, 6, 4, 0, 0]])),
    ]
}

/// For `token`.
pub fn token() -> Seeds {
    let populate = |what: u8, ranges: &[[u8; 3]]| {
        let mut bytes = vec![what, 1, 0, 60, ranges.len() as u8];
        bytes.extend(ranges.concat());
        bytes.push(0);
        bytes
    };
    let write = |what: u8, offset: u8, ranges: &[[u8; 3]]| {
        let mut bytes = vec![what | 0x10, 2, 0, 0, offset, 0, ranges.len() as u8];
        bytes.extend(ranges.concat());
        bytes
    };
    let forged = [0x10, 2, 0, 0, 0, 1, 0, 200, 7, 1, 0, 0, 8];
    let change = [0x18, 33, 9];
    let made = populate(0, &[[0, 32, 32]]);
    vec![
        ("copy", input(false, &[&made, &write(1, 0, &[[1, 0, 32]])])),
        (
            "other_device",
            input(true, &[&made, &write(6, 8, &[[1, 0, 8], [0, 1, 3]])]),
        ),
        ("forged", input(false, &[&made, &forged])),
        (
            "void",
            input(false, &[&made, &change, &write(0, 0, &[[1, 0, 32]])]),
        ),
        (
            "scattered",
            input(
                false,
                &[
                    &populate(0, &[[0, 0, 3], [0, 100, 5]]),
                    &write(1, 2, &[[1, 0, 4]]),
                ],
            ),
        ),
    ]
}
