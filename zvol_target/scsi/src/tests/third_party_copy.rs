//! EXTENDED COPY and the commands that ask after it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{
    BLOCKS, Broken, INVALID_FIELD_IN_CDB, Initiator, RamVolume, Seen, Sent, TEST_UNIT_READY, Task,
    block_on, has_status, is_aborted, is_good, manage, options, pattern, poll, product, seen,
};
use crate::address::logical_unit_number;
use crate::sam::{
    AcceptedAccount, AccountProof, Admission, Completion, LogicalUnitNumber, Nexus, ScsiTarget,
    Status, TaskAttribute, TaskManagementFunction,
};
use crate::{
    CopyManager, Device, LogicalUnit, LogicalUnitAccess, LogicalUnitOptions, Offload,
    OffloadPolicy, Offloads,
};
use volume::{Geometry, Volume, VolumeError};

const COPY_ABORTED: u8 = 0x0a;

/// CDB with a parameter list of this length.
fn extended_copy(length: usize) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = 0x83;
    cdb[10..14].copy_from_slice(&(length as u32).to_be_bytes());
    cdb
}

fn receive(service_action: u8, list_identifier: u8) -> [u8; 16] {
    [
        0x84,
        service_action,
        list_identifier,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        4,
        0,
        0,
        0,
    ]
}

fn receive_lid4(list_identifier: u32) -> [u8; 16] {
    let mut cdb = receive(0x05, 0);
    cdb[2..6].copy_from_slice(&list_identifier.to_be_bytes());
    cdb
}

fn copy_operation_abort(list_identifier: u32) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[..2].copy_from_slice(&[0x83, 0x1c]);
    cdb[2..6].copy_from_slice(&list_identifier.to_be_bytes());
    cdb
}

/// Source and destination by index, number of blocks, both addresses.
#[derive(Clone, Copy)]
struct Segment(u16, u16, u16, u64, u64);

/// What is copied: names of logical units, segments.
fn parameter_list(
    list_identifier: u8,
    usage: u8,
    units: &[[u8; 16]],
    segments: &[Segment],
) -> Vec<u8> {
    let mut list = vec![list_identifier, usage << 3, 0, 32 * units.len() as u8];
    list.extend_from_slice(&[0; 4]);
    list.extend_from_slice(&(28 * segments.len() as u32).to_be_bytes());
    list.extend_from_slice(&[0; 4]);
    for naa in units {
        list.extend_from_slice(&[0xe4, 0, 0, 0, 1, 3, 0, 16]);
        list.extend_from_slice(naa);
        list.extend_from_slice(&[0; 8]);
    }
    for Segment(source, destination, blocks, from, to) in segments {
        list.extend_from_slice(&[0x02, 0, 0, 0x18]);
        list.extend_from_slice(&source.to_be_bytes());
        list.extend_from_slice(&destination.to_be_bytes());
        list.extend_from_slice(&[0, 0]);
        list.extend_from_slice(&blocks.to_be_bytes());
        list.extend_from_slice(&from.to_be_bytes());
        list.extend_from_slice(&to.to_be_bytes());
    }
    list
}

/// Without a list identifier.
fn anonymous(units: &[[u8; 16]], segments: &[Segment]) -> Vec<u8> {
    parameter_list(0, 0b11, units, segments)
}

fn send(initiator: &Initiator, list: &[u8]) -> Completion {
    initiator.run_with(&extended_copy(list.len()), Sent::boxed(list))
}

fn copy(initiator: &Initiator, list: &[u8]) {
    initiator.send(&extended_copy(list.len()), list);
}

fn codes(completion: &Completion) -> (u8, u8, u8) {
    assert_eq!(completion.status, Status::CheckCondition);
    let sense = &completion.sense;
    (sense[2] & 0x0f, sense[12], sense[13])
}

/// A unit whose UUID is all this byte, with the options changed.
fn unit_with(
    volume: &Arc<RamVolume>,
    uuid: u8,
    change: impl FnOnce(&mut LogicalUnitOptions),
) -> LogicalUnit {
    let mut options = LogicalUnitOptions {
        uuid: [uuid; 16],
        ..options()
    };
    change(&mut options);
    let volume: Arc<dyn Volume> = Arc::clone(volume) as _;
    LogicalUnit::new(volume, options).unwrap()
}

