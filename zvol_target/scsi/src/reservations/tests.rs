// SPDX-License-Identifier: Apache-2.0
//! Conflicts with reservations.

use super::*;

const HOST: &str = "iqn.2024-01.org.example:host";

fn nexus(id: u64, isid: u8) -> Nexus {
    Nexus {
        id,
        initiator_port: format!("{HOST},i,0x{isid:012x}"),
        initiator_device: HOST.to_owned(),
        relative_target_port: 1,
    }
}

fn reserved(kind: ReservationType, registered: &[&Nexus]) -> Reservations {
    let names = registered.iter().map(|&nexus| RegisteredNexus::from(nexus));
    let holder = names.clone().next().filter(|_| !kind.is_all_registrants());
    Reservations::restored(PersistentReservations {
        registrations: names.map(|name| (name, 1)).collect(),
        reservation: Some(PersistentReservation { kind, holder }),
    })
}

#[test]
fn each_type_keeps_out_whom_the_standard_says() {
    let (holder, registrant, other) = (nexus(1, 1), nexus(2, 2), nexus(3, 3));
    for kind in ReservationType::ALL {
        let reservations = reserved(kind, &[&holder, &registrant]);
        let may = |nexus: &Nexus| {
            (
                !reservations.conflicts(nexus, ReservationRule::Read),
                !reservations.conflicts(nexus, ReservationRule::Write),
            )
        };
        let others_read = matches!(kind as u8, 1 | 5 | 7);
        let registrants = matches!(kind as u8, 5..=8);
        assert_eq!(may(&holder), (true, true), "{kind:?}");
        let expected = (others_read || registrants, registrants);
        assert_eq!(may(&registrant), expected, "{kind:?}");
        assert_eq!(may(&other), (others_read, false), "{kind:?}");
        for rule in [
            ReservationRule::Allowed,
            ReservationRule::AllowedWhenPersistent,
            ReservationRule::PersistentReserve,
            ReservationRule::Reserve,
        ] {
            assert!(!reservations.conflicts(&other, rule), "{kind:?}, {rule:?}");
        }
    }
}

#[test]
fn the_same_port_by_another_target_port_is_another_nexus() {
    let holder = nexus(1, 1);
    let elsewhere = Nexus {
        relative_target_port: 2,
        ..holder.clone()
    };
    let reservations = reserved(ReservationType::WriteExclusiveRegistrantsOnly, &[&holder]);
    assert!(!reservations.conflicts(&holder, ReservationRule::Write));
    assert!(reservations.conflicts(&elsewhere, ReservationRule::Write));
}
