// SPDX-License-Identifier: Apache-2.0
//! Who is registered with which key, and what is reserved (SPC-5 5.14).

use std::collections::BTreeMap;

use crate::sam::Nexus;

/// An `I_T` nexus as a registration knows it: it outlives sessions, and is the same again when its host comes back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegisteredNexus {
    /// [`Nexus::initiator_port`]
    pub initiator_port: String,
    /// [`Nexus::relative_target_port`]
    pub relative_target_port: u16,
}

/// Between the name of an initiator device and an ISID in the name of an initiator port (RFC 7143 4.4.2).
const SEPARATOR: &str = ",i,0x";

/// The name of the initiator device that has this port.
pub(crate) fn device_of(initiator_port: &str) -> &str {
    let split = initiator_port.rsplit_once(SEPARATOR);
    split.map_or(initiator_port, |(device, _)| device)
}

impl RegisteredNexus {
    pub(crate) fn initiator_device(&self) -> &str {
        device_of(&self.initiator_port)
    }

    /// Whether the initiator port is one of this initiator device.
    pub(crate) fn is_of(&self, initiator_device: &str) -> bool {
        self.initiator_device() == initiator_device
    }
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
    /// Every type.
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

    /// Whether others may read.
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

    /// Whether it is enough to be registered.
    pub(crate) fn is_for_registrants(self) -> bool {
        !matches!(self, Self::WriteExclusive | Self::ExclusiveAccess)
    }
}

/// Most registrations of one logical unit: 128 hosts with eight nexuses each. One host could fill the memory otherwise, with `SPEC_I_PT`.
pub const MAXIMUM_REGISTRATIONS: usize = 1024;

/// A persistent reservation of the whole logical unit: there is no other scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersistentReservation {
    /// Its type.
    pub kind: ReservationType,
    /// The registered nexus that holds it; `None` where all of them do, as the type says.
    pub holder: Option<RegisteredNexus>,
}

/// The registrations and the reservation of a logical unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PersistentReservations {
    /// Reservation key of each registered nexus.
    pub registrations: BTreeMap<RegisteredNexus, u64>,
    /// What is reserved.
    pub reservation: Option<PersistentReservation>,
}

/// Why registrations and a reservation can't be those of a logical unit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnsoundReservations {
    /// More than [`MAXIMUM_REGISTRATIONS`].
    #[error("{0} registrations are more than {MAXIMUM_REGISTRATIONS}")]
    TooMany(usize),
    /// A reservation key of zero stands for none.
    #[error("the reservation key of {0} is zero")]
    NoKey(String),
    /// Who holds a reservation is registered.
    #[error("the reservation's holder is not registered")]
    HolderNotRegistered,
    /// All registrants hold it, or one does.
    #[error("the reservation's type and its holder contradict each other")]
    HolderOfType,
}

impl PersistentReservations {
    /// Whether this can be what a logical unit has.
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

    /// Whether no command of the nexus conflicts with what is reserved.
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