fn unit(volume: &Arc<RamVolume>, uuid: u8) -> LogicalUnit {
    unit_with(volume, uuid, |_| {})
}

fn naa(uuid: u8) -> [u8; 16] {
    crate::identity::naa([uuid; 16])
}

/// An initiator of a device with units 0 (UUID 1) and 1 (UUID 2), with their volumes.
struct Pair {
    volumes: [Arc<RamVolume>; 2],
    initiator: Initiator,
}

const UNITS: [u8; 2] = [1, 2];

fn pair_on(volumes: [Arc<RamVolume>; 2]) -> Pair {
    let device = Arc::new(Device::new(product()));
    for (number, (volume, uuid)) in volumes.iter().zip(UNITS).enumerate() {
        let unit = unit(volume, uuid);
        device
            .insert_logical_unit(number as u16, unit, LogicalUnitAccess::Any)
            .unwrap();
    }
    let initiator = Initiator::of(device);
    while initiator
        .to(logical_unit_number(1))
        .run(&TEST_UNIT_READY)
        .status
        != Status::Good
    {}
    Pair { volumes, initiator }
}

fn pair() -> Pair {
    pair_on([RamVolume::new(BLOCKS), RamVolume::new(BLOCKS)])
}

fn names() -> [[u8; 16]; 2] {
    UNITS.map(naa)
}

fn fill(volume: &RamVolume, offset: u64, data: &[u8]) {
    block_on(volume.write(
        offset,
        volume::Buffer::from(data),
        volume::Stability::Stable,
    ))
    .unwrap();
}

/// Runs the task until the volume has an operation of it.
fn begin(task: &mut Task, volume: &RamVolume) {
    while volume.begun() == 0 {
        assert!(poll(task).is_pending());
    }
    block_on(volume.wait_for_operation());
}

#[test]
fn segments_are_copied_in_order_between_units_and_within_one() {
    let Pair { volumes, initiator } = pair();
    let data = pattern(7, 3000);
    fill(&volumes[0], 512 * 10, &data);
    let segments = [
        Segment(0, 1, 3000, 10, 1),
        // What the first wrote.
        Segment(1, 1, 100, 1, 5000),
        Segment(1, 0, 1, 5099, 0),
        Segment(0, 1, 0, BLOCKS, 0),
    ];
    copy(&initiator, &anonymous(&names(), &segments));
    assert_eq!(volumes[1].bytes(512, data.len()), data);
    assert_eq!(volumes[1].bytes(512 * 5000, 512 * 100), data[..512 * 100]);
    assert_eq!(volumes[0].bytes(0, 512), data[512 * 99..512 * 100]);
    let statistics = initiator.device.logical_unit(0).unwrap().statistics();
    assert_eq!(statistics.extended_copy.operations, 1);
    assert_eq!(statistics.extended_copy.bytes, 512 * 3101);
    assert_eq!(statistics.offload.copied_bytes, 512 * 3101);
    let hosts = initiator.device.host_statistics();
    let host = &hosts[&initiator.nexus.initiator_device];
    assert_eq!(host.offload.copied_bytes, 512 * 3101);
}

#[test]
fn what_was_copied_is_stable_unless_there_is_a_write_cache() {
    for write_cache in [false, true] {
        let volumes = [RamVolume::new(BLOCKS), RamVolume::new(BLOCKS)];
        let device = Arc::new(Device::new(product()));
        for (number, volume) in volumes.iter().enumerate() {
            let unit = unit_with(volume, UNITS[number], |options| {
                options.write_cache = write_cache;
            });
            device
                .insert_logical_unit(number as u16, unit, LogicalUnitAccess::Any)
                .unwrap();
        }
        let initiator = Initiator::of(device);
        volumes[1].events();
        copy(&initiator, &anonymous(&names(), &[Segment(0, 1, 8, 0, 0)]));
        let events = volumes[1].events();
        let stable = events.iter().any(|event| {
            matches!(
                event,
                super::Event::Flush
                    | super::Event::Write {
                        stability: volume::Stability::Stable,
                        ..
                    }
            )
        });
        assert_eq!(stable, !write_cache, "{events:?}");
    }
}

