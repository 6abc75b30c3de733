// SPDX-License-Identifier: Apache-2.0
//! Reservations survive a power loss, and a replacement of the unit.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::super::{BLOCKS, Initiator, RamVolume, TEST_UNIT_READY, block_on, options, product};
use super::{
    APTPL, EA, REGISTER, RELEASE, RESERVATIONS_PREEMPTED, RESERVE, RESERVE_6, Stored, WE, WE_RO,
    cdb, list, unit_with, with_store,
};
use crate::sam::Status;
use crate::{Device, LogicalUnit, LogicalUnitAccess, PersistentReservations};

#[test]
fn reservations_are_stored_before_good() {
    let store = Arc::new(Stored::default());
    let first = with_store(&store);
    let second = Initiator::of(Arc::clone(&first.device));
    let capabilities = [0x5e, 2, 0, 0, 0, 0, 0, 0, 255, 0];
    assert_eq!(first.data(&capabilities)[2..4], [0x15, 0x80]);
    // APTPL decides only what PTPL_A reports.
    first.register(0xa);
    assert_eq!(store.count(), 1);
    assert_eq!(first.data(&capabilities)[2..4], [0x15, 0x80]);
    assert_eq!(second.register_with(0xb, APTPL).status, Status::Good);
    assert_eq!(first.data(&capabilities)[2..4], [0x15, 0x81]);
    assert_eq!(first.out(RESERVE, WE, 0xa, 0), Status::Good);
    let stored = store.last();
    assert_eq!(stored.registrations.len(), 2);
    let holder = stored.reservation.as_ref().unwrap().holder.as_ref();
    assert_eq!(holder.unwrap().initiator_port, first.port());
    assert_eq!(store.count(), 3);
    // No change, so nothing is stored.
    assert_eq!(first.out(RESERVE, WE, 0xa, 0), Status::Good);
    assert_eq!(store.count(), 3);
    // A power loss.
    let again = with_store(&store);
    assert_eq!(
        (again.keys(), again.reservation()),
        (vec![0xa, 0xb], Some((0xa, WE)))
    );
    assert_eq!(again.generation(), 0);
    assert!(!again.writes());
    assert_eq!(again.data(&capabilities)[3], 0x81);
    // A host that removes its key without APTPL leaves the others stored.
    assert_eq!(second.out(REGISTER, 0, 0xb, 0), Status::Good);
    assert_eq!(first.data(&capabilities)[3], 0x80);
    let again = with_store(&store);
    assert_eq!(
        (again.keys(), again.reservation()),
        (vec![0xa], Some((0xa, WE)))
    );
}

#[test]
fn a_failed_store_changes_nothing_and_is_repeated() {
    let store = Arc::new(Stored::default());
    let first = with_store(&store);
    assert_eq!(first.register_with(0xa, APTPL).status, Status::Good);
    store.fails.store(true, Ordering::Relaxed);
    let reserve = cdb(RESERVE, WE, 24);
    assert_eq!(first.code(&reserve, &list(0xa, 0, 0)), (4, 0x44, 0));
    assert_eq!((first.reservation(), first.keys()), (None, vec![0xa]));
    store.fails.store(false, Ordering::Relaxed);
    let before = store.count();
    // The state does not change, but the stored content is unknown.
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
    device
        .replace_logical_unit(0, LogicalUnit::not_ready(options()))
        .unwrap();
    assert_eq!(other.code(&TEST_UNIT_READY, &[]), (2, 4, 1));
    device.replace_logical_unit(0, unit_with(&store)).unwrap();
    other.unit_attentions();
    first.unit_attentions();
    assert!(!other.reads() && first.writes());
    assert_eq!(first.keys(), [0xa]);
    // Another disk has separate reservations.
    let mut options = options();
    options.uuid[0] ^= 1;
    let unit = LogicalUnit::new(RamVolume::new(BLOCKS), options).unwrap();
    device.replace_logical_unit(0, unit).unwrap();
    other.unit_attentions();
    assert!(other.writes());
    assert_eq!(other.keys(), []);
}

