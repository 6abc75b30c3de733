// SPDX-License-Identifier: Apache-2.0
//! What survives a loss of power.

use std::fmt::Debug;
use std::io;

use volume::LocalBoxFuture;

use super::persistent::PersistentReservations;

/// Stable storage for the persistent reservations of one disk (APTPL, SPC-5 5.14.5).
pub trait ReservationStore: Debug + Send + Sync {
    /// Replaces what is stored: all of it is on stable storage when this is ready, or what was stored before is. Only one call is under
    /// way at a time.
    ///
    /// # Errors
    /// Which of the two is stored is not known then; the next call makes it known.
    fn store(
        &self,
        reservations: PersistentReservations,
    ) -> LocalBoxFuture<'_, Result<(), io::Error>>;
}