#[test]
fn nothing_is_no_error() {
    let Pair { volumes, initiator } = pair();
    assert_eq!(initiator.run(&extended_copy(0)).status, Status::Good);
    copy(&initiator, &anonymous(&[], &[]));
    copy(&initiator, &anonymous(&names(), &[]));
    assert!(volumes.iter().all(|volume| volume.events().is_empty()));
}

#[test]
fn units_with_other_blocks_are_copied_by_what_fits_both() {
    let geometry = Geometry {
        size_bytes: 4096 * 100,
        logical_block_bytes: 4096,
        physical_block_bytes: 4096,
    };
    let Pair { volumes, initiator } =
        pair_on([RamVolume::new(BLOCKS), RamVolume::with_geometry(geometry)]);
    let data = pattern(3, 80);
    fill(&volumes[0], 0, &data);
    let mut list = anonymous(&names(), &[Segment(0, 1, 16, 8, 3)]);
    copy(&initiator, &list);
    assert_eq!(volumes[1].bytes(4096 * 3, 8192), data[4096..12288]);
    // DC: counted in blocks of the destination.
    list[16 + 64 + 1] = 0x02;
    list[16 + 64 + 11] = 2;
    copy(&initiator, &list);
    // Half a block of 4096.
    list[16 + 64 + 1] = 0;
    list[16 + 64 + 11] = 4;
    assert_eq!(codes(&send(&initiator, &list)), (COPY_ABORTED, 0x26, 0x0a));
}

#[test]
fn every_segment_is_checked_before_anything_is_written() {
    let Pair { volumes, initiator } = pair();
    let good = Segment(0, 1, 8, 0, 0);
    for (bad, code, pointer) in [
        (Segment(2, 1, 1, 0, 0), (0x08, 0x04), [0xa0, 0, 4]),
        (Segment(0, 0xffff, 1, 0, 0), (0x08, 0x04), [0xa0, 0, 6]),
        (Segment(0, 1, 2, BLOCKS - 1, 0), (0, 0), [0xa0, 0, 12]),
        (Segment(0, 1, 2, 0, BLOCKS - 1), (0, 0), [0xa0, 0, 20]),
        (Segment(0, 1, 2, 0, u64::MAX), (0, 0), [0xa0, 0, 20]),
    ] {
        let completion = send(&initiator, &anonymous(&names(), &[good, bad]));
        assert_eq!(codes(&completion), (COPY_ABORTED, code.0, code.1));
        let sense = &completion.sense;
        // No residual: nothing was written. Segment 1.
        assert_eq!((sense[0], &sense[8..12]), (0x70, &[0, 0, 0, 1][..]));
        assert_eq!(sense[15..18], pointer);
    }
    assert!(volumes.iter().all(|volume| volume.events().is_empty()));
}

#[test]
fn a_descriptor_that_does_not_fit_the_unit_is_refused() {
    let Pair { initiator, .. } = pair();
    let segment = [Segment(0, 1, 1, 0, 0)];
    // Peripheral device type; block length.
    for (at, value, code) in [(1, 0x01, (0x0d, 0x03)), (30, 0x10, (0x26, 0x00))] {
        let mut list = anonymous(&names(), &segment);
        list[16 + 32 + at] = value;
        let completion = send(&initiator, &list);
        assert_eq!(codes(&completion), (COPY_ABORTED, code.0, code.1));
        let byte = if at == 1 { 49 } else { 77 };
        assert_eq!(completion.sense[15..18], [0x80, 0, byte]);
    }
    // The right block length.
    let mut list = anonymous(&names(), &segment);
    list[16 + 30] = 0x02;
    copy(&initiator, &list);
}

#[test]
fn only_designators_of_logical_units_find_one() {
    let Pair { initiator, .. } = pair();
    let change = |at: usize, value: u8| {
        let mut list = anonymous(&names(), &[Segment(0, 1, 1, 0, 0)]);
        list[16 + at] = value;
        codes(&send(&initiator, &list))
    };
    let unreachable = (COPY_ABORTED, 0x0d, 0x02);
    // Code set, designator type, designator length, designator.
    for (at, value) in [(4, 2), (5, 2), (7, 15), (8, 0x61), (23, 0)] {
        assert_eq!(change(at, value), unreachable, "{at}");
    }
    // LU ID TYPE and NUL are ignored, reserved fields too.
    let mut list = anonymous(&names(), &[Segment(0, 1, 1, 0, 0)]);
    list[17] = 0xe0;
    list[16 + 6] = 1;
    copy(&initiator, &list);
}

