// SPDX-License-Identifier: Apache-2.0
//! Counters of commands by host and unit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{
    BLOCKS, Initiator, RamVolume, TEST_UNIT_READY, is_good, options, pattern, poll, read, read_10,
    setup, write_10,
};
use crate::sam::{Nexus, ScsiTarget, TaskAttribute};
use crate::{Family, LogicalUnit};

#[test]
fn a_unit_counts_all_hosts_and_a_host_all_its_nexuses() {
    let initiator = Initiator::new(&RamVolume::new(BLOCKS), options());
    // A second nexus of the same host, and another host.
    let second = Initiator {
        device: Arc::clone(&initiator.device),
        nexus: Arc::new(Nexus {
            id: u64::MAX,
            ..(*initiator.nexus).clone()
        }),
        ..initiator.to(initiator.logical_unit)
    };
    second.device.nexus_established(&second.nexus);
    second.sense(&TEST_UNIT_READY);
    let other = Initiator::of(Arc::clone(&initiator.device));
    initiator.data(&read_10(0, 4));
    second.send(&write_10(0, 2), &pattern(1, 2));
    second.sense(&read_10(u32::MAX, 1));
    other.data(&read_10(0, 1));
    let unit = initiator.device.logical_unit(0).unwrap().statistics();
    assert_eq!(
        (
            unit[Family::Read].operations,
            unit[Family::Read].bytes,
            unit[Family::Read].errors
        ),
        (3, 2560, 1)
    );
    let host = || {
        let mut hosts = initiator.device.host_statistics();
        hosts.remove(&initiator.nexus.initiator_device).unwrap()
    };
    let before = host();
    assert_eq!(
        (before[Family::Read].operations, before[Family::Write].bytes),
        (2, 1024)
    );
    // The counters of a host survive its nexuses.
    initiator.device.nexus_lost(&initiator.nexus);
    initiator.device.nexus_lost(&second.nexus);
    assert_eq!(host(), before);
}

#[test]
fn a_command_that_outlives_its_unit_is_counted_by_the_next() {
    let (volume, initiator) = setup();
    volume.hold();
    let mut task = read(&initiator, 1, TaskAttribute::Simple);
    assert!(poll(&mut task).is_pending());
    let next = LogicalUnit::new(volume.clone(), options()).unwrap();
    initiator.device.replace_logical_unit(0, next).unwrap();
    volume.release(1);
    assert!(is_good(&poll(&mut task)));
    let unit = initiator.device.logical_unit(0).unwrap();
    assert_eq!(unit.statistics()[Family::Read].operations, 1);
}

#[test]
fn latency_is_from_entry_to_status() {
    let (volume, initiator) = setup();
    volume.hold();
    let begun = Instant::now();
    let mut task = read(&initiator, 1, TaskAttribute::Simple);
    assert!(poll(&mut task).is_pending());
    std::thread::sleep(Duration::from_millis(3));
    volume.release(1);
    assert!(is_good(&poll(&mut task)));
    let most = u64::try_from(begun.elapsed().as_micros()).unwrap();
    let statistics = initiator.device.logical_unit(0).unwrap().statistics();
    let latency = &statistics[Family::Read].latency;
    assert_eq!(latency.operations(), 1);
    assert!(
        (3000..=most).contains(&latency.total_microseconds),
        "{latency:?}"
    );
    // 2048 to 4095 microseconds, or more.
    assert_eq!(latency.counts[..12].iter().sum::<u64>(), 0);
}
