// SPDX-License-Identifier: Apache-2.0
//! What an administrator may do to reservations.

use std::io;

use super::{PersistentReservations, State, tell};
use crate::additional_sense::AdditionalSense;
use crate::device::{Device, InventoryError};

/// Why reservations were not cleared; they are as they were.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClearReservationsError {
    /// There is no such unit.
    #[error(transparent)]
    Absent(#[from] InventoryError),
    /// That nothing is reserved could not be stored.
    #[error("it could not be stored: {0}")]
    NotStored(#[from] io::Error),
}

impl Device {
    /// Forgets every registration and reservation of a unit, as CLEAR does (SPC-5 5.14.11.2.6), and what RESERVE reserved: for a host
    /// that is gone for good and that no other can preempt. Of a unit that never was ready, what is stored is forgotten. Registered nexuses find RESERVATIONS PREEMPTED.
    ///
    /// # Errors
    /// [`ClearReservationsError`].
    pub async fn clear_reservations(&self, number: u16) -> Result<(), ClearReservationsError> {
        let unit = self
            .logical_unit(number)
            .ok_or(InventoryError::Absent(number))?;
        let store = unit.reservation_store();
        let Some(reservations) = unit.reservations() else {
            // Nobody knows what there is to forget, but what is stored.
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
        tell(self, number, &attentions);
        Ok(())
    }
}
