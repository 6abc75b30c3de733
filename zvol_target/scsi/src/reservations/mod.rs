// SPDX-License-Identifier: Apache-2.0
//! Reservations of a logical unit: persistent ones (SPC-5 5.14), and those of RESERVE and RELEASE (SPC-2 5.5.1, with the exceptions
//! of SPC-3 5.6.3: CRH = 1).
//!
//! Reservations belong to the disk, not to one [`crate::LogicalUnit`] object: a unit that replaces another one with the same
//! identity takes them over. If the replaced unit was not ready, the stored persistent ones apply: the pool can have been on another
//! server.

mod administration;
mod conflict;
mod parameter_list;
mod persistent;
pub(crate) mod persistent_reserve_in;
pub(crate) mod persistent_reserve_out;
pub(crate) mod reserve;
mod service_actions;
mod store;
#[cfg(test)]
mod tests;
mod transport_id;

pub use administration::ClearReservationsError;
pub(crate) use conflict::ReservationRule;
pub use persistent::{
    MAXIMUM_REGISTRATIONS, PersistentReservation, PersistentReservations, RegisteredNexus,
    ReservationType, UnsoundReservations,
};
pub use store::ReservationStore;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::additional_sense::AdditionalSense;
use crate::device::Device;
use crate::sam::Nexus;

/// Current registrations and reservations.
#[derive(Debug, Default)]
struct State {
    persistent: PersistentReservations,
    /// APTPL of the last registration, which `PTPL_A` reports. It decides nothing else.
    persists: bool,
    /// PRGENERATION: changes counted from power on (SPC-5 6.16.2).
    generation: u32,
    /// The nexus that holds the reservation of a RESERVE command.
    reserved_by: Option<u64>,
}

/// The reservations of one disk.
#[derive(Debug, Default)]
pub(crate) struct Reservations {
    /// Whether a reservation exists: without one, commands need not take the lock.
    reserved: AtomicBool,
    state: RwLock<State>,
    /// Held by the one command that changes registrations or reservations. It protects the flag whether the store can differ from
    /// `state`.
    changing: tokio::sync::Mutex<Unstored>,
}

/// Whether the content of stable storage can differ from the state.
#[derive(Debug, Default)]
struct Unstored(bool);

impl Reservations {
    /// Reservations of a disk after a restart.
    pub(crate) fn restored(content: PersistentReservations) -> Self {
        Self {
            reserved: AtomicBool::new(content.reservation.is_some()),
            state: RwLock::new(State {
                persists: !content.registrations.is_empty(),
                persistent: content,
                ..State::default()
            }),
            changing: tokio::sync::Mutex::default(),
        }
    }

    /// Takes over the stored reservations of a unit that was not ready. Keeps the present ones while an earlier command stores
    /// them: the store has them when it ends.
    pub(crate) fn restore(&self, content: PersistentReservations) {
        let Ok(_changing) = self.changing.try_lock() else {
            return;
        };
        self.change(|state| {
            if state.persistent == content {
                return;
            }
            if !content.registrations.is_empty() {
                // The two kinds of reservations exclude each other.
                state.reserved_by = None;
            }
            state.persists = !content.registrations.is_empty();
            state.persistent = content;
            state.generation = state.generation.wrapping_add(1);
        });
    }

    /// Whether a command of the nexus with this rule conflicts with a reservation.
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
            rule.conflicts_with(held.kind) && !state.persistent.may_use_all(&nexus)
        })
    }

    /// The registrations and the reservation.
    pub(crate) fn persistent(&self) -> PersistentReservations {
        self.read().persistent.clone()
    }

    /// A nexus was lost, or lost its access: ends its RESERVE. Persistent reservations are not affected.
    pub(crate) fn nexus_lost(&self, nexus: u64) {
        if self.read().reserved_by == Some(nexus) {
            self.change(|state| {
                state.reserved_by.take_if(|holder| *holder == nexus);
            });
        }
    }

    /// A reset ends only the reservation of RESERVE (SPC-5 5.14.1).
    pub(crate) fn reset(&self) {
        if self.read().reserved_by.is_some() {
            self.change(|state| state.reserved_by = None);
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.write();
        let result = change(&mut state);
        let reserved = state.reserved_by.is_some() || state.persistent.reservation.is_some();
        self.reserved.store(reserved, Ordering::Release);
        result
    }
}

/// Establishes unit attentions for those of the nexuses that are present.
fn notify(device: &Device, number: u16, attentions: &[(RegisteredNexus, AdditionalSense)]) {
    if attentions.is_empty() {
        return;
    }
    let units = device.instances(number);
    for nexus in device.nexuses() {
        let name = RegisteredNexus::from(&*nexus);
        for (_, condition) in attentions.iter().filter(|(of, _)| *of == name) {
            for unit in &units {
                unit.unit_attentions.establish_for(nexus.id, *condition);
            }
        }
    }
}
