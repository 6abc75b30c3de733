// SPDX-License-Identifier: Apache-2.0
//! Conflicts of each reservation type, and the ends of reservations.

use super::super::TEST_UNIT_READY;
use super::{
    ALL_TYPES, CLEAR, EA, MODE_SENSE, REGISTER, RELEASE, RESERVATIONS_PREEMPTED,
    RESERVATIONS_RELEASED, RESERVE, WE, WE_AR, WE_RO, cdb, list, three,
};
use crate::sam::Status;

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
        // The same reservation again by its holder.
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
        // Commands without conflicts, for every reservation.
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
        // A nexus that is not the holder releases nothing; the holder must give the right type.
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
        let unit_attentions = if for_registrants {
            vec![RESERVATIONS_RELEASED]
        } else {
            vec![]
        };
        assert_eq!(registrant.unit_attentions(), unit_attentions, "{kind}");
        assert_eq!(
            (holder.unit_attentions(), other.unit_attentions()),
            (vec![], vec![])
        );
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
        let unit_attentions = if matches!(kind, 5 | 6) {
            vec![RESERVATIONS_RELEASED]
        } else {
            vec![]
        };
        assert_eq!(registrant.unit_attentions(), unit_attentions, "{kind}");
    }
}

#[test]
fn clear_removes_everything_and_notifies_the_others() {
    let (first, second, other) = three();
    first.register(0xa);
    second.register(0xb);
    assert_eq!(first.out(RESERVE, EA, 0xa, 0), Status::Good);
    assert_eq!(other.out(CLEAR, 0, 0xa, 0), Status::ReservationConflict);
    assert_eq!(second.out(CLEAR, 0, 0xb, 0), Status::Good);
    assert_eq!((second.keys(), second.reservation()), (vec![], None));
    assert_eq!(second.generation(), 3);
    assert_eq!(first.unit_attentions(), [RESERVATIONS_PREEMPTED]);
    assert_eq!(
        (second.unit_attentions(), other.unit_attentions()),
        (vec![], vec![])
    );
}