#[test]
fn a_failing_end_is_reported_with_its_own_sense_data_and_the_residual() {
    let Pair { volumes, initiator } = pair();
    let list = anonymous(&names(), &[Segment(0, 1, 8, 0, 0)]);
    for (failing, error, there) in [
        (
            0,
            (|| VolumeError::Device(std::io::ErrorKind::Other.into())) as fn() -> VolumeError,
            (3, 0x11, 0),
        ),
        (1, || VolumeError::OutOfSpace, (7, 0x27, 0x07)),
    ] {
        volumes[failing].fail(error);
        let completion = send(&initiator, &list);
        assert_eq!(codes(&completion), (COPY_ABORTED, 0x0d, 0x01));
        let sense = &completion.sense;
        assert_eq!((sense[7], sense.len()), (29, 37));
        let mut offsets = [0, 0, 0, 0];
        offsets[failing] = 18;
        assert_eq!(sense[8..12], offsets);
        // The CSCD descriptor of the end.
        assert_eq!(sense[15..18], [0x80, 0, 16 + 32 * failing as u8]);
        assert_eq!((sense[18], sense[19]), (2, 0x70));
        assert_eq!((sense[21], sense[31], sense[32]), there);
        let volumes = &volumes;
        volumes[failing].mend();
    }
    copy(&initiator, &list);
}

#[test]
fn write_protected_and_absent_volumes_are_the_ends_failures() {
    let Pair { volumes, initiator } = pair();
    volumes[1].set_read_only();
    let list = anonymous(&names(), &[Segment(0, 1, 8, 0, 0)]);
    let completion = send(&initiator, &list);
    assert_eq!(codes(&completion), (COPY_ABORTED, 0x0d, 0x01));
    let sense = &completion.sense;
    assert_eq!((sense[9], sense[21], sense[31]), (18, 7, 0x27));
    // Reading from it is allowed.
    copy(&initiator, &anonymous(&names(), &[Segment(1, 0, 8, 0, 0)]));
    let absent = LogicalUnit::not_ready(LogicalUnitOptions {
        uuid: [UNITS[1]; 16],
        ..options()
    });
    initiator.device.replace_logical_unit(1, absent).unwrap();
    let completion = send(&initiator, &list);
    assert_eq!(codes(&completion), (COPY_ABORTED, 0x0d, 0x01));
    let sense = &completion.sense;
    assert_eq!((sense[9], sense[21], sense[31]), (18, 2, 0x04));
}

#[test]
fn a_unit_that_the_host_does_not_see_is_told_from_one_that_is_not_there_by_nothing() {
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

/// Two devices with a copy manager in common: unit 0 of the first, and of the second, for an initiator of the first.
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
fn units_of_another_device_are_reached_by_who_could_log_in_there() {
    let (volumes, initiator, other) = two_devices(LogicalUnitAccess::Any);
    let list = anonymous(&names(), &[Segment(0, 1, 8, 0, 0)]);
    let unreachable = (COPY_ABORTED, 0x0d, 0x02);
    // Nothing was said of who may come.
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
    // It counts where the host sent it.
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
    let own = LogicalUnitAccess::Initiators([initiator.nexus.initiator_device.clone()].into());
    other.set_access(0, own).unwrap();
    copy(&initiator, &list);
}

#[test]
fn another_device_that_asks_for_an_account_wants_it_proven() {
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
    let accept = |initiator_device: Option<&str>| {
        other.set_admission(Admission {
            initiators: LogicalUnitAccess::Any,
            accounts: Some(vec![AcceptedAccount {
                proof: right,
                initiator_device: initiator_device.map(ToOwned::to_owned),
            }]),
        });
    };
    accept(None);
    assert_eq!(with_proof(None), Status::CheckCondition);
    assert_eq!(with_proof(Some(wrong)), Status::CheckCondition);
    assert_eq!(with_proof(Some(right)), Status::Good);
    accept(Some("iqn.2024-01.org.example:another"));
    assert_eq!(with_proof(Some(right)), Status::CheckCondition);
    accept(Some(&initiator.nexus.initiator_device));
    assert_eq!(with_proof(Some(right)), Status::Good);
    // CHAP is required, and there is no account.
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
        crate::sam::Outcome::Completed(completion) => completion,
        crate::sam::Outcome::Aborted => panic!("aborted"),
    };
    assert_eq!(codes(&completion), (COPY_ABORTED, 0x0d, 0x02));
    // Something was written, so a residual is told.
    assert_eq!(completion.sense[0], 0xf0);
    let residual = u32::from_be_bytes(completion.sense[3..7].try_into().unwrap());
    assert!((1..8192).contains(&residual), "{residual}");
}

