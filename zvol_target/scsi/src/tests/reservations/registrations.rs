// SPDX-License-Identifier: Apache-2.0
//! Registrations of nexuses and ports.

use std::sync::Arc;

use super::super::{Initiator, POWER_ON, UNIT, block_on, manage};
use super::{
    ALL_TG_PT, APTPL, INVALID_FIELD_IN_PARAMETER_LIST, LENGTH_ERROR, REGISTER, REGISTER_AND_IGNORE,
    RELEASE, RESERVE, SPEC_I_PT, Stored, WE, WE_RO, cdb, list, ports, three, through, transport_id,
    with_store,
};
use crate::sam::{Nexus, ScsiTarget, Status, TaskManagementFunction};
use crate::{PersistentReservations, RegisteredNexus};

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
    // Registration with key zero by a nexus without registration.
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
fn read_keys_reports_the_whole_length_when_truncated() {
    let (first, second, _) = three();
    first.register(1);
    second.register(2);
    let cut = first.data(&[0x5e, 0, 0, 0, 0, 0, 0, 0, 8, 0]);
    assert_eq!(cut, [0, 0, 0, 2, 0, 0, 0, 16]);
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
    assert_eq!(other.unit_attentions(), [(6, 0x29, 3)]);
    assert!(!other.writes());
    // The same port in another session.
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
    assert_eq!(again.unit_attentions(), [POWER_ON]);
    assert!(again.writes());
    assert_eq!(again.out(RELEASE, WE, 0xa, 0), Status::Good);
}

#[test]
fn all_target_ports_are_registered_and_removed_at_once() {
    let (first, other, _) = three();
    ports(&first.device, &[3, 4]);
    let second_path = through(&first, 1 << 40, 4);
    assert_eq!(
        (first.unit_attentions().len(), other.unit_attentions().len()),
        (1, 1)
    );
    first.register(0xa);
    assert!(first.out(RESERVE, WE_RO, 0xa, 0) == Status::Good && !second_path.writes());
    assert_eq!(first.out(REGISTER, 0, 0xa, 0), Status::Good);
    assert_eq!(first.register_with(0xb, ALL_TG_PT).status, Status::Good);
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
    // A different key at the other port is not overwritten, unless the registration ignores keys.
    second_path.register(0xe);
    removal = list(0, 0xf, ALL_TG_PT);
    let refused = first.send_out(REGISTER, 0, &removal).status;
    assert_eq!(refused, Status::ReservationConflict);
    let forced = first.send_out(REGISTER_AND_IGNORE, 0, &removal).status;
    assert_eq!((forced, first.keys()), (Status::Good, vec![0xf, 0xf]));
}

#[test]
fn initiator_ports_are_not_registered_for_others() {
    let (first, second, _) = three();
    let id = transport_id(second.port());
    let list = [list(0, 0xa, SPEC_I_PT), vec![0, 0, 0, id.len() as u8], id].concat();
    for action in [REGISTER, REGISTER_AND_IGNORE, RESERVE] {
        let code = first.code(&cdb(action, 1, list.len()), &list);
        assert_eq!(code, INVALID_FIELD_IN_PARAMETER_LIST);
    }
    assert_eq!(first.keys(), []);
}

#[test]
fn registrations_are_bounded() {
    let nexus = |isid| RegisteredNexus {
        initiator_port: format!("iqn.a,i,0x{isid:012x}"),
        relative_target_port: 1,
    };
    let registrations = (0..1024).map(|isid| (nexus(isid), 0xa)).collect();
    let store = Arc::new(Stored::default());
    store.content.lock().unwrap().push(PersistentReservations {
        registrations,
        reservation: None,
    });
    let first = with_store(&store);
    let full = first.register_with(0xb, 0);
    assert_eq!(super::super::seen(&full).code, (0x55, 0x04));
    assert_eq!(first.keys().len(), 1024);
}

#[test]
fn lists_of_another_length_are_refused() {
    let (first, _, _) = three();
    for length in [0, 8, 23, 25, 28] {
        let list = vec![0; length];
        for action in [REGISTER, RESERVE, REGISTER_AND_IGNORE] {
            assert_eq!(first.code(&cdb(action, 1, length), &list), LENGTH_ERROR);
        }
    }
    // Less data than the CDB announces.
    assert_eq!(first.code(&cdb(REGISTER, 0, 24), &[0; 16]), LENGTH_ERROR);
    // REGISTER AND MOVE, REPLACE LOST RESERVATION, and an unknown action.
    for action in [0x07, 0x08, 0x1f] {
        assert_eq!(first.code(&cdb(action, 0, 24), &[0; 24]), (5, 0x24, 0));
    }
}

#[test]
fn capabilities_are_true() {
    let (first, _, _) = three();
    let capabilities = [0x5e, 2, 0, 0, 0, 0, 0, 0, 255, 0];
    assert_eq!(
        first.data(&capabilities),
        [0, 8, 0x14, 0x80, 0xea, 0x01, 0, 0]
    );
    // This unit has no store.
    let persistent = first.register_with(0xa, APTPL);
    assert_eq!(super::super::seen(&persistent).code, (0x26, 0));
    assert_eq!(first.keys(), []);
}
