//! Reservations of a logical unit: persistent ones (SPC-5 5.14), and those of RESERVE and RELEASE (SPC-2 5.5.1, with the exceptions
//! of SPC-3 5.6.3: CRH = 1).
//!
//! What is reserved belongs to the disk, not to one [`crate::LogicalUnit`] object: a unit that takes the place of another with the same identity
//! goes on with it.

mod conflict;
mod persistent;

pub(crate) use conflict::ReservationRule;
pub use persistent::{
    PersistentReservation, PersistentReservations, RegisteredNexus, ReservationType,
};

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use crate::sam::Nexus;

/// What is registered and reserved now.
#[derive(Debug, Default)]
struct State {
    persistent: PersistentReservations,
    /// The nexus that holds the reservation of a RESERVE command.
    reserved_by: Option<u64>,
}

/// The reservations of one disk.
#[derive(Debug, Default)]
pub(crate) struct Reservations {
    /// Whether anything is reserved: lets a command pass without the lock when nothing is.
    reserved: AtomicBool,
    state: RwLock<State>,
}

impl Reservations {
    /// Whether the command of the nexus, with the rule of its command, conflicts with what is reserved.
    pub(crate) fn conflicts(&self, nexus: &Nexus, rule: ReservationRule) -> bool {
        if !self.reserved.load(Ordering::Acquire) {
            return false;
        }
        let state = self.read();
        if let Some(holder) = state.reserved_by {
            return rule.conflicts_with_reserve(holder == nexus.id);
        }
        state.persistent.reservation.as_ref().is_some_and(|held| {
            let nexus = RegisteredNexus::from(nexus);
            !state.persistent.may_use_all(&nexus) && rule.conflicts_with(held.kind)
        })
    }

    /// As [`Reservations::conflicts`], for a host that reaches this disk on behalf of itself from another target, by a third-party copy. It may
    /// do what any of its nexuses to this disk may do, as it could send the data by that one.
    pub(crate) fn conflicts_with_host(
        &self,
        initiator_device: &str,
        rule: ReservationRule,
    ) -> bool {
        if !self.reserved.load(Ordering::Acquire) {
            return false;
        }
        let state = self.read();
        // The nexus that holds it is not known by name here, and the host could not send the data by any other.
        if state.reserved_by.is_some() {
            return rule.conflicts_with_reserve(false);
        }
        state.persistent.reservation.as_ref().is_some_and(|held| {
            let mut registered = state.persistent.registrations.keys();
            let may_use_all = registered
                .any(|nexus| nexus.is_of(initiator_device) && state.persistent.may_use_all(nexus));
            !may_use_all && rule.conflicts_with(held.kind)
        })
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
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
        Reservations {
            reserved: AtomicBool::new(true),
            state: RwLock::new(State {
                persistent: PersistentReservations {
                    registrations: names.map(|name| (name, 1)).collect(),
                    reservation: Some(PersistentReservation { kind, holder }),
                },
                reserved_by: None,
            }),
        }
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

    #[test]
    fn a_host_may_do_by_a_copy_what_one_of_its_nexuses_may() {
        let holder = nexus(1, 1);
        let reservations = reserved(ReservationType::ExclusiveAccess, &[&holder]);
        let conflicts = |host: &str| reservations.conflicts_with_host(host, ReservationRule::Write);
        assert!(!conflicts(HOST));
        // Neither another name nor the beginning of this one.
        assert!(conflicts("iqn.2024-01.org.example:hos"));
        assert!(conflicts("iqn.2024-01.org.example:other"));
    }
}
