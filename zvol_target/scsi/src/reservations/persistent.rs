// SPDX-License-Identifier: Apache-2.0
//! Registrations with their keys, and the reservation (SPC-5 5.14).

use std::collections::BTreeMap;

use crate::sam::Nexus;

/// An `I_T` nexus of a registration. It outlives sessions, and is the same when its host comes back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegisteredNexus {
    /// [`Nexus::initiator_port`]
    pub initiator_port: String,
    /// [`Nexus::relative_target_port`]
    pub relative_target_port: u16,
}

impl From<&Nexus> for RegisteredNexus {
    fn from(nexus: &Nexus) -> Self {
        Self {
            initiator_port: nexus.initiator_port.clone(),
            relative_target_port: nexus.relative_target_port,
        }
    }
}

/// TYPE of a persistent reservation (SPC-5 6.16.3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ReservationType {
    /// Only the holder writes.
    WriteExclusive = 0x1,
    /// Only the holder reads and writes.
    ExclusiveAccess = 0x3,
    /// Registered nexuses write.
    WriteExclusiveRegistrantsOnly = 0x5,
    /// Registered nexuses read and write.
    ExclusiveAccessRegistrantsOnly = 0x6,
    /// Registered nexuses write, and all of them hold the reservation.
    WriteExclusiveAllRegistrants = 0x7,
    /// Registered nexuses read and write, and all of them hold the reservation.
    ExclusiveAccessAllRegistrants = 0x8,
}

impl ReservationType {
    /// All types.
    pub const ALL: [Self; 6] = [
        Self::WriteExclusive,
        Self::ExclusiveAccess,
        Self::WriteExclusiveRegistrantsOnly,
        Self::ExclusiveAccessRegistrantsOnly,
        Self::WriteExclusiveAllRegistrants,
        Self::ExclusiveAccessAllRegistrants,
    ];

    /// The type with this code.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == code)
    }

    /// Whether other nexuses may read.
    pub(crate) fn is_write_exclusive(self) -> bool {
        matches!(
            self,
            Self::WriteExclusive
                | Self::WriteExclusiveRegistrantsOnly
                | Self::WriteExclusiveAllRegistrants
        )
    }

    /// Whether every registered nexus holds the reservation.
    pub fn is_all_registrants(self) -> bool {
        matches!(
            self,
            Self::WriteExclusiveAllRegistrants | Self::ExclusiveAccessAllRegistrants
        )
    }

    /// Whether registered nexuses have the holder's access.
    pub(crate) fn is_for_registrants(self) -> bool {
        !matches!(self, Self::WriteExclusive | Self::ExclusiveAccess)
    }
}

/// Limit of registrations of one logical unit: 128 hosts with eight nexuses each. Without it, one host could fill the memory: a
/// registration outlives its session.
pub const MAXIMUM_REGISTRATIONS: usize = 1024;

/// A persistent reservation of the whole logical unit, the only supported scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersistentReservation {
    /// Type of the reservation.
    pub kind: ReservationType,
    /// The nexus that holds it; `None` for a type that all registered nexuses hold.
    pub holder: Option<RegisteredNexus>,
}

/// The registrations and the reservation of a logical unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PersistentReservations {
    /// Reservation key of each registered nexus.
    pub registrations: BTreeMap<RegisteredNexus, u64>,
    /// The reservation, if there is one.
    pub reservation: Option<PersistentReservation>,
}

/// Why registrations and a reservation are inconsistent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnsoundReservations {
    /// More than [`MAXIMUM_REGISTRATIONS`].
    #[error("{0} registrations are more than {MAXIMUM_REGISTRATIONS}")]
    TooMany(usize),
    /// A reservation key of zero means no key.
    #[error("the reservation key of {0} is zero")]
    NoKey(String),
    /// The holder of a reservation must be registered.
    #[error("the reservation's holder is not registered")]
    HolderNotRegistered,
    /// The type requires all registrants as holders, or one.
    #[error("the reservation's type and its holder contradict each other")]
    HolderOfType,
}

impl PersistentReservations {
    /// Checks the consistency.
    ///
    /// # Errors
    /// [`UnsoundReservations`].
    pub fn check(&self) -> Result<(), UnsoundReservations> {
        if self.registrations.len() > MAXIMUM_REGISTRATIONS {
            return Err(UnsoundReservations::TooMany(self.registrations.len()));
        }
        if let Some((nexus, _)) = self.registrations.iter().find(|&(_, &key)| key == 0) {
            return Err(UnsoundReservations::NoKey(nexus.initiator_port.clone()));
        }
        let Some(PersistentReservation { kind, holder }) = &self.reservation else {
            return Ok(());
        };
        if kind.is_all_registrants() != holder.is_none() {
            return Err(UnsoundReservations::HolderOfType);
        }
        let is_held = match holder {
            Some(holder) => self.registrations.contains_key(holder),
            None => !self.registrations.is_empty(),
        };
        if is_held {
            Ok(())
        } else {
            Err(UnsoundReservations::HolderNotRegistered)
        }
    }

    /// Whether the nexus holds the reservation (SPC-5 5.14.10).
    pub(crate) fn is_holder(&self, nexus: &RegisteredNexus) -> bool {
        self.reservation
            .as_ref()
            .is_some_and(|held| match &held.holder {
                Some(holder) => holder == nexus,
                None => self.registrations.contains_key(nexus),
            })
    }

    /// Whether no command of the nexus conflicts with the reservation.
    pub(crate) fn may_use_all(&self, nexus: &RegisteredNexus) -> bool {
        self.reservation.as_ref().is_none_or(|held| {
            if held.kind.is_for_registrants() {
                self.registrations.contains_key(nexus)
            } else {
                held.holder.as_ref() == Some(nexus)
            }
        })
    }
}
