//! Reservations, as hosts make and meet them.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use super::{
    Broken, Initiator, POWER_ON, RamVolume, Sent, TEST_UNIT_READY, UNIT, block_on, has_status,
    is_good, manage, options, pattern, poll, product, read_10, setup, stuck_write, write_10,
};
use crate::address::logical_unit_number;
use crate::sam::{
    Completion, LocalBoxFuture, Nexus, Outcome, ScsiTarget, Status, TaskAttribute,
    TaskManagementFunction,
};
use crate::{
    Device, LogicalUnit, LogicalUnitAccess, PersistentReservations, ReservationStore, TargetPort,
};

const REGISTER: u8 = 0x00;
const RESERVE: u8 = 0x01;
const RELEASE: u8 = 0x02;
const CLEAR: u8 = 0x03;
const PREEMPT: u8 = 0x04;
const PREEMPT_AND_ABORT: u8 = 0x05;
const REGISTER_AND_IGNORE: u8 = 0x06;
const REGISTER_AND_MOVE: u8 = 0x07;

const SPEC_I_PT: u8 = 0x08;
const ALL_TG_PT: u8 = 0x04;
const APTPL: u8 = 0x01;

/// Of REGISTER AND MOVE.
const UNREG: u8 = 0x02;

const WE: u8 = 0x1;
const EA: u8 = 0x3;
const WE_RO: u8 = 0x5;
const WE_AR: u8 = 0x7;
const EA_AR: u8 = 0x8;
const ALL_TYPES: [u8; 6] = [1, 3, 5, 6, 7, 8];

const RESERVATIONS_PREEMPTED: (u8, u8, u8) = (6, 0x2a, 0x03);
const RESERVATIONS_RELEASED: (u8, u8, u8) = (6, 0x2a, 0x04);
const REGISTRATIONS_PREEMPTED: (u8, u8, u8) = (6, 0x2a, 0x05);
const INVALID_FIELD_IN_PARAMETER_LIST: (u8, u8, u8) = (5, 0x26, 0);
const LENGTH_ERROR: (u8, u8, u8) = (5, 0x1a, 0);

