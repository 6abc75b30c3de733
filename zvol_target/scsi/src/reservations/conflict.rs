// SPDX-License-Identifier: Apache-2.0
//! Which commands conflict with what is reserved.

use super::persistent::ReservationType;

/// What a command does that a reservation may forbid (SPC-5 5.14.1, SBC-4 4.17; SPC-2 5.5.1 for RESERVE).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReservationRule {
    /// It never conflicts.
    Allowed,
    /// It conflicts with RESERVE of another nexus, not with persistent reservations.
    AllowedWhenPersistent,
    /// It reads the medium, or something that is only for those who may.
    Read,
    /// It changes the medium, or something that others rely on.
    Write,
    /// RESERVE and RELEASE have rules of their own.
    Reserve,
    /// PERSISTENT RESERVE IN and OUT too; they conflict with RESERVE of any nexus, their own as well.
    PersistentReserve,
}

impl ReservationRule {
    /// In the presence of a RESERVE of the same nexus, or of another one.
    pub(crate) fn conflicts_with_reserve(self, own: bool) -> bool {
        match self {
            Self::Allowed | Self::Reserve => false,
            Self::AllowedWhenPersistent | Self::Read | Self::Write => !own,
            Self::PersistentReserve => true,
        }
    }

    /// In the presence of a persistent reservation that does not let the nexus do all.
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
