// SPDX-License-Identifier: Apache-2.0
//! Task management functions, and loss of a nexus.

use std::sync::Arc;
use std::task::Poll;

use super::{
    BLOCKS, Initiator, RamVolume, Sent, TEST_UNIT_READY, UNIT, block_on, has_status, is_aborted,
    is_good, manage, options, pattern, poll, read, read_10, setup, stuck_write, write, write_10,
};
use crate::address::{REPORT_LUNS_WELL_KNOWN, logical_unit_number};
use crate::sam::{
    FunctionResponse, Nexus, ScsiTarget, Status, TaskAttribute, TaskManagementFunction,
};
use crate::{LogicalUnit, LogicalUnitAccess};

const INQUIRY: [u8; 6] = [0x12, 0, 0, 0, 36, 0];

#[test]
fn abort_task_ends_a_dormant_task_and_enables_the_next() {
    let (volume, initiator) = setup();
    volume.hold();
    let mut running = read(&initiator, 1, TaskAttribute::Simple);
    let mut ordered = read(&initiator, 2, TaskAttribute::Ordered);
    let mut younger = read(&initiator, 3, TaskAttribute::Simple);
    assert!(
        poll(&mut running).is_pending()
            && poll(&mut ordered).is_pending()
            && poll(&mut younger).is_pending()
    );
    let mut abort = manage(
        &initiator,
        TaskManagementFunction::AbortTask {
            logical_unit: UNIT,
            identifier: 2,
        },
    );
    assert!(poll(&mut abort).is_pending());
    assert!(is_aborted(&poll(&mut ordered)));
    assert_eq!(poll(&mut abort), Poll::Ready(FunctionResponse::Complete));
    volume.release(2);
    assert!(is_good(&poll(&mut younger)));
    assert!(is_good(&poll(&mut running)));
}

#[test]
fn a_task_can_be_aborted_before_its_first_poll() {
    let (volume, initiator) = setup();
    let mut write = initiator.execute(
        7,
        TaskAttribute::Simple,
        &write_10(0, 1),
        Sent::boxed(&pattern(1, 1)),
    );
    let mut abort = manage(
        &initiator,
        TaskManagementFunction::AbortTask {
            logical_unit: UNIT,
            identifier: 7,
        },
    );
    assert!(poll(&mut abort).is_pending());
    assert!(is_aborted(&poll(&mut write)));
    assert_eq!(poll(&mut abort), Poll::Ready(FunctionResponse::Complete));
    assert_eq!(volume.events(), []);
    assert_eq!(
        initiator
            .device
            .logical_unit(0)
            .unwrap()
            .statistics()
            .aborted,
        1
    );
}

#[test]
fn abort_task_finds_only_tasks_of_its_own_nexus_and_unit() {
    let (_, initiator) = setup();
    let other = Initiator::of(Arc::clone(&initiator.device));
    let mut write = stuck_write(&initiator, 7);
    assert!(poll(&mut write).is_pending());
    let abort = |of: &Initiator, logical_unit, identifier| {
        block_on(manage(
            of,
            TaskManagementFunction::AbortTask {
                logical_unit,
                identifier,
            },
        ))
    };
    assert_eq!(abort(&other, UNIT, 7), FunctionResponse::TaskDoesNotExist);
    assert_eq!(
        abort(&initiator, UNIT, 8),
        FunctionResponse::TaskDoesNotExist
    );
    assert_eq!(
        abort(&initiator, REPORT_LUNS_WELL_KNOWN, 7),
        FunctionResponse::TaskDoesNotExist
    );
    assert_eq!(
        abort(&initiator, logical_unit_number(1), 7),
        FunctionResponse::IncorrectLogicalUnit
    );
    assert!(poll(&mut write).is_pending());
}

