// SPDX-License-Identifier: Apache-2.0
//! Logical units that a host may use as source and destination.

use std::collections::BTreeSet;

use super::super::{Sent, TEST_UNIT_READY, block_on, pattern};
use super::{
    COPY_ABORTED, Pair, Segment, anonymous, begin, codes, copy, extended_copy, fill, naa, names,
    pair, send,
};
use crate::LogicalUnitAccess;
use crate::sam::{Outcome, TaskAttribute};

fn nobody() -> LogicalUnitAccess {
    LogicalUnitAccess::Initiators(BTreeSet::new())
}

#[test]
fn a_hidden_unit_can_not_be_distinguished_from_an_absent_one() {
    let Pair { volumes, initiator } = pair();
    fill(&volumes[1], 0, &pattern(1, 8));
    let _ = volumes[1].events();
    let another =
        LogicalUnitAccess::Initiators(["iqn.2024-01.org.example:another".to_owned()].into());
    for access in [nobody(), another] {
        initiator.device.set_access(1, access).unwrap();
        let _ = initiator.run(&TEST_UNIT_READY);
        for (source, destination) in [(0, 1), (1, 0), (1, 1)] {
            let segment = [Segment(source, destination, 8, 0, 8)];
            let hidden = send(&initiator, &anonymous(&names(), &segment));
            assert_eq!(codes(&hidden), (COPY_ABORTED, 0x0d, 0x02));
            let absent = send(&initiator, &anonymous(&[naa(1), naa(9)], &segment));
            assert_eq!(hidden.sense, absent.sense);
        }
    }
    assert!(volumes[1].events().is_empty());
    let caller = LogicalUnitAccess::Initiators([initiator.nexus.initiator_device.clone()].into());
    initiator.device.set_access(1, caller).unwrap();
    let _ = initiator.run(&TEST_UNIT_READY);
    copy(&initiator, &anonymous(&names(), &[Segment(1, 0, 8, 0, 0)]));
    assert_eq!(volumes[0].bytes(0, 4096), pattern(1, 8));
}

#[test]
fn access_lost_while_a_copy_runs_ends_it_before_its_next_step() {
    let Pair { volumes, initiator } = pair();
    let list = anonymous(&names(), &[Segment(0, 1, 8192, 0, 0)]);
    volumes[1].hold();
    let cdb = extended_copy(list.len());
    let mut task = initiator.execute(1, TaskAttribute::Simple, &cdb, Sent::boxed(&list));
    begin(&mut task, &volumes[1]);
    initiator.device.set_access(1, nobody()).unwrap();
    volumes[1].release(1000);
    let completion = match block_on(task) {
        Outcome::Completed(completion) => completion,
        Outcome::Aborted => panic!("aborted"),
    };
    assert_eq!(codes(&completion), (COPY_ABORTED, 0x0d, 0x02));
    // Data was written, so a residual is reported.
    assert_eq!(completion.sense[0], 0xf0);
    let residual = u32::from_be_bytes(completion.sense[3..7].try_into().unwrap());
    assert!((1..8192).contains(&residual), "{residual}");
}
