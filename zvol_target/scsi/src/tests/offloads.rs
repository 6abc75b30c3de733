// SPDX-License-Identifier: Apache-2.0
//! Offloads that are disabled for a host.

use std::sync::Arc;

use super::{
    BLOCKS, CAPACITY_CHANGED, Initiator, RamVolume, TEST_UNIT_READY, block_10, block_16, options,
};
use crate::sam::{Nexus, ScsiTarget as _, Status};
use crate::{Offload, OffloadPolicy, Offloads};

const INQUIRY_CHANGED: (u8, u8, u8) = (6, 0x3f, 0x03);
const NO_SUCH_COMMAND: (u8, u8, u8) = (5, 0x20, 0);

fn policy(initiator: &Initiator, offloads: Offloads) -> OffloadPolicy {
    OffloadPolicy([(initiator.nexus.initiator_device.clone(), offloads)].into())
}

fn clear(initiator: &Initiator) {
    while initiator.run(&TEST_UNIT_READY).status != Status::Good {}
}

fn page(initiator: &Initiator, code: u8) -> Vec<u8> {
    initiator.data(&[0x12, 1, code, 0, 64, 0])
}

/// Operation codes from REPORT SUPPORTED OPERATION CODES.
fn reported(initiator: &Initiator) -> Vec<u8> {
    let data = initiator.data(&[0xa3, 0x0c, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0]);
    data[4..]
        .chunks(8)
        .map(|descriptor| descriptor[0])
        .collect()
}

#[test]
fn a_disabled_offload_is_not_supported() {
    let initiator = Initiator::new(&RamVolume::thin(BLOCKS), options());
    let other = Initiator::of(Arc::clone(&initiator.device));
    let device = Arc::clone(&initiator.device);
    for (offload, cdb) in [
        (Offload::WriteSame, block_10(0x41, 0, 0, 1).to_vec()),
        (Offload::WriteSame, block_16(0x93, 0x01, 0, 1).to_vec()),
        (Offload::Unmap, block_10(0x42, 0, 0, 0).to_vec()),
    ] {
        clear(&initiator);
        assert!(reported(&initiator).contains(&cdb[0]));
        device.set_offload_policy(policy(&initiator, Offloads::ALL.without(offload)));
        clear(&initiator);
        assert_eq!(initiator.code(&cdb, &[0; 512]), NO_SUCH_COMMAND);
        assert!(!reported(&initiator).contains(&cdb[0]));
        assert!(reported(&other).contains(&cdb[0]));
        assert_ne!(
            other
                .run_with(&cdb, super::Sent::boxed(&[0; 512]))
                .sense
                .get(12),
            Some(&0x20)
        );
        device.set_offload_policy(OffloadPolicy::default());
    }
}

#[test]
fn pages_report_enabled_offloads() {
    let initiator = Initiator::new(&RamVolume::thin(BLOCKS), options());
    let all = page(&initiator, 0xb0);
    assert_eq!(all[5], 255);
    let device = &initiator.device;
    device.set_offload_policy(policy(&initiator, Offloads::NONE));
    assert_eq!(initiator.code(&TEST_UNIT_READY, &[]), INQUIRY_CHANGED);
    assert_eq!(initiator.code(&TEST_UNIT_READY, &[]), CAPACITY_CHANGED);
    let none = page(&initiator, 0xb0);
    assert_eq!(none[5], 255);
    assert!(none[20..44].iter().all(|&byte| byte == 0));
    assert_eq!(none[6..16], all[6..16]);
    assert_eq!(page(&initiator, 0xb2)[4..], [0; 4]);
    let only_unmap = Offloads::NONE.with(Offload::Unmap);
    device.set_offload_policy(policy(&initiator, only_unmap));
    clear(&initiator);
    assert_eq!(page(&initiator, 0xb2)[4..], [11, 0x84, 2, 0]);
    assert_eq!(page(&initiator, 0xb0)[20..36], all[20..36]);
    // Without the UNMAP offload, WRITE SAME writes zeroes and unmaps nothing.
    device.set_offload_policy(policy(&initiator, Offloads::ALL.without(Offload::Unmap)));
    clear(&initiator);
    initiator.send(&block_16(0x93, 0x01, 0, 1), &[]);
    assert_eq!(initiator.sense(&block_16(0x93, 0x09, 0, 1)).code, (0x24, 0));
}

#[test]
fn a_change_is_reported_to_the_hosts_it_affects() {
    let initiator = Initiator::new(&RamVolume::thin(BLOCKS), options());
    let other = Initiator::of(Arc::clone(&initiator.device));
    let device = Arc::clone(&initiator.device);
    let copies_off = policy(&initiator, Offloads::ALL.without(Offload::ExtendedCopy));
    device.set_offload_policy(copies_off.clone());
    assert_eq!(initiator.code(&TEST_UNIT_READY, &[]), INQUIRY_CHANGED);
    device.set_offload_policy(copies_off);
    for host in [&initiator, &other] {
        assert_eq!(host.run(&TEST_UNIT_READY).status, Status::Good);
    }
    // A later session of the host has them too.
    device.set_offload_policy(policy(&initiator, Offloads::NONE));
    let late = Initiator {
        nexus: Arc::new(Nexus {
            id: u64::MAX,
            ..(*initiator.nexus).clone()
        }),
        ..Initiator::of(Arc::clone(&device))
    };
    device.nexus_established(&late.nexus);
    clear(&late);
    assert_eq!(late.code(&block_16(0x93, 0x01, 0, 1), &[]), NO_SUCH_COMMAND);
}