#[test]
fn a_copy_holds_what_it_reads_and_writes_against_writers() {
    let Pair { volumes, initiator } = pair();
    volumes[1].hold();
    let list = anonymous(&names(), &[Segment(0, 1, 64, 0, 0)]);
    let cdb = extended_copy(list.len());
    let mut task = initiator.execute(1, TaskAttribute::Simple, &cdb, Sent::boxed(&list));
    begin(&mut task, &volumes[1]);
    let write = |unit: u16, address| {
        let cdb = super::write_10(address, 1);
        let to = initiator.to(logical_unit_number(unit));
        to.execute(
            u64::from(address) + 10,
            TaskAttribute::Simple,
            &cdb,
            Sent::boxed(&[1; 512]),
        )
    };
    let mut to_source = write(0, 63);
    assert!(poll(&mut to_source).is_pending());
    assert!(is_good(&poll(&mut write(0, 64))));
    volumes[1].release(1000);
    assert!(is_good(&std::task::Poll::Ready(block_on(task))));
    assert!(is_good(&std::task::Poll::Ready(block_on(to_source))));
}

#[test]
fn the_status_of_a_copy_is_told_while_it_runs_and_once_after() {
    let Pair { volumes, initiator } = pair();
    let list = parameter_list(
        5,
        0b00,
        &names(),
        &[Segment(0, 1, 1, 0, 0), Segment(0, 1, 16, 8, 8)],
    );
    let cdb = extended_copy(list.len());
    assert_eq!(initiator.code(&receive(0, 5), &[]), INVALID_FIELD_IN_CDB);
    volumes[1].hold();
    let mut task = initiator.execute(1, TaskAttribute::Simple, &cdb, Sent::boxed(&list));
    begin(&mut task, &volumes[1]);
    assert_eq!(
        initiator.data(&receive(0, 5)),
        [0, 0, 0, 8, 0x00, 0, 1, 0, 0, 0, 0, 0]
    );
    assert_eq!(
        initiator.data(&receive_lid4(5))[4..12],
        [0, 0x11, 0, 1, 0, 0, 3, 0xe8]
    );
    // No details while it runs, no held data at any time.
    assert_eq!(initiator.code(&receive(4, 5), &[]), INVALID_FIELD_IN_CDB);
    assert_eq!(initiator.data(&receive(1, 5)), [0; 4]);
    assert_eq!(initiator.code(&receive(1, 6), &[]), INVALID_FIELD_IN_CDB);
    // The identifier is in use, in this nexus and unit only.
    let again = send(&initiator, &list);
    assert_eq!(codes(&again), (5, 0x00, 0x16));
    copy(
        &initiator.to(logical_unit_number(1)),
        &parameter_list(5, 0, &names(), &[]),
    );
    volumes[1].release(1000);
    assert!(is_good(&std::task::Poll::Ready(block_on(task))));
    assert_eq!(
        initiator.data(&receive(0, 5)),
        [0, 0, 0, 8, 0x01, 0, 2, 0, 0, 0, 0x22, 0]
    );
    assert_eq!(initiator.code(&receive(0, 5), &[]), INVALID_FIELD_IN_CDB);
    let status = initiator.data(&receive_lid4(5));
    assert_eq!(
        status,
        [
            0, 0, 0, 28, 0, 1, 0, 2, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x22, 0,
            0, 2, 0, 0, 0, 0, 0, 0
        ]
    );
    assert_eq!(initiator.data(&receive(4, 5)), [0; 4]);
    let other = Initiator::of(Arc::clone(&initiator.device));
    assert_eq!(other.code(&receive_lid4(5), &[]), INVALID_FIELD_IN_CDB);
    assert_eq!(initiator.code(&receive(0, 0), &[]), INVALID_FIELD_IN_CDB);
}

