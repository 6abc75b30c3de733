// SPDX-License-Identifier: Apache-2.0
//! Conflicts of commands with reservations.

use super::persistent::ReservationType;

/// Effect of a command that a reservation can forbid (SPC-5 5.14.1, SBC-4 4.17; SPC-2 5.5.1 for RESERVE).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReservationRule {
    /// It never conflicts.
    Allowed,
    /// It conflicts with RESERVE of another nexus, not with persistent reservations.
    AllowedWhenPersistent,
    /// It reads the medium, or protected data.
    Read,
    /// It changes the medium, or shared settings.
    Write,
    /// RESERVE and RELEASE have special rules.
    Reserve,
    /// PERSISTENT RESERVE IN and OUT have special rules: they conflict with RESERVE of any nexus, including their own.
    PersistentReserve,
}

impl ReservationRule {
    /// Whether it conflicts with a RESERVE of the same nexus (`own`) or of another one.
    pub(crate) fn conflicts_with_reserve(self, is_holder: bool) -> bool {
        match self {
            Self::Allowed | Self::Reserve => false,
            Self::AllowedWhenPersistent | Self::Read | Self::Write => !is_holder,
            Self::PersistentReserve => true,
        }
    }

    /// Whether it conflicts with a persistent reservation that restricts the nexus.
    pub(crate) fn conflicts_with(self, kind: ReservationType) -> bool {
        match self {
            Self::Allowed
            | Self::AllowedWhenPersistent
            | Self::Reserve
            | Self::PersistentReserve => false,
            Self::Read => !kind.is_write_exclusive(),
            Self::Write => true,
        }
    }
}