#[test]
fn functions_on_units_without_tasks() {
    let (_, initiator) = setup();
    let run = |function| block_on(manage(&initiator, function));
    let absent = logical_unit_number(9);
    for unit in [UNIT, REPORT_LUNS_WELL_KNOWN] {
        assert_eq!(
            run(TaskManagementFunction::AbortTaskSet(unit)),
            FunctionResponse::Complete
        );
        assert_eq!(
            run(TaskManagementFunction::ClearTaskSet(unit)),
            FunctionResponse::Complete
        );
        assert_eq!(
            run(TaskManagementFunction::LogicalUnitReset(unit)),
            FunctionResponse::Complete
        );
    }
    assert_eq!(
        run(TaskManagementFunction::AbortTaskSet(absent)),
        FunctionResponse::IncorrectLogicalUnit
    );
    assert_eq!(
        run(TaskManagementFunction::LogicalUnitReset(absent)),
        FunctionResponse::IncorrectLogicalUnit
    );
    assert_eq!(
        run(TaskManagementFunction::ClearAca(UNIT)),
        FunctionResponse::NotSupported
    );
}

#[test]
fn abort_task_set_and_clear_task_set() {
    let (_, initiator) = setup();
    let other = Initiator::of(Arc::clone(&initiator.device));
    let (mut caller_task, mut foreign) = (stuck_write(&initiator, 1), stuck_write(&other, 1));
    assert!(poll(&mut caller_task).is_pending() && poll(&mut foreign).is_pending());
    let mut function = manage(&initiator, TaskManagementFunction::AbortTaskSet(UNIT));
    assert!(poll(&mut function).is_pending());
    assert!(is_aborted(&poll(&mut caller_task)));
    assert_eq!(poll(&mut function), Poll::Ready(FunctionResponse::Complete));
    assert!(poll(&mut foreign).is_pending());
    // The task set belongs to the nexus.
    let mut caller_task = stuck_write(&initiator, 2);
    assert!(poll(&mut caller_task).is_pending());
    let mut function = manage(&initiator, TaskManagementFunction::ClearTaskSet(UNIT));
    assert!(poll(&mut function).is_pending());
    assert!(is_aborted(&poll(&mut caller_task)));
    assert_eq!(poll(&mut function), Poll::Ready(FunctionResponse::Complete));
    assert!(poll(&mut foreign).is_pending());
    assert_eq!(initiator.run(&TEST_UNIT_READY).status, Status::Good);
}

#[test]
fn tasks_aborted_by_another_host_end_with_a_status() {
    let (volume, initiator) = setup();
    let other = Initiator::of(Arc::clone(&initiator.device));
    let mut dormant = (
        stuck_write(&other, 1),
        read(&other, 2, TaskAttribute::Ordered),
    );
    assert!(poll(&mut dormant.0).is_pending() && poll(&mut dormant.1).is_pending());
    volume.hold();
    let mut in_volume = read(&other, 3, TaskAttribute::HeadOfQueue);
    let mut given_up = stuck_write(&other, 4);
    assert!(poll(&mut in_volume).is_pending() && poll(&mut given_up).is_pending());
    let mut reset = manage(&initiator, TaskManagementFunction::LogicalUnitReset(UNIT));
    // Its host aborts one in the meantime, and expects no status for it.
    let mut abort = manage(
        &other,
        TaskManagementFunction::AbortTask {
            logical_unit: UNIT,
            identifier: 4,
        },
    );
    assert!(poll(&mut reset).is_pending() && poll(&mut abort).is_pending());
    assert!(has_status(&poll(&mut dormant.0), Status::TaskAborted));
    assert!(has_status(&poll(&mut dormant.1), Status::TaskAborted));
    assert!(is_aborted(&poll(&mut given_up)));
    assert_eq!(poll(&mut abort), Poll::Ready(FunctionResponse::Complete));
    assert!(poll(&mut in_volume).is_pending() && poll(&mut reset).is_pending());
    volume.release(1);
    assert!(has_status(&poll(&mut in_volume), Status::TaskAborted));
    assert_eq!(poll(&mut reset), Poll::Ready(FunctionResponse::Complete));
}