#[test]
fn details_of_a_failure_are_its_status_and_sense_data() {
    let Pair { initiator, .. } = pair();
    let list = parameter_list(9, 0b10, &names(), &[Segment(0, 1, 1, BLOCKS, 0)]);
    let completion = send(&initiator, &list);
    assert_eq!(initiator.data(&receive(0, 9))[4], 0x02);
    let details = initiator.data(&receive(4, 9));
    assert_eq!(details[..4], [0, 0, 0, 56 + completion.sense.len() as u8]);
    assert_eq!(details[56..60], [2, 0, 0, completion.sense.len() as u8]);
    assert_eq!(details[60..], completion.sense);
    assert_eq!(initiator.code(&receive(4, 9), &[]), INVALID_FIELD_IN_CDB);
    let status = initiator.data(&receive_lid4(9));
    assert_eq!(
        (status[5], status[12], usize::from(status[14])),
        (2, 2, completion.sense.len())
    );
    assert_eq!(status[32..][..completion.sense.len()], completion.sense);
    // Another copy with the identifier, and a reset, drop it.
    copy(&initiator, &parameter_list(9, 0, &names(), &[]));
    assert_eq!(initiator.data(&receive(0, 9))[4], 0x01);
    let reset = TaskManagementFunction::LogicalUnitReset(LogicalUnitNumber([0; 8]));
    block_on(manage(&initiator, reset));
    let _ = initiator.run(&TEST_UNIT_READY);
    assert_eq!(initiator.code(&receive_lid4(9), &[]), INVALID_FIELD_IN_CDB);
}

#[test]
fn copies_end_between_steps_when_they_are_aborted() {
    let Pair { volumes, initiator } = pair();
    let list = parameter_list(3, 0, &names(), &[Segment(0, 1, 8192, 0, 0)]);
    let cdb = extended_copy(list.len());
    let other = Initiator::of(Arc::clone(&initiator.device));
    let start = || {
        volumes[1].hold();
        let mut task = initiator.execute(1, TaskAttribute::Simple, &cdb, Sent::boxed(&list));
        begin(&mut task, &volumes[1]);
        volumes[1].events();
        task
    };
    let finish = |task| {
        volumes[1].release(1000);
        let outcome = std::task::Poll::Ready(block_on(task));
        // Of 4 MiB.
        let written: usize = volumes[1]
            .events()
            .into_iter()
            .map(|event| match event {
                super::Event::Write { length, .. } => length,
                _ => 0,
            })
            .sum();
        assert!(written < 4 << 20, "{written}");
        volumes[1].unhold();
        outcome
    };
    let unit = LogicalUnitNumber([0; 8]);
    let task = start();
    let abort = TaskManagementFunction::AbortTask {
        logical_unit: unit,
        identifier: 1,
    };
    let answer = manage(&initiator, abort);
    assert!(is_aborted(&finish(task)));
    block_on(answer);
    // Terminated.
    assert_eq!(initiator.data(&receive_lid4(3))[5], 0x60);
    let task = start();
    assert_eq!(
        initiator.code(&copy_operation_abort(4), &[]),
        INVALID_FIELD_IN_CDB
    );
    assert_eq!(
        other.code(&copy_operation_abort(3), &[]),
        INVALID_FIELD_IN_CDB
    );
    assert_eq!(initiator.run(&copy_operation_abort(3)).status, Status::Good);
    let std::task::Poll::Ready(crate::sam::Outcome::Completed(completion)) = finish(task) else {
        panic!("no status");
    };
    assert_eq!(codes(&completion), (COPY_ABORTED, 0x2f, 0x02));
    assert_eq!(
        initiator.code(&copy_operation_abort(3), &[]),
        INVALID_FIELD_IN_CDB
    );
    let task = start();
    let reset = manage(&other, TaskManagementFunction::LogicalUnitReset(unit));
    assert!(has_status(&finish(task), Status::TaskAborted));
    block_on(reset);
}

