// SPDX-License-Identifier: Apache-2.0
//! Administrator's operations on reservations.

use std::io;

use super::{PersistentReservations, State, notify};
use crate::additional_sense::AdditionalSense;
use crate::device::{Device, InventoryError};

/// Why reservations were not cleared. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClearReservationsError {
    /// The unit does not exist.
    #[error(transparent)]
    Absent(#[from] InventoryError),
    /// The empty state could not be stored.
    #[error("it could not be stored: {0}")]
    NotStored(#[from] io::Error),
}

impl Device {
    /// Removes every registration and reservation of a unit, like CLEAR (SPC-5 5.14.11.2.6), and that of RESERVE. Use it for a
    /// host that never returns and that no other can preempt. Before the unit was first ready, the stored ones are removed.
    /// Registered nexuses get RESERVATIONS PREEMPTED.
    ///
    /// # Errors
    /// [`ClearReservationsError`].
    pub async fn clear_reservations(&self, number: u16) -> Result<(), ClearReservationsError> {
        let unit = self
            .logical_unit(number)
            .ok_or(InventoryError::Absent(number))?;
        let store = unit.reservation_store();
        let Some(reservations) = unit.reservations() else {
            // Only the stored reservations are known.
            if let Some(store) = store {
                store.store(PersistentReservations::default()).await?;
            }
            return Ok(());
        };
        let mut unstored = reservations.changing.lock().await;
        let registered = reservations.persistent().registrations;
        if let Some(store) = store {
            unstored.0 = true;
            store.store(PersistentReservations::default()).await?;
            unstored.0 = false;
        }
        reservations.change(|state| {
            *state = State {
                generation: state.generation.wrapping_add(1),
                ..State::default()
            };
        });
        let attentions: Vec<_> = registered
            .into_keys()
            .map(|nexus| (nexus, AdditionalSense::RESERVATIONS_PREEMPTED))
            .collect();
        notify(self, number, &attentions);
        Ok(())
    }
}
