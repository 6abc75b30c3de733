// SPDX-License-Identifier: Apache-2.0
//! Logical units that a host may use as source and destination.

use std::collections::BTreeSet;

use super::super::{BLOCKS, RamVolume, Sent, TEST_UNIT_READY, block_on, pattern};
use super::{
    COPY_ABORTED, Pair, Segment, UNITS, anonymous, begin, codes, copy, extended_copy, fill, naa,
    names, pair, parameter_list, receive, send, unit, unit_with,
};
use crate::sam::{Completion, Outcome, Status, TaskAttribute};
use crate::{Device, LogicalUnitAccess, ProductIdentification};

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

/// The end of copy 7 from unit 0 to unit 1, where `change` is called during its first step.
fn copy_during(pair: &Pair, change: impl FnOnce(&Device)) -> Completion {
    let Pair { volumes, initiator } = pair;
    let list = parameter_list(7, 0, &names(), &[Segment(0, 1, 8192, 0, 0)]);
    volumes[1].hold();
    let cdb = extended_copy(list.len());
    let mut task = initiator.execute(1, TaskAttribute::Simple, &cdb, Sent::boxed(&list));
    begin(&mut task, &volumes[1]);
    change(&initiator.device);
    volumes[1].release(1000);
    match block_on(task) {
        Outcome::Completed(completion) => completion,
        Outcome::Aborted => panic!("aborted"),
    }
}

#[test]
fn other_options_of_a_unit_do_not_end_its_copies() {
    let pair = pair();
    let completion = copy_during(&pair, |device| {
        for (number, (volume, uuid)) in pair.volumes.iter().zip(UNITS).enumerate() {
            let unit = unit_with(volume, uuid, |options| {
                options.product = ProductIdentification::new("X", "Y", "Z").unwrap();
            });
            device.replace_logical_unit(number as u16, unit).unwrap();
        }
    });
    assert_eq!(completion.status, Status::Good);
    // Unit attentions about the change.
    while pair.initiator.run(&TEST_UNIT_READY).status != Status::Good {}
    assert_eq!(pair.initiator.data(&receive(0, 7))[4], 0x01);
}

#[test]
fn a_copy_ends_when_its_unit_is_removed_or_has_another_volume() {
    for number in [0, 1] {
        let removed = copy_during(&pair(), |device| {
            device.remove_logical_unit(number).unwrap();
        });
        assert_eq!(codes(&removed), (COPY_ABORTED, 0x0d, 0x02));
        let other = copy_during(&pair(), |device| {
            let unit = unit(&RamVolume::new(BLOCKS), UNITS[usize::from(number)]);
            device.replace_logical_unit(number, unit).unwrap();
        });
        assert_eq!(codes(&other), (COPY_ABORTED, 0x0d, 0x02));
    }
}