#[test]
fn copies_of_a_nexus_that_are_too_many_wait_for_their_turn() {
    let Pair { volumes, initiator } = pair();
    volumes[1].hold();
    let mut tasks: Vec<_> = (0..12)
        .map(|number: u16| {
            let at = u64::from(number) * 64;
            let list = anonymous(&names(), &[Segment(0, 1, 8, at, at)]);
            let cdb = extended_copy(list.len());
            initiator.execute(
                u64::from(number),
                TaskAttribute::Simple,
                &cdb,
                Sent::boxed(&list),
            )
        })
        .collect();
    for _ in 0..20 {
        assert!(tasks.iter_mut().all(|task| poll(task).is_pending()));
    }
    assert_eq!(volumes[1].begun(), 8);
    // One that waits is aborted at once; another host has its turn.
    let mut ended = tasks.pop().unwrap();
    let abort = TaskManagementFunction::AbortTask {
        logical_unit: LogicalUnitNumber([0; 8]),
        identifier: 11,
    };
    let answer = manage(&initiator, abort);
    assert!(is_aborted(&poll(&mut ended)));
    block_on(answer);
    let other = Initiator::of(Arc::clone(&initiator.device));
    copy(
        &other,
        &anonymous(&names(), &[Segment(0, 0, 8, 4000, 5000)]),
    );
    volumes[1].release(1000);
    for task in tasks {
        assert!(is_good(&std::task::Poll::Ready(block_on(task))));
    }
}

#[test]
fn a_list_that_does_not_come_whole_copies_nothing() {
    let Pair { volumes, initiator } = pair();
    let list = anonymous(&names(), &[Segment(0, 1, 8, 0, 0)]);
    let cdb = extended_copy(list.len());
    let cut = initiator.run_with(&cdb, Sent::boxed(&list[..list.len() - 1]));
    assert_eq!(codes(&cut), (5, 0x1a, 0));
    let long = initiator.run_with(&extended_copy(1 << 20), Box::new(Broken::Missing));
    assert_eq!(codes(&long), (5, 0x1a, 0));
    assert!(volumes.iter().all(|volume| volume.events().is_empty()));
}

#[test]
fn what_the_copy_manager_can_do_is_said_alike_everywhere() {
    let Pair { initiator, .. } = pair();
    let parameters = initiator.data(&receive(3, 0));
    assert_eq!(
        parameters,
        [
            0, 0, 0, 42, 1, 0, 0, 0, 0, 16, 0, 64, 0, 0, 9, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            0, 0, 0, 0, 0, 0, 2, 0, 64, 9, 0, 0, 0, 0, 0, 2, 0x02, 0xe4
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
    let body = |wanted| &types.iter().find(|(found, _)| *found == wanted).unwrap().1;
    assert!(types.windows(2).all(|pair| pair[0].0 < pair[1].0));
    assert_eq!(body(0x0004)[4..12], parameters[8..16]);
    assert_eq!(body(0x0008)[..3], [2, 0x02, 0xe4]);
    assert_eq!(body(0x8001)[2..4], parameters[34..36]);
    assert_eq!(body(0x8001)[8..12], parameters[16..20]);
    // Every command that is there, and no other.
    let commands = body(0x0001);
    let list = &commands[1..=usize::from(commands[0])];
    let mut rest = list;
    while let [code, count, ..] = *rest {
        let (actions, more) = rest[2..].split_at(usize::from(count));
        for action in 0..0x20 {
            let one = initiator.data(&[0xa3, 0x0c, 2, code, 0, action, 0, 0, 0, 64, 0, 0]);
            assert_eq!(
                one[1] & 7 == 3,
                actions.contains(&action),
                "{code:x} {action:x}"
            );
        }
        rest = more;
    }
}

#[test]
fn switched_off_it_is_not_there() {
    let Pair { initiator, .. } = pair();
    let without = Offloads::ALL
        .without(Offload::ExtendedCopy)
        .without(Offload::Token);
    initiator.device.set_offload_policy(OffloadPolicy {
        default: without,
        by_initiator: [].into(),
    });
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
