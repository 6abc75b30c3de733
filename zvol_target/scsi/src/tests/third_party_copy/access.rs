// SPDX-License-Identifier: Apache-2.0
//! Logical units that a host may use as source and destination.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::super::{
    BLOCKS, Initiator, RamVolume, Sent, TEST_UNIT_READY, block_on, pattern, product,
};
use super::{
    COPY_ABORTED, Pair, Segment, UNITS, anonymous, begin, codes, copy, extended_copy, fill, naa,
    names, pair, send, unit,
};
use crate::sam::{
    AcceptedAccount, AccountProof, Admission, LogicalUnitNumber, Nexus, Outcome, ScsiTarget,
    Status, TaskAttribute,
};
use crate::{CopyManager, Device, LogicalUnitAccess};

/// Two devices with a shared copy manager: unit 0 of each, and an initiator of the first.
fn two_devices(access: LogicalUnitAccess) -> ([Arc<RamVolume>; 2], Initiator, Arc<Device>) {
    let volumes = [RamVolume::new(BLOCKS), RamVolume::new(BLOCKS)];
    let copy_manager = Arc::new(CopyManager::default());
    let devices = UNITS.map(|_| Arc::new(Device::new(product())));
    let mut accesses = [LogicalUnitAccess::Any, access].into_iter();
    for ((device, volume), uuid) in devices.iter().zip(&volumes).zip(UNITS) {
        copy_manager.add(device);
        let access = accesses.next().unwrap();
        device
            .insert_logical_unit(0, unit(volume, uuid), access)
            .unwrap();
    }
    let [first, second] = devices;
    (volumes, Initiator::of(first), second)
}

fn anybody() -> Admission {
    Admission {
        initiators: LogicalUnitAccess::Any,
        accounts: None,
    }
}

#[test]
fn a_hidden_unit_can_not_be_distinguished_from_an_absent_one() {
    let Pair { volumes, initiator } = pair();
    let list = anonymous(&names(), &[Segment(0, 1, 8, 0, 0)]);
    let nowhere = anonymous(&[naa(1), naa(9)], &[Segment(0, 1, 8, 0, 0)]);
    let nobody = LogicalUnitAccess::Initiators(BTreeSet::new());
    initiator.device.set_access(1, nobody).unwrap();
    let _ = initiator.run(&TEST_UNIT_READY);
    let hidden = send(&initiator, &list);
    assert_eq!(codes(&hidden), (COPY_ABORTED, 0x0d, 0x02));
    assert_eq!(hidden.sense, send(&initiator, &nowhere).sense);
    assert!(volumes[1].events().is_empty());
}

#[test]
fn units_of_another_device_need_the_right_to_log_in_there() {
    let (volumes, initiator, other) = two_devices(LogicalUnitAccess::Any);
    let list = anonymous(&names(), &[Segment(0, 1, 8, 0, 0)]);
    let unreachable = (COPY_ABORTED, 0x0d, 0x02);
    // No login rules are set.
    assert_eq!(codes(&send(&initiator, &list)), unreachable);
    let name = initiator.nexus.initiator_device.clone();
    let only = |name: &str| LogicalUnitAccess::Initiators([name.to_owned()].into());
    other.set_admission(Admission {
        initiators: only("iqn.2024-01.org.example:another"),
        accounts: None,
    });
    assert_eq!(codes(&send(&initiator, &list)), unreachable);
    fill(&volumes[0], 0, &pattern(1, 8));
    other.set_admission(Admission {
        initiators: only(&name),
        accounts: None,
    });
    copy(&initiator, &list);
    assert_eq!(volumes[1].bytes(0, 4096), pattern(1, 8));
    // The counters are those of the device that received the command.
    let nexuses = other.nexus_statistics();
    assert!(nexuses.is_empty());
}

#[test]
fn the_access_list_of_a_unit_of_another_device_counts() {
    let another =
        LogicalUnitAccess::Initiators(["iqn.2024-01.org.example:another".to_owned()].into());
    let (volumes, initiator, other) = two_devices(another);
    other.set_admission(anybody());
    let list = anonymous(&names(), &[Segment(0, 1, 8, 0, 0)]);
    assert_eq!(codes(&send(&initiator, &list)), (COPY_ABORTED, 0x0d, 0x02));
    assert!(volumes[1].events().is_empty());
    let caller_only =
        LogicalUnitAccess::Initiators([initiator.nexus.initiator_device.clone()].into());
    other.set_access(0, caller_only).unwrap();
    copy(&initiator, &list);
}

#[test]
fn units_of_a_device_with_accounts_need_a_proof() {
    let (_, initiator, other) = two_devices(LogicalUnitAccess::Any);
    let list = anonymous(&names(), &[Segment(0, 1, 8, 0, 0)]);
    let with_proof = |proof| {
        let nexus = Arc::new(Nexus {
            id: initiator.nexus.id + 1_000_000,
            proof,
            ..Nexus::clone(&initiator.nexus)
        });
        initiator.device.nexus_established(&nexus);
        let initiator = Initiator {
            device: Arc::clone(&initiator.device),
            nexus,
            logical_unit: LogicalUnitNumber([0; 8]),
            data_in_buffer_size: u32::MAX,
        };
        while initiator.run(&TEST_UNIT_READY).status != Status::Good {}
        let completion = send(&initiator, &list);
        initiator.device.nexus_lost(&initiator.nexus);
        completion.status
    };
    let [right, wrong] = [1, 2].map(|byte| AccountProof([byte; 32]));
    let accept = |initiator_devices: Option<&[&str]>| {
        other.set_admission(Admission {
            initiators: LogicalUnitAccess::Any,
            accounts: Some(vec![AcceptedAccount {
                proof: right,
                initiator_devices: initiator_devices
                    .map(|names| names.iter().map(ToString::to_string).collect()),
            }]),
        });
    };
    accept(None);
    assert_eq!(with_proof(None), Status::CheckCondition);
    assert_eq!(with_proof(Some(wrong)), Status::CheckCondition);
    assert_eq!(with_proof(Some(right)), Status::Good);
    let another = "iqn.2024-01.org.example:another";
    accept(Some(&[another]));
    assert_eq!(with_proof(Some(right)), Status::CheckCondition);
    accept(Some(&[another, &initiator.nexus.initiator_device]));
    assert_eq!(with_proof(Some(right)), Status::Good);
    // CHAP is required, and no account exists.
    other.set_admission(Admission {
        initiators: LogicalUnitAccess::Any,
        accounts: Some(Vec::new()),
    });
    assert_eq!(with_proof(Some(right)), Status::CheckCondition);
}

#[test]
fn access_lost_while_a_copy_runs_ends_it_before_its_next_step() {
    let (volumes, initiator, other) = two_devices(LogicalUnitAccess::Any);
    other.set_admission(anybody());
    let list = anonymous(&names(), &[Segment(0, 1, 8192, 0, 0)]);
    volumes[1].hold();
    let cdb = extended_copy(list.len());
    let mut task = initiator.execute(1, TaskAttribute::Simple, &cdb, Sent::boxed(&list));
    let nobody = LogicalUnitAccess::Initiators(BTreeSet::new());
    begin(&mut task, &volumes[1]);
    other.set_access(0, nobody).unwrap();
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