#[test]
fn a_lost_nexus_takes_its_tasks_along_even_on_a_removed_unit() {
    let (_, initiator) = setup();
    let other = Initiator::of(Arc::clone(&initiator.device));
    let (mut caller_task, mut foreign) = (stuck_write(&initiator, 1), stuck_write(&other, 1));
    assert!(poll(&mut caller_task).is_pending() && poll(&mut foreign).is_pending());
    drop(initiator.device.remove_logical_unit(0).unwrap());
    initiator.device.nexus_lost(&initiator.nexus);
    assert!(is_aborted(&poll(&mut caller_task)));
    assert!(poll(&mut foreign).is_pending());
    let mut reset = manage(&other, TaskManagementFunction::LogicalUnitReset(UNIT));
    assert!(poll(&mut reset).is_pending());
    assert!(is_aborted(&poll(&mut foreign)));
    assert_eq!(poll(&mut reset), Poll::Ready(FunctionResponse::Complete));
    // Now the nexus is lost.
    assert_eq!(
        block_on(manage(
            &other,
            TaskManagementFunction::LogicalUnitReset(UNIT)
        )),
        FunctionResponse::IncorrectLogicalUnit
    );
}

/// The same host on another path.
fn on_another_path(initiator: &Initiator) -> Initiator {
    let nexus = Arc::new(Nexus {
        id: u64::MAX,
        initiator_port: format!("{},i,0x00023d000002", initiator.nexus.initiator_device),
        ..(*initiator.nexus).clone()
    });
    initiator.device.nexus_established(&nexus);
    Initiator {
        device: Arc::clone(&initiator.device),
        nexus,
        logical_unit: UNIT,
        data_in_buffer_size: u32::MAX,
    }
}

#[test]
fn a_unit_is_fenced_off_until_the_tasks_of_a_lost_nexus_have_ended() {
    let (volume, initiator) = setup();
    let other = Initiator::of(Arc::clone(&initiator.device));
    let second: Arc<dyn ::volume::Volume> = RamVolume::new(BLOCKS);
    let unit = LogicalUnit::new(second, options()).unwrap();
    let device = &initiator.device;
    device
        .insert_logical_unit(1, unit, LogicalUnitAccess::Any)
        .unwrap();
    while initiator.run(&TEST_UNIT_READY).status != Status::Good {}
    volume.hold();
    let mut hanging = write(&initiator, 1);
    assert!(poll(&mut hanging).is_pending());
    device.nexus_lost(&initiator.nexus);
    let again = on_another_path(&initiator);
    let on_other_unit = again.to(logical_unit_number(1));
    while on_other_unit.run(&TEST_UNIT_READY).status != Status::Good {}
    assert_eq!(on_other_unit.run(&read_10(0, 1)).status, Status::Good);
    for cdb in [&TEST_UNIT_READY[..], &read_10(0, 1), &write_10(0, 1)] {
        assert_eq!(again.run(cdb).status, Status::Busy);
    }
    for cdb in [&INQUIRY[..], &[0xa0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]] {
        assert_eq!(again.run(cdb).status, Status::Good, "{cdb:x?}");
    }
    // Also for a unit that replaces it.
    let unit = device.remove_logical_unit(0).unwrap();
    let third: Arc<dyn ::volume::Volume> = RamVolume::new(BLOCKS);
    device
        .insert_logical_unit(
            0,
            LogicalUnit::new(third, options()).unwrap(),
            LogicalUnitAccess::Any,
        )
        .unwrap();
    assert_eq!(again.run(&TEST_UNIT_READY).status, Status::Busy);
    // Other hosts are not affected.
    while other.run(&TEST_UNIT_READY).status != Status::Good {}
    assert_eq!(other.run(&read_10(0, 1)).status, Status::Good);
    volume.release(1);
    assert!(is_aborted(&poll(&mut hanging)));
    drop((hanging, unit));
    while again.run(&TEST_UNIT_READY).status != Status::Good {}
    assert_eq!(again.run(&read_10(0, 1)).status, Status::Good);
}

