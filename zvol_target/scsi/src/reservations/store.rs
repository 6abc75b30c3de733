// SPDX-License-Identifier: Apache-2.0
//! Storage of persistent reservations.

use std::fmt::Debug;
use std::io;

use volume::LocalBoxFuture;

use super::persistent::PersistentReservations;

/// Stable storage for the persistent reservations of one disk. It has all of them, with and without APTPL (SPC-5 5.14.5): a host
/// that was fenced must not write again after a restart of the daemon.
pub trait ReservationStore: Debug + Send + Sync {
    /// Replaces the content atomically. The new content is on stable storage when this is ready. Only one call runs at a time.
    ///
    /// # Errors
    /// After an error the content is the old or the new one; the next successful call defines it.
    fn store(
        &self,
        reservations: PersistentReservations,
    ) -> LocalBoxFuture<'_, Result<(), io::Error>>;
}