const RESERVE_6: [u8; 6] = [0x16, 0, 0, 0, 0, 0];
const RELEASE_6: [u8; 6] = [0x17, 0, 0, 0, 0, 0];
const RESERVE_10: [u8; 10] = [0x56, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const RELEASE_10: [u8; 10] = [0x57, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const MODE_SENSE: [u8; 6] = [0x1a, 0, 0x3f, 0, 255, 0];

fn cdb(action: u8, kind: u8, length: usize) -> [u8; 10] {
    let [.., high, low] = (length as u32).to_be_bytes();
    [0x5f, action, kind, 0, 0, 0, 0, high, low, 0]
}

fn list(key: u64, new_key: u64, flags: u8) -> Vec<u8> {
    let mut list = [key.to_be_bytes(), new_key.to_be_bytes(), [0; 8]].concat();
    list[20] = flags;
    list
}

fn transport_id(name: &str) -> Vec<u8> {
    let length = (name.len() + 1).next_multiple_of(4).max(20);
    let format = if name.contains(",i,0x") { 0x45 } else { 0x05 };
    let mut id = vec![format, 0, 0, length as u8];
    id.extend_from_slice(name.as_bytes());
    id.resize(4 + length, 0);
    id
}

impl Initiator {
    fn send_out(&self, action: u8, kind: u8, list: &[u8]) -> Completion {
        self.run_with(&cdb(action, kind, list.len()), Sent::boxed(list))
    }

    fn out(&self, action: u8, kind: u8, key: u64, new_key: u64) -> Status {
        self.send_out(action, kind, &list(key, new_key, 0)).status
    }

    fn register(&self, key: u64) {
        assert_eq!(self.out(REGISTER, 0, 0, key), Status::Good);
    }

    fn register_with(&self, new_key: u64, flags: u8, ids: &[&str]) -> Completion {
        let mut list = list(0, new_key, flags);
        if flags & SPEC_I_PT != 0 {
            let ids: Vec<u8> = ids.iter().flat_map(|id| transport_id(id)).collect();
            list.extend_from_slice(&(ids.len() as u32).to_be_bytes());
            list.extend_from_slice(&ids);
        }
        self.send_out(REGISTER, 0, &list)
    }

    fn move_to(&self, key: u64, new_key: u64, flags: u8, port: u16, id: &str) -> Completion {
        let id = transport_id(id);
        let mut list = list(key, new_key, 0);
        list[17] = flags;
        list[18..20].copy_from_slice(&port.to_be_bytes());
        list[20..24].copy_from_slice(&(id.len() as u32).to_be_bytes());
        list.extend_from_slice(&id);
        self.send_out(REGISTER_AND_MOVE, 0, &list)
    }

    fn keys(&self) -> Vec<u64> {
        let data = self.data(&[0x5e, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0]);
        let (header, keys) = data.split_at(8);
        assert_eq!(header[4..], (keys.len() as u32).to_be_bytes());
        let mut keys: Vec<_> = keys
            .chunks_exact(8)
            .map(|key| u64::from_be_bytes(key.try_into().unwrap()))
            .collect();
        keys.sort_unstable();
        keys
    }

    fn generation(&self) -> u32 {
        let data = self.data(&[0x5e, 0, 0, 0, 0, 0, 0, 0, 8, 0]);
        u32::from_be_bytes(data[..4].try_into().unwrap())
    }

    /// Key and type of the reservation.
    fn reservation(&self) -> Option<(u64, u8)> {
        let data = self.data(&[0x5e, 1, 0, 0, 0, 0, 0, 0, 255, 0]);
        let body = &data[8..];
        (!body.is_empty()).then(|| {
            assert_eq!((body.len(), data[7]), (16, 16));
            (u64::from_be_bytes(body[..8].try_into().unwrap()), body[13])
        })
    }

    fn writes(&self) -> bool {
        let completion = self.run_with(&write_10(0, 1), Sent::boxed(&pattern(1, 1)));
        assert!(matches!(
            completion.status,
            Status::Good | Status::ReservationConflict
        ));
        completion.status == Status::Good
    }

    fn reads(&self) -> bool {
        let status = self.run(&read_10(0, 1)).status;
        assert!(matches!(status, Status::Good | Status::ReservationConflict));
        status == Status::Good
    }

    /// The unit attentions it has, in order; they are gone then.
    fn told(&self) -> Vec<(u8, u8, u8)> {
        std::iter::from_fn(|| {
            let data = self.data(&[0x03, 0, 0, 0, 252, 0]);
            let sense = (data[2], data[12], data[13]);
            (sense.0 != 0).then_some(sense)
        })
        .collect()
    }

    fn port(&self) -> &str {
        &self.nexus.initiator_port
    }
}

fn three() -> (Initiator, Initiator, Initiator) {
    let (_, first) = setup();
    let second = Initiator::of(Arc::clone(&first.device));
    let third = Initiator::of(Arc::clone(&first.device));
    (first, second, third)
}

#[test]
fn keys_are_registered_changed_and_removed() {
    let (first, second, _) = three();
    assert_eq!(first.generation(), 0);
    first.register(0xa);
    assert_eq!(first.out(REGISTER, 0, 0, 0xb), Status::ReservationConflict);
    assert_eq!(second.out(REGISTER, 0, 9, 0xb), Status::ReservationConflict);
    assert_eq!(first.out(REGISTER, 0, 0xa, 0xc), Status::Good);
    second.register(0xb);
    assert_eq!(first.keys(), [0xb, 0xc]);
    // A register of nothing by nobody.
    let third = Initiator::of(Arc::clone(&first.device));
    assert_eq!(third.out(REGISTER, 0, 0, 0), Status::Good);
    assert_eq!(third.out(REGISTER_AND_IGNORE, 0, 5, 0), Status::Good);
    assert_eq!(first.generation(), 3);
    assert_eq!(first.out(REGISTER_AND_IGNORE, 0, 0x77, 0xd), Status::Good);
    assert_eq!(second.keys(), [0xb, 0xd]);
    assert_eq!(first.out(REGISTER, 0, 0xd, 0), Status::Good);
    assert_eq!(second.out(REGISTER_AND_IGNORE, 0, 0, 0), Status::Good);
    assert_eq!(first.keys(), []);
    assert_eq!(first.generation(), 6);
}

#[test]
fn read_keys_tells_the_whole_length_when_cut() {
    let (first, second, _) = three();
    first.register(1);
    second.register(2);
    let cut = first.data(&[0x5e, 0, 0, 0, 0, 0, 0, 0, 8, 0]);
    assert_eq!(cut, [0, 0, 0, 2, 0, 0, 0, 16]);
}

#[test]
fn every_type_is_reserved_reported_met_and_released() {
    for kind in ALL_TYPES {
        let (holder, registrant, other) = three();
        holder.register(0xa);
        registrant.register(0xb);
        assert_eq!(other.out(RESERVE, kind, 0, 0), Status::ReservationConflict);
        assert_eq!(holder.out(RESERVE, kind, 1, 0), Status::ReservationConflict);
        let before = holder.generation();
        assert_eq!(holder.out(RESERVE, kind, 0xa, 0), Status::Good);
        assert_eq!(holder.generation(), before);
        let by_all = kind >= WE_AR;
        let for_registrants = kind >= WE_RO;
        let key = if by_all { 0 } else { 0xa };
        assert_eq!(other.reservation(), Some((key, kind)));
        // Again the same, by who holds it.
        assert_eq!(holder.out(RESERVE, kind, 0xa, 0), Status::Good);
        let again = if by_all {
            Status::Good
        } else {
            Status::ReservationConflict
        };
        assert_eq!(registrant.out(RESERVE, kind, 0xb, 0), again, "{kind}");
        let another = if kind == WE { EA } else { WE };
        assert_eq!(
            holder.out(RESERVE, another, 0xa, 0),
            Status::ReservationConflict
        );
        let others_read = kind % 2 == 1 && kind != EA;
        assert!(holder.writes() && holder.reads());
        assert_eq!(registrant.writes(), for_registrants, "{kind}");
        assert_eq!(registrant.reads(), for_registrants || others_read, "{kind}");
        assert!(!other.writes());
        assert_eq!(other.reads(), others_read, "{kind}");
        // Not conflicting, whatever is reserved.
        for cdb in [
            &TEST_UNIT_READY[..],
            &[0x12, 0, 0, 0, 96, 0],
            &[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            &[0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0],
            &[0x4d, 0, 0x40, 0, 0, 0, 0, 0, 255, 0],
            &[0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 0, 0],
            &[0xa3, 0x0a, 0, 0, 0, 0, 0, 0, 0, 255, 0, 0],
            &[0x5e, 2, 0, 0, 0, 0, 0, 0, 255, 0],
            &[0x1b, 0, 0, 0, 1, 0],
        ] {
            assert_eq!(other.run(cdb).status, Status::Good, "{kind} {cdb:x?}");
        }
        for cdb in [
            &[0x1b, 0, 0, 0, 0, 0][..],
            &[0x1d, 4, 0, 0, 0, 0],
            &[0x35, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        ] {
            assert_eq!(
                other.run(cdb).status,
                Status::ReservationConflict,
                "{cdb:x?}"
            );
        }
        let sensed = if others_read {
            Status::Good
        } else {
            Status::ReservationConflict
        };
        assert_eq!(other.run(&MODE_SENSE).status, sensed);
        // Who does not hold it releases nothing; who does must name the type.
        if !by_all {
            assert_eq!(registrant.out(RELEASE, kind, 0xb, 0), Status::Good);
            assert!(other.reservation().is_some());
        }
        let wrong = cdb(RELEASE, another, 24);
        assert_eq!(holder.code(&wrong, &list(0xa, 0, 0)), (5, 0x26, 4));
        assert_eq!(holder.out(RELEASE, kind, 0xa, 0), Status::Good);
        assert_eq!(other.reservation(), None);
        assert!(other.writes());
        assert_eq!(holder.out(RELEASE, kind, 0xa, 0), Status::Good);
        let told = if for_registrants {
            vec![RESERVATIONS_RELEASED]
        } else {
            vec![]
        };
        assert_eq!(registrant.told(), told, "{kind}");
        assert_eq!((holder.told(), other.told()), (vec![], vec![]));
        assert_eq!(holder.keys(), [0xa, 0xb]);
    }
}

#[test]
fn a_reservation_ends_with_its_holder() {
    for kind in ALL_TYPES {
        let (holder, registrant, _) = three();
        holder.register(0xa);
        registrant.register(0xb);
        assert_eq!(holder.out(RESERVE, kind, 0xa, 0), Status::Good);
        assert_eq!(holder.out(REGISTER, 0, 0xa, 0), Status::Good);
        if kind >= WE_AR {
            assert_eq!(holder.reservation(), Some((0, kind)));
            assert!(!holder.writes());
            assert_eq!(registrant.out(REGISTER, 0, 0xb, 0), Status::Good);
        }
        assert_eq!(holder.reservation(), None, "{kind}");
        let told = if matches!(kind, 5 | 6) {
            vec![RESERVATIONS_RELEASED]
        } else {
            vec![]
        };
        assert_eq!(registrant.told(), told, "{kind}");
    }
}

#[test]
fn clear_ends_all_and_tells_the_others() {
    let (first, second, other) = three();
    first.register(0xa);
    second.register(0xb);
    assert_eq!(first.out(RESERVE, EA, 0xa, 0), Status::Good);
    assert_eq!(other.out(CLEAR, 0, 0xa, 0), Status::ReservationConflict);
    assert_eq!(second.out(CLEAR, 0, 0xb, 0), Status::Good);
    assert_eq!((second.keys(), second.reservation()), (vec![], None));
    assert_eq!(second.generation(), 3);
    assert_eq!(first.told(), [RESERVATIONS_PREEMPTED]);
    assert_eq!((second.told(), other.told()), (vec![], vec![]));
}

#[test]
fn preempt_takes_the_reservation_and_the_registrations_of_its_holder() {
    let (holder, preempter, third) = three();
    holder.register(0xa);
    preempter.register(0xb);
    third.register(0xa);
    let fourth = Initiator::of(Arc::clone(&holder.device));
    fourth.register(0xd);
    assert_eq!(holder.out(RESERVE, WE, 0xa, 0), Status::Good);
    assert_eq!(
        preempter.out(PREEMPT, WE_RO, 9, 0xa),
        Status::ReservationConflict
    );
    assert_eq!(preempter.out(PREEMPT, WE_RO, 0xb, 0xa), Status::Good);
    assert_eq!(preempter.keys(), [0xb, 0xd]);
    assert_eq!(preempter.reservation(), Some((0xb, WE_RO)));
    assert_eq!(preempter.generation(), 5);
    // A conflict comes before this unit attention (SAM-5 5.3.3).
    assert!(!holder.writes());
    assert_eq!(holder.told(), [REGISTRATIONS_PREEMPTED]);
    assert_eq!(third.told(), [REGISTRATIONS_PREEMPTED]);
    assert_eq!(fourth.told(), [RESERVATIONS_RELEASED]);
    assert_eq!(preempter.told(), []);
    // Its own, to change the type: without a change nobody is told.
    assert_eq!(preempter.out(PREEMPT, WE_RO, 0xb, 0xb), Status::Good);
    assert_eq!(fourth.told(), []);
    assert_eq!(preempter.out(PREEMPT, EA, 0xb, 0xb), Status::Good);
    assert_eq!(preempter.reservation(), Some((0xb, EA)));
    assert_eq!(fourth.told(), [RESERVATIONS_RELEASED]);
    let wrong = cdb(PREEMPT, 2, 24);
    assert_eq!(preempter.code(&wrong, &list(0xb, 0xb, 0)), (5, 0x24, 0));
}

#[test]
fn preempt_of_another_key_only_removes_registrations() {
    let (holder, preempter, third) = three();
    holder.register(0xa);
    preempter.register(0xb);
    third.register(0xc);
    // Nobody holds anything; the type does not matter.
    assert_eq!(preempter.out(PREEMPT, 0xff, 0xb, 0xc), Status::Good);
    assert_eq!(third.told(), [REGISTRATIONS_PREEMPTED]);
    assert_eq!(
        preempter.out(PREEMPT, 0, 0xb, 0xc),
        Status::ReservationConflict
    );
    third.register(0xc);
    assert_eq!(holder.out(RESERVE, WE, 0xa, 0), Status::Good);
    assert_eq!(preempter.out(PREEMPT, EA, 0xb, 0xc), Status::Good);
    assert_eq!(preempter.reservation(), Some((0xa, WE)));
    assert_eq!(preempter.keys(), [0xa, 0xb]);
    let nobody = cdb(PREEMPT, EA, 24);
    assert_eq!(
        preempter.code(&nobody, &list(0xb, 0, 0)),
        INVALID_FIELD_IN_PARAMETER_LIST
    );
    // Its own registration, silently.
    assert_eq!(preempter.out(PREEMPT, EA, 0xb, 0xb), Status::Good);
    assert_eq!(holder.keys(), [0xa]);
    assert_eq!((preempter.told(), holder.told()), (vec![], vec![]));
}

#[test]
fn preempt_of_all_registrants_takes_key_zero_for_all_others() {
    let (first, second, third) = three();
    first.register(0xa);
    second.register(0xb);
    third.register(0xc);
    assert_eq!(first.out(RESERVE, EA_AR, 0xa, 0), Status::Good);
    // One of them only loses its registration.
    assert_eq!(second.out(PREEMPT, WE, 0xb, 0xc), Status::Good);
    assert_eq!(second.reservation(), Some((0, EA_AR)));
    assert_eq!(third.told(), [REGISTRATIONS_PREEMPTED]);
    assert_eq!(second.out(PREEMPT, WE, 0xb, 0), Status::Good);
    assert_eq!(second.reservation(), Some((0xb, WE)));
    assert_eq!(second.keys(), [0xb]);
    assert_eq!(first.told(), [REGISTRATIONS_PREEMPTED]);
}

#[test]
fn preempt_and_abort_waits_for_what_it_aborted() {
    let (volume, victim) = setup();
    let preempter = Initiator::of(Arc::clone(&victim.device));
    let bystander = Initiator::of(Arc::clone(&victim.device));
    victim.register(0xa);
    preempter.register(0xb);
    let mut waiting = stuck_write(&victim, 1);
    let mut others = stuck_write(&bystander, 1);
    assert!(poll(&mut waiting).is_pending() && poll(&mut others).is_pending());
    volume.hold();
    let mut in_volume = victim.execute(
        2,
        TaskAttribute::Simple,
        &write_10(0, 1),
        Sent::boxed(&pattern(1, 1)),
    );
    assert!(poll(&mut in_volume).is_pending());
    let mut preempt = preempter.execute(
        3,
        TaskAttribute::Simple,
        &cdb(PREEMPT_AND_ABORT, EA, 24),
        Sent::boxed(&list(0xb, 0xa, 0)),
    );
    assert!(poll(&mut preempt).is_pending());
    assert!(has_status(&poll(&mut waiting), Status::TaskAborted));
    assert!(poll(&mut preempt).is_pending());
    assert!(poll(&mut in_volume).is_pending());
    volume.release(1);
    assert!(has_status(&poll(&mut in_volume), Status::TaskAborted));
    assert!(is_good(&poll(&mut preempt)));
    assert!(poll(&mut others).is_pending());
    assert_eq!(victim.told(), [REGISTRATIONS_PREEMPTED]);
}

#[test]
fn a_preempt_that_waits_is_aborted_itself_when_its_own_host_is_preempted() {
    let (volume, slow) = setup();
    let first = Initiator::of(Arc::clone(&slow.device));
    let second = Initiator::of(Arc::clone(&slow.device));
    slow.register(0xa);
    first.register(0xb);
    second.register(0xc);
    volume.hold();
    let mut in_volume = super::read(&slow, 1, TaskAttribute::Simple);
    assert!(poll(&mut in_volume).is_pending());
    let preempt = |by: &Initiator, key, victim| {
        by.execute(
            2,
            TaskAttribute::Simple,
            &cdb(PREEMPT_AND_ABORT, EA, 24),
            Sent::boxed(&list(key, victim, 0)),
        )
    };
    let mut waits = preempt(&first, 0xb, 0xa);
    assert!(poll(&mut waits).is_pending());
    let mut ends_it = preempt(&second, 0xc, 0xb);
    assert!(poll(&mut ends_it).is_pending());
    assert!(has_status(&poll(&mut waits), Status::TaskAborted));
    assert!(is_good(&poll(&mut ends_it)));
    volume.release(1);
    assert!(has_status(&poll(&mut in_volume), Status::TaskAborted));
}

#[test]
fn preempt_and_abort_waits_for_steps_of_copies_that_are_tasks_elsewhere() {
    let (victim, preempter, _) = three();
    victim.register(0xa);
    preempter.register(0xb);
    let unit = victim.device.logical_unit(0).unwrap();
    let step = block_on(unit.ranges.write(4096..8192));
    let mut preempt = preempter.execute(
        1,
        TaskAttribute::Simple,
        &cdb(PREEMPT_AND_ABORT, EA, 24),
        Sent::boxed(&list(0xb, 0xa, 0)),
    );
    assert!(poll(&mut preempt).is_pending());
    drop(step);
    assert!(is_good(&poll(&mut preempt)));
    assert!(preempter.writes());
}

#[test]
fn registrations_outlive_sessions_and_resets() {
    let (first, other, _) = three();
    first.register(0xa);
    assert_eq!(first.out(RESERVE, WE, 0xa, 0), Status::Good);
    first.device.nexus_lost(&first.nexus);
    assert!(!other.writes());
    assert_eq!(other.keys(), [0xa]);
    assert_eq!(
        block_on(manage(
            &other,
            TaskManagementFunction::LogicalUnitReset(UNIT)
        )),
        crate::sam::FunctionResponse::Complete
    );
    assert_eq!(other.told(), [(6, 0x29, 3)]);
    assert!(!other.writes());
    // The same port comes back, in another session.
    let nexus = Arc::new(Nexus {
        id: u64::MAX,
        ..(*first.nexus).clone()
    });
    first.device.nexus_established(&nexus);
    let again = Initiator {
        nexus,
        device: Arc::clone(&first.device),
        ..first
    };
    assert_eq!(again.told(), [POWER_ON]);
    assert!(again.writes());
    assert_eq!(again.out(RELEASE, WE, 0xa, 0), Status::Good);
}

fn ports(device: &Device, ports: &[u16]) {
    let port = |&relative_target_port| TargetPort {
        relative_target_port,
        target_port_group: 1,
        name: format!("iqn.target,t,0x{relative_target_port:04x}"),
    };
    device.set_target_ports(ports.iter().map(port).collect());
}

fn through(initiator: &Initiator, id: u64, relative_target_port: u16) -> Initiator {
    let nexus = Arc::new(Nexus {
        id,
        relative_target_port,
        ..(*initiator.nexus).clone()
    });
    initiator.device.nexus_established(&nexus);
    let initiator = Initiator {
        nexus,
        device: Arc::clone(&initiator.device),
        ..*initiator
    };
    initiator.told();
    initiator
}

#[test]
fn all_target_ports_are_registered_and_removed_at_once() {
    let (first, other, _) = three();
    ports(&first.device, &[3, 4]);
    let second_path = through(&first, 1 << 40, 4);
    assert_eq!((first.told().len(), other.told().len()), (1, 1));
    first.register(0xa);
    assert!(first.out(RESERVE, WE_RO, 0xa, 0) == Status::Good && !second_path.writes());
    assert_eq!(first.out(REGISTER, 0, 0xa, 0), Status::Good);
    assert_eq!(
        first.register_with(0xb, ALL_TG_PT, &[]).status,
        Status::Good
    );
    assert_eq!(first.keys(), [0xb, 0xb]);
    assert_eq!(second_path.out(RESERVE, WE_RO, 0xb, 0), Status::Good);
    assert!(first.writes() && second_path.writes() && !other.writes());
    // READ FULL STATUS: one registration for each port, one of them the holder.
    let data = first.data(&[0x5e, 3, 0, 0, 0, 0, 0, 0xff, 0xff, 0]);
    let id = transport_id(first.port());
    let descriptor = &data[8 + 24 + id.len()..];
    assert_eq!(data.len(), 8 + 2 * (24 + id.len()));
    assert_eq!(data[8..16], 0xb_u64.to_be_bytes());
    assert_eq!((data[20], data[21], &data[26..28]), (0, 0, &[0, 3][..]));
    assert_eq!(descriptor[12..14], [1, WE_RO]);
    assert_eq!(descriptor[18..24], [0, 4, 0, 0, 0, id.len() as u8]);
    assert_eq!(descriptor[24..], id);
    let mut removal = list(0xb, 0, ALL_TG_PT);
    assert_eq!(first.send_out(REGISTER, 0, &removal).status, Status::Good);
    assert_eq!((first.keys(), first.reservation()), (vec![], None));
    // A key of its own at the other port is not overwritten, unless it says so.
    second_path.register(0xe);
    removal = list(0, 0xf, ALL_TG_PT);
    let refused = first.send_out(REGISTER, 0, &removal).status;
    assert_eq!(refused, Status::ReservationConflict);
    let forced = first.send_out(REGISTER_AND_IGNORE, 0, &removal).status;
    assert_eq!((forced, first.keys()), (Status::Good, vec![0xf, 0xf]));
}

#[test]
fn initiator_ports_are_registered_for_others() {
    let (first, second, _) = three();
    let absent = "iqn.2024-01.org.example:absent,i,0x00023d000009";
    let ids = [absent, second.nexus.initiator_device.as_str()];
    assert_eq!(
        first.register_with(0xa, SPEC_I_PT, &ids).status,
        Status::Good
    );
    assert_eq!(first.keys(), [0xa, 0xa, 0xa]);
    assert_eq!(second.out(RESERVE, WE, 0xa, 0), Status::Good);
    // Only who is not registered itself may do that.
    let again = first.register_with(0xa, SPEC_I_PT, &ids);
    assert_eq!(again.status, Status::ReservationConflict);
    let mut same_key = list(0xa, 0xa, SPEC_I_PT);
    same_key.extend_from_slice(&[0; 4]);
    let cdb_same = cdb(REGISTER, 0, same_key.len());
    assert_eq!(
        first.code(&cdb_same, &same_key),
        INVALID_FIELD_IN_PARAMETER_LIST
    );
    let (first, second, third) = three();
    let refused = |ids: &[&str]| {
        let completion = first.register_with(0xa, SPEC_I_PT, ids);
        assert_eq!(first.keys(), []);
        completion.status
    };
    // Nobody known has that name.
    assert_eq!(
        refused(&["iqn.2024-01.org.example:nobody"]),
        Status::CheckCondition
    );
    assert_eq!(
        refused(&["iqn.2024-01.org.example:nobody,i,zero"]),
        Status::CheckCondition
    );
    // Not with another action.
    let with_ids = [list(0, 0xa, SPEC_I_PT), vec![0; 4]].concat();
    let ignoring = cdb(REGISTER_AND_IGNORE, 0, with_ids.len());
    assert_eq!(
        first.code(&ignoring, &with_ids),
        INVALID_FIELD_IN_PARAMETER_LIST
    );
    // One that has another key: none of them is registered.
    third.register(0xc);
    let completion = first.register_with(0xa, SPEC_I_PT, &[second.port(), third.port()]);
    assert_eq!(completion.status, Status::ReservationConflict);
    assert_eq!(first.keys(), [0xc]);
    // A host that does not see the unit has nothing to register there.
    let names = [&first, &third].map(|host| host.nexus.initiator_device.clone());
    let access = LogicalUnitAccess::Initiators(names.into_iter().collect());
    first.device.set_access(0, access).unwrap();
    let completion = first.register_with(0xa, SPEC_I_PT, &[second.port()]);
    assert_eq!(completion.status, Status::CheckCondition);
}

#[test]
fn registrations_are_bounded() {
    let (first, second, _) = three();
    let ids: Vec<_> = (0..1023)
        .map(|isid| format!("iqn.a:{isid},i,0x{isid:012x}"))
        .collect();
    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
    let (some, rest) = ids.split_at(1000);
    assert_eq!(
        first.register_with(0xa, SPEC_I_PT, some).status,
        Status::Good
    );
    let more = [rest, &["iqn.b,i,0x1"]].concat();
    let full = second.register_with(0xb, SPEC_I_PT, &more);
    assert_eq!(super::seen(&full).code, (0x55, 0x04));
    assert_eq!(first.keys().len(), 1001);
    assert_eq!(
        second.register_with(0xb, SPEC_I_PT, &rest[1..]).status,
        Status::Good
    );
    assert_eq!(first.keys().len(), 1024);
}

#[test]
fn a_reservation_moves_with_a_registration() {
    let (holder, second, third) = three();
    ports(&holder.device, &[3, 4]);
    for initiator in [&holder, &second, &third] {
        initiator.told();
    }
    holder.register(0xa);
    let to = second.port();
    let moved = |key, new_key, flags, port, id: &str| holder.move_to(key, new_key, flags, port, id);
    assert_eq!(
        moved(0xa, 0xb, 0, 3, to).status,
        Status::ReservationConflict
    );
    assert_eq!(holder.out(RESERVE, WE, 0xa, 0), Status::Good);
    assert_eq!(
        moved(0x9, 0xb, 0, 3, to).status,
        Status::ReservationConflict
    );
    third.register(0xc);
    let not_his = third.move_to(0xc, 0xb, 0, 3, to);
    assert_eq!(not_his.status, Status::ReservationConflict);
    for refused in [
        moved(0xa, 0, 0, 3, to),
        moved(0xa, 0xb, 0, 7, to),
        moved(0xa, 0xb, 0, 3, holder.port()),
        moved(0xa, 0xb, 0, 3, &second.nexus.initiator_device),
        moved(0xa, 0xb, APTPL, 3, to),
    ] {
        assert_eq!(super::seen(&refused).code, (0x26, 0));
    }
    let before = holder.generation();
    assert_eq!(moved(0xa, 0xb, 0, 3, to).status, Status::Good);
    assert_eq!(holder.generation(), before + 1);
    assert_eq!(holder.reservation(), Some((0xb, WE)));
    assert_eq!(holder.keys(), [0xa, 0xb, 0xc]);
    assert!(!holder.writes() && second.writes());
    let back = second.move_to(0xb, 0xd, UNREG, 3, holder.port());
    assert_eq!(back.status, Status::Good);
    assert_eq!(holder.keys(), [0xc, 0xd]);
    assert!(holder.writes() && !second.writes());
    // What all registrants hold cannot move.
    assert_eq!(holder.out(PREEMPT, WE_AR, 0xd, 0xd), Status::Good);
    assert_eq!(
        moved(0xd, 0xb, 0, 3, to).status,
        Status::ReservationConflict
    );
}

#[test]
fn lists_of_another_length_are_refused() {
    let (first, _, _) = three();
    for length in [0, 8, 23, 25, 28] {
        let list = vec![0; length];
        for action in [REGISTER, RESERVE, REGISTER_AND_IGNORE, REGISTER_AND_MOVE] {
            assert_eq!(first.code(&cdb(action, 1, length), &list), LENGTH_ERROR);
        }
    }
    let mut long = cdb(REGISTER, 0, 0);
    long[5] = 0x10;
    assert_eq!(first.code(&long, &[]), LENGTH_ERROR);
    // Less comes than the CDB says.
    assert_eq!(first.code(&cdb(REGISTER, 0, 24), &[0; 16]), LENGTH_ERROR);
    // REPLACE LOST RESERVATION, and what is no action.
    for action in [0x08, 0x1f] {
        assert_eq!(first.code(&cdb(action, 0, 24), &[0; 24]), (5, 0x24, 0));
    }
}

#[test]
fn capabilities_are_true() {
    let (first, _, _) = three();
    let capabilities = [0x5e, 2, 0, 0, 0, 0, 0, 0, 255, 0];
    assert_eq!(
        first.data(&capabilities),
        [0, 8, 0x1c, 0x80, 0xea, 0x01, 0, 0]
    );
    // Nothing survives a loss of power here.
    let persistent = first.register_with(0xa, APTPL, &[]);
    assert_eq!(super::seen(&persistent).code, (0x26, 0));
    assert_eq!(first.keys(), []);
}

#[test]
fn reserve_keeps_others_out_until_release_reset_or_logout() {
    for (reserve, release) in [(&RESERVE_6[..], &RELEASE_6[..]), (&RESERVE_10, &RELEASE_10)] {
        let (first, second, _) = three();
        let is_free = || {
            let free = second.run(reserve).status == Status::Good;
            if free {
                second.data(release);
            }
            free
        };
        first.data(reserve);
        first.data(reserve);
        assert!(!is_free());
        assert!(first.writes() && !second.writes() && !second.reads());
        for cdb in [&TEST_UNIT_READY[..], &MODE_SENSE] {
            assert_eq!(second.run(cdb).status, Status::ReservationConflict);
        }
        for cdb in [
            &[0x12, 0, 0, 0, 96, 0][..],
            &[0x03, 0, 0, 0, 18, 0],
            &[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        ] {
            assert_eq!(second.run(cdb).status, Status::Good);
        }
        // Persistent reservations are not for now, for anybody.
        for initiator in [&first, &second] {
            assert_eq!(
                initiator.out(REGISTER, 0, 0, 1),
                Status::ReservationConflict
            );
            let keys = initiator.run(&[0x5e, 0, 0, 0, 0, 0, 0, 0, 8, 0]);
            assert_eq!(keys.status, Status::ReservationConflict);
        }
        second.data(release);
        assert!(!is_free());
        first.data(release);
        assert!(is_free());
        first.data(reserve);
        block_on(manage(
            &second,
            TaskManagementFunction::LogicalUnitReset(UNIT),
        ));
        second.told();
        assert!(is_free());
        first.told();
        first.data(reserve);
        block_on(manage(&second, TaskManagementFunction::TargetReset));
        second.told();
        assert!(is_free());
        first.told();
        first.data(reserve);
        first.device.nexus_lost(&first.nexus);
        assert!(is_free());
    }
}

#[test]
fn a_host_that_loses_the_unit_holds_nothing_there() {
    let (first, second, _) = three();
    first.data(&RESERVE_6);
    let only = LogicalUnitAccess::Initiators([second.nexus.initiator_device.clone()].into());
    first.device.set_access(0, only).unwrap();
    assert!(second.writes());
}

#[test]
fn a_nexus_that_is_gone_reserves_nothing() {
    let (first, second, _) = three();
    first.device.nexus_lost(&first.nexus);
    let mut late = first.execute(1, TaskAttribute::Simple, &RESERVE_6, Sent::boxed(&[]));
    assert!(super::is_aborted(&poll(&mut late)));
    assert!(second.writes());
}

#[test]
fn reserve_and_release_beside_registrations() {
    for kind in ALL_TYPES {
        let (holder, registrant, other) = three();
        holder.register(0xa);
        registrant.register(0xb);
        for initiator in [&holder, &registrant, &other] {
            let status = |cdb: &[u8]| initiator.run(cdb).status;
            assert_eq!(status(&RESERVE_6), Status::ReservationConflict);
            assert_eq!(status(&RELEASE_10), Status::ReservationConflict);
        }
        assert_eq!(holder.out(RESERVE, kind, 0xa, 0), Status::Good);
        let status = |initiator: &Initiator| {
            let reserve = initiator.run(&RESERVE_6).status;
            assert_eq!(initiator.run(&RELEASE_6).status, reserve);
            reserve
        };
        assert_eq!(status(&holder), Status::Good);
        let registrants = if kind >= WE_RO {
            Status::Good
        } else {
            Status::ReservationConflict
        };
        assert_eq!(status(&registrant), registrants, "{kind}");
        assert_eq!(status(&other), Status::ReservationConflict);
        assert!(holder.reservation().is_some());
    }
}

#[test]
fn a_reset_comes_before_a_conflict_and_a_conflict_before_the_rest() {
    let (holder, other, _) = three();
    holder.register(0xa);
    assert_eq!(holder.out(RESERVE, EA, 0xa, 0), Status::Good);
    let fresh = Initiator::fresh(Arc::clone(&holder.device));
    assert_eq!(fresh.code(&read_10(0, 1), &[]), POWER_ON);
    assert_eq!(
        fresh.run(&read_10(0, 1)).status,
        Status::ReservationConflict
    );
    holder.device.set_name("another");
    assert_eq!(
        other.run(&read_10(0, 1)).status,
        Status::ReservationConflict
    );
    assert_eq!(other.code(&TEST_UNIT_READY, &[]), (6, 0x3f, 0x03));
}

/// A store in memory that can fail.
#[derive(Debug, Default)]
struct Stored {
    content: Mutex<Vec<PersistentReservations>>,
    fails: AtomicBool,
}

impl Stored {
    fn last(&self) -> PersistentReservations {
        self.content
            .lock()
            .unwrap()
            .last()
            .cloned()
            .unwrap_or_default()
    }

    fn count(&self) -> usize {
        self.content.lock().unwrap().len()
    }
}

impl ReservationStore for Stored {
    fn store(
        &self,
        reservations: PersistentReservations,
    ) -> LocalBoxFuture<'_, Result<(), io::Error>> {
        Box::pin(async move {
            if self.fails.load(Ordering::Relaxed) {
                return Err(io::Error::other("no space"));
            }
            self.content.lock().unwrap().push(reservations);
            Ok(())
        })
    }
}

fn unit_with(store: &Arc<Stored>) -> LogicalUnit {
    let unit = LogicalUnit::new(RamVolume::new(super::BLOCKS), options()).unwrap();
    unit.with_reservation_store(Arc::clone(store) as _, store.last())
}

fn with_store(store: &Arc<Stored>) -> Initiator {
    let device = Arc::new(Device::new(product()));
    device
        .insert_logical_unit(0, unit_with(store), LogicalUnitAccess::Any)
        .unwrap();
    Initiator::of(device)
}

#[test]
fn what_is_to_survive_is_stored_before_good() {
    let store = Arc::new(Stored::default());
    let first = with_store(&store);
    let second = Initiator::of(Arc::clone(&first.device));
    let capabilities = [0x5e, 2, 0, 0, 0, 0, 0, 0, 255, 0];
    assert_eq!(first.data(&capabilities)[2..4], [0x1d, 0x80]);
    // Nobody asked for it yet.
    first.register(0xa);
    assert_eq!(store.count(), 0);
    assert_eq!(second.register_with(0xb, APTPL, &[]).status, Status::Good);
    assert_eq!(first.data(&capabilities)[2..4], [0x1d, 0x81]);
    assert_eq!(first.out(RESERVE, WE, 0xa, 0), Status::Good);
    let stored = store.last();
    assert_eq!(stored.registrations.len(), 2);
    let holder = stored.reservation.as_ref().unwrap().holder.as_ref();
    assert_eq!(holder.unwrap().initiator_port, first.port());
    assert_eq!(store.count(), 2);
    // Nothing new, nothing stored.
    assert_eq!(first.out(RESERVE, WE, 0xa, 0), Status::Good);
    assert_eq!(store.count(), 2);
    // A loss of power.
    let again = with_store(&store);
    assert_eq!(
        (again.keys(), again.reservation()),
        (vec![0xa, 0xb], Some((0xa, WE)))
    );
    assert_eq!(again.generation(), 0);
    assert!(!again.writes());
    assert_eq!(again.data(&capabilities)[3], 0x81);
    // The last registration says that nothing need survive.
    assert_eq!(second.out(REGISTER, 0, 0xb, 0xb), Status::Good);
    assert_eq!(store.last(), PersistentReservations::default());
    assert_eq!(with_store(&store).keys(), []);
    assert_eq!(first.keys(), [0xa, 0xb]);
}

#[test]
fn what_could_not_be_stored_did_not_happen_and_is_not_trusted() {
    let store = Arc::new(Stored::default());
    let first = with_store(&store);
    assert_eq!(first.register_with(0xa, APTPL, &[]).status, Status::Good);
    store.fails.store(true, Ordering::Relaxed);
    let reserve = cdb(RESERVE, WE, 24);
    assert_eq!(first.code(&reserve, &list(0xa, 0, 0)), (4, 0x44, 0));
    assert_eq!((first.reservation(), first.keys()), (None, vec![0xa]));
    store.fails.store(false, Ordering::Relaxed);
    let before = store.count();
    // Changes nothing, but what is stored is not known.
    assert_eq!(first.out(RELEASE, WE, 0xa, 0), Status::Good);
    assert_eq!(store.count(), before + 1);
    assert_eq!(first.out(RELEASE, WE, 0xa, 0), Status::Good);
    assert_eq!(store.count(), before + 1);
}

#[test]
fn a_disk_keeps_its_reservations_when_its_unit_is_replaced() {
    let store = Arc::new(Stored::default());
    let first = with_store(&store);
    let other = Initiator::of(Arc::clone(&first.device));
    first.register(0xa);
    assert_eq!(first.out(RESERVE, EA, 0xa, 0), Status::Good);
    let device = Arc::clone(&first.device);
    // Gone for a while, and back, though nothing of it was stored.
    device
        .replace_logical_unit(0, LogicalUnit::not_ready(options()))
        .unwrap();
    assert_eq!(other.code(&TEST_UNIT_READY, &[]), (2, 4, 0));
    device.replace_logical_unit(0, unit_with(&store)).unwrap();
    other.told();
    first.told();
    assert!(!other.reads() && first.writes());
    assert_eq!(first.keys(), [0xa]);
    // Another disk has its own.
    let mut options = options();
    options.uuid[0] ^= 1;
    let unit = LogicalUnit::new(RamVolume::new(super::BLOCKS), options).unwrap();
    device.replace_logical_unit(0, unit).unwrap();
    other.told();
    assert!(other.writes());
    assert_eq!(other.keys(), []);
}

#[test]
fn a_unit_that_was_never_ready_takes_what_is_stored() {
    let store = Arc::new(Stored::default());
    with_store(&store).register_with(0xa, APTPL, &[]);
    let device = Arc::new(Device::new(product()));
    device
        .insert_logical_unit(0, LogicalUnit::not_ready(options()), LogicalUnitAccess::Any)
        .unwrap();
    let initiator = Initiator::fresh(Arc::clone(&device));
    initiator.data(&[0x03, 0, 0, 0, 18, 0]);
    assert_eq!(
        initiator.code(&[0x5e, 0, 0, 0, 0, 0, 0, 0, 8, 0], &[]),
        (2, 4, 0)
    );
    assert!(
        device
            .logical_unit(0)
            .unwrap()
            .persistent_reservations()
            .is_none()
    );
    device.replace_logical_unit(0, unit_with(&store)).unwrap();
    initiator.told();
    assert_eq!(initiator.keys(), [0xa]);
}

#[test]
fn an_administrator_clears_what_nobody_can() {
    let store = Arc::new(Stored::default());
    let gone = with_store(&store);
    let other = Initiator::of(Arc::clone(&gone.device));
    gone.register_with(0xa, APTPL, &[]);
    assert_eq!(gone.out(RESERVE, EA, 0xa, 0), Status::Good);
    assert!(!other.writes());
    block_on(gone.device.clear_reservations(0)).unwrap();
    assert!(other.writes());
    assert_eq!(store.last(), PersistentReservations::default());
    assert_eq!(
        (gone.told(), other.told()),
        (vec![RESERVATIONS_PREEMPTED], vec![])
    );
    other.data(&RESERVE_6);
    assert!(!gone.writes());
    block_on(gone.device.clear_reservations(0)).unwrap();
    assert!(gone.writes());
}

#[test]
fn a_command_whose_data_never_comes_holds_up_no_other() {
    let (first, second, _) = three();
    let mut stuck = first.execute(
        1,
        TaskAttribute::Simple,
        &cdb(REGISTER, 0, 24),
        Box::new(Broken::Missing),
    );
    assert!(poll(&mut stuck).is_pending());
    second.register(0xb);
    assert_eq!(second.keys(), [0xb]);
}

#[test]
fn units_of_one_device_are_reserved_apart() {
    let (first, second, _) = three();
    let mut options = options();
    options.uuid[0] ^= 1;
    let unit = LogicalUnit::new(RamVolume::new(super::BLOCKS), options).unwrap();
    first
        .device
        .insert_logical_unit(1, unit, LogicalUnitAccess::Any)
        .unwrap();
    let elsewhere = [&first, &second].map(|host| {
        host.told();
        let there = host.to(logical_unit_number(1));
        there.told();
        there
    });
    first.register(0xa);
    assert_eq!(first.out(RESERVE, EA, 0xa, 0), Status::Good);
    assert!(!second.writes() && elsewhere[1].writes());
    assert_eq!(elsewhere[0].keys(), []);
}

#[test]
fn outcomes_have_no_data_of_a_command_that_conflicts() {
    let (holder, other, _) = three();
    holder.register(0xa);
    assert_eq!(holder.out(RESERVE, EA, 0xa, 0), Status::Good);
    let mut read = other.execute(1, TaskAttribute::Simple, &read_10(0, 1), Sent::boxed(&[]));
    let std::task::Poll::Ready(Outcome::Completed(completion)) = poll(&mut read) else {
        panic!("not completed");
    };
    assert!(completion.data_in.is_none() && completion.sense.is_empty());
    assert_eq!(
        (completion.data_in_wanted, completion.data_out_wanted),
        (0, 0)
    );
    let statistics = other.device.logical_unit(0).unwrap().statistics();
    assert_eq!(statistics.read.errors, 0);
}

/// What one of three hosts asks for: its number, service action, type, key, other key, flags.
fn request() -> impl Strategy<Value = (usize, u8, u8, u64, u64, u8)> {
    let kind = prop_oneof![9 => prop::sample::select(&ALL_TYPES[..]), 1 => any::<u8>()];
    let flags = prop_oneof![3 => Just(0), 1 => Just(ALL_TG_PT), 1 => Just(APTPL)];
    (0..3_usize, 0..8_u8, kind, 0..4_u64, 0..4_u64, flags)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_hosts_do_what_is_registered_is_sound(
        requests in prop::collection::vec(request(), 1..60),
    ) {
        let store = Arc::new(Stored::default());
        let first = with_store(&store);
        ports(&first.device, &[3, 4]);
        let hosts = [
            Initiator::of(Arc::clone(&first.device)),
            through(&first, 1 << 41, 4),
            first,
        ];
        let unit = hosts[0].device.logical_unit(0).unwrap();
        let mut generation = 0;
        for (host, action, kind, key, other, flags) in requests {
            let host = &hosts[host];
            let before = unit.persistent_reservations().unwrap();
            let status = if action == REGISTER_AND_MOVE {
                host.move_to(key, other, flags & UNREG, 3, hosts[0].port()).status
            } else {
                host.send_out(action, kind, &list(key, other, flags)).status
            };
            let after = unit.persistent_reservations().unwrap();
            prop_assert_eq!(after.check(), Ok(()));
            if status != Status::Good {
                prop_assert_eq!(&before, &after);
            }
            // Never who is not registered gets a reservation, nor who did not ask for it.
            if let (None, Some(held)) = (&before.reservation, &after.reservation) {
                prop_assert_eq!(action, RESERVE);
                prop_assert_eq!(held.kind as u8, kind);
            }
            for host in &hosts {
                let _ = host.told();
            }
            let now = host.generation();
            prop_assert!(now == generation || now == generation + 1);
            generation = now;
            prop_assert_eq!(store.last(), unit.reservations_to_persist().unwrap());
            let reservation = host.reservation();
            prop_assert_eq!(reservation.is_some(), after.reservation.is_some());
        }
    }
}