#[test]
fn a_unit_is_fenced_off_from_tasks_whose_end_is_not_waited_for() {
    let (volume, initiator) = setup();
    let other = Initiator::of(Arc::clone(&initiator.device));
    for host in [&initiator, &other] {
        while host.run(&TEST_UNIT_READY).status != Status::Good {}
    }
    let abort = TaskManagementFunction::AbortTask {
        logical_unit: UNIT,
        identifier: 1,
    };
    let reset = TaskManagementFunction::LogicalUnitReset(UNIT);
    // An abort fences its host; a reset fences all.
    for (function, of_others) in [(abort, Status::Good), (reset, Status::Busy)] {
        volume.hold();
        let mut hanging = write(&initiator, 1);
        assert!(poll(&mut hanging).is_pending());
        let mut managed = manage(&initiator, function);
        assert!(poll(&mut managed).is_pending());
        // Not fenced: a volume that works ends it in time.
        assert_eq!(initiator.run(&INQUIRY).status, Status::Good);
        drop(managed);
        assert_eq!(initiator.run(&TEST_UNIT_READY).status, Status::Busy);
        assert_eq!(initiator.run(&INQUIRY).status, Status::Good);
        assert_eq!(other.run(&TEST_UNIT_READY).status, of_others);
        volume.release(1);
        assert!(is_aborted(&poll(&mut hanging)));
        for host in [&initiator, &other] {
            while host.run(&TEST_UNIT_READY).status == Status::CheckCondition {}
            assert_eq!(host.run(&TEST_UNIT_READY).status, Status::Good);
        }
    }
}

#[test]
fn only_read_and_verify_fence_nothing() {
    let verify_10 = [0x2f, 0, 0, 0, 0, 0, 0, 0, 1, 0];
    let synchronize_cache = [0x35, 0, 0, 0, 0, 0, 0, 0, 1, 0];
    let abort = TaskManagementFunction::AbortTask {
        logical_unit: UNIT,
        identifier: 1,
    };
    let reset = TaskManagementFunction::LogicalUnitReset(UNIT);
    for (cdb, status) in [
        (read_10(0, 1), Status::Good),
        (verify_10, Status::Good),
        (synchronize_cache, Status::Busy),
    ] {
        // `None`: the nexus is lost.
        for function in [Some(abort), Some(reset), None] {
            let (volume, initiator) = setup();
            while initiator.run(&TEST_UNIT_READY).status != Status::Good {}
            volume.hold();
            let simple = TaskAttribute::Simple;
            let mut hanging = initiator.execute(1, simple, &cdb, Sent::boxed(&[]));
            assert!(poll(&mut hanging).is_pending());
            if let Some(function) = function {
                let mut managed = manage(&initiator, function);
                assert!(poll(&mut managed).is_pending());
            } else {
                initiator.device.nexus_lost(&initiator.nexus);
            }
            let again = on_another_path(&initiator);
            while again.run(&TEST_UNIT_READY).status == Status::CheckCondition {}
            assert_eq!(again.run(&TEST_UNIT_READY).status, status, "{cdb:x?}");
            volume.release(1);
            assert!(is_aborted(&poll(&mut hanging)));
            while again.run(&TEST_UNIT_READY).status == Status::CheckCondition {}
            assert_eq!(again.run(&TEST_UNIT_READY).status, Status::Good);
        }
    }
}

#[test]
fn a_removed_unit_keeps_its_volume_until_its_last_task() {
    let (volume, initiator) = setup();
    volume.hold();
    let mut task = read(&initiator, 1, TaskAttribute::Simple);
    assert!(poll(&mut task).is_pending());
    drop(initiator.device.remove_logical_unit(0).unwrap());
    assert_eq!(Arc::strong_count(&volume), 2);
    volume.release(1);
    assert!(is_good(&poll(&mut task)));
    drop(task);
    assert_eq!(Arc::strong_count(&volume), 1);
}