#[test]
fn a_unit_that_returns_uses_the_reservations_that_another_server_stored() {
    let here = Arc::new(Stored::default());
    let fenced = with_store(&here);
    fenced.register(0xa);
    assert_eq!(fenced.out(RESERVE, WE_RO, 0xa, 0), Status::Good);
    let device = Arc::clone(&fenced.device);
    device
        .replace_logical_unit(0, LogicalUnit::not_ready(options()))
        .unwrap();
    // On the other server another host preempts this one.
    let elsewhere = Arc::new(Stored::default());
    let other = with_store(&elsewhere);
    other.register(0xb);
    assert_eq!(other.out(RESERVE, WE_RO, 0xb, 0), Status::Good);
    device
        .replace_logical_unit(0, unit_with(&elsewhere))
        .unwrap();
    fenced.unit_attentions();
    assert_eq!(fenced.keys(), [0xb]);
    assert!(!fenced.writes());
    // The next change stores the present state.
    assert_eq!(fenced.register_with(0xc, 0).status, Status::Good);
    let keys: Vec<_> = elsewhere.last().registrations.into_values().collect();
    assert_eq!((keys.len(), keys.contains(&0xa)), (2, false));
}

#[test]
fn reserve_stays_with_a_unit_that_returns_without_stored_registrations() {
    let store = Arc::new(Stored::default());
    let first = with_store(&store);
    let other = Initiator::of(Arc::clone(&first.device));
    first.data(&RESERVE_6);
    let device = Arc::clone(&first.device);
    let leave_and_return = |store| {
        let absent = LogicalUnit::not_ready(options());
        device.replace_logical_unit(0, absent).unwrap();
        device.replace_logical_unit(0, unit_with(store)).unwrap();
        first.unit_attentions();
        other.unit_attentions();
    };
    leave_and_return(&store);
    assert!(first.writes() && !other.writes());
    let elsewhere = Arc::new(Stored::default());
    with_store(&elsewhere).register(0xb);
    leave_and_return(&elsewhere);
    assert!(first.writes() && other.writes());
}

#[test]
fn a_unit_that_was_never_ready_uses_the_stored_reservations() {
    let store = Arc::new(Stored::default());
    with_store(&store).register_with(0xa, APTPL);
    let device = Arc::new(Device::new(product()));
    device
        .insert_logical_unit(0, LogicalUnit::not_ready(options()), LogicalUnitAccess::Any)
        .unwrap();
    let initiator = Initiator::fresh(Arc::clone(&device));
    initiator.data(&[0x03, 0, 0, 0, 18, 0]);
    assert_eq!(
        initiator.code(&[0x5e, 0, 0, 0, 0, 0, 0, 0, 8, 0], &[]),
        (2, 4, 1)
    );
    assert!(
        device
            .logical_unit(0)
            .unwrap()
            .persistent_reservations()
            .is_none()
    );
    device.replace_logical_unit(0, unit_with(&store)).unwrap();
    initiator.unit_attentions();
    assert_eq!(initiator.keys(), [0xa]);
}

#[test]
fn an_administrator_can_clear_all_reservations() {
    let store = Arc::new(Stored::default());
    let gone = with_store(&store);
    let other = Initiator::of(Arc::clone(&gone.device));
    gone.register_with(0xa, APTPL);
    assert_eq!(gone.out(RESERVE, EA, 0xa, 0), Status::Good);
    assert!(!other.writes());
    block_on(gone.device.clear_reservations(0)).unwrap();
    assert!(other.writes());
    assert_eq!(store.last(), PersistentReservations::default());
    assert_eq!(
        (gone.unit_attentions(), other.unit_attentions()),
        (vec![RESERVATIONS_PREEMPTED], vec![])
    );
    other.data(&RESERVE_6);
    assert!(!gone.writes());
    block_on(gone.device.clear_reservations(0)).unwrap();
    assert!(gone.writes());
}
