// SPDX-License-Identifier: Apache-2.0
//! Reported capabilities of third-party copy.

use super::super::{INVALID_FIELD_IN_CDB, Seen, TEST_UNIT_READY, seen};
use super::{Pair, copy_operation_abort, extended_copy, pair, receive};
use crate::sam::Status;
use crate::{Offload, OffloadPolicy, Offloads};

#[test]
fn capabilities_of_the_copy_manager_are_reported_consistently() {
    let Pair { initiator, .. } = pair();
    let parameters = initiator.data(&receive(3, 0));
    assert_eq!(
        parameters,
        [
            0, 0, 0, 42, 1, 0, 0, 0, 0, 16, 0, 16, 0, 0, 3, 192, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            0, 0, 0, 0, 0, 0, 0, 2, 0, 64, 9, 0, 0, 0, 0, 0, 2, 0x02, 0xe4
        ]
    );
    assert_eq!(initiator.data(&[0x12, 0, 0, 0, 96, 0])[5] & 0x08, 0x08);
    let page = initiator.data(&[0x12, 1, 0x8f, 4, 0, 0]);
    let length = usize::from(u16::from_be_bytes([page[2], page[3]]));
    assert_eq!(
        (page[..2].to_vec(), length),
        (vec![0, 0x8f], page.len() - 4)
    );
    let mut rest = &page[4..];
    let mut types = Vec::new();
    while let [a, b, c, d, ..] = *rest {
        let length = usize::from(u16::from_be_bytes([c, d]));
        assert_eq!(length % 4, 0);
        types.push((u16::from_be_bytes([a, b]), rest[4..4 + length].to_vec()));
        rest = &rest[4 + length..];
    }
    let body = |kind| {
        &types
            .iter()
            .find(|(reported, _)| *reported == kind)
            .unwrap()
            .1
    };
    assert!(types.windows(2).all(|pair| pair[0].0 < pair[1].0));
    assert_eq!(body(0x0004)[4..12], parameters[8..16]);
    assert_eq!(body(0x0008)[..3], [2, 0x02, 0xe4]);
    assert_eq!(body(0x8001)[2..4], parameters[34..36]);
    assert_eq!(body(0x8001)[8..13], [1, 0, 0, 0, 9]);
    // Exactly the supported commands.
    let commands = body(0x0001);
    let list = &commands[1..=usize::from(commands[0])];
    let mut rest = list;
    while let [code, count, ..] = *rest {
        let (actions, more) = rest[2..].split_at(usize::from(count));
        for action in 0..0x20 {
            let response = initiator.data(&[0xa3, 0x0c, 2, code, 0, action, 0, 0, 0, 64, 0, 0]);
            assert_eq!(
                response[1] & 7 == 3,
                actions.contains(&action),
                "{code:x} {action:x}"
            );
        }
        rest = more;
    }
}

#[test]
fn a_disabled_copy_manager_is_not_supported() {
    let Pair { initiator, .. } = pair();
    let without = Offloads::ALL
        .without(Offload::ExtendedCopy)
        .without(Offload::Token);
    let host = initiator.nexus.initiator_device.clone();
    let policy = OffloadPolicy([(host, without)].into());
    initiator.device.set_offload_policy(policy);
    while initiator.run(&TEST_UNIT_READY).status != Status::Good {}
    assert_eq!(initiator.data(&[0x12, 0, 0, 0, 96, 0])[5] & 0x08, 0);
    assert_eq!(
        initiator.code(&[0x12, 1, 0x8f, 4, 0, 0], &[]),
        INVALID_FIELD_IN_CDB
    );
    assert!(!initiator.data(&[0x12, 1, 0, 0, 64, 0])[4..].contains(&0x8f));
    for cdb in [
        extended_copy(0),
        receive(3, 0),
        receive(0, 0),
        copy_operation_abort(0),
    ] {
        let Seen { key, code, .. } = seen(&initiator.run(&cdb));
        assert_eq!((key, code), (5, (0x20, 0)));
    }
}
