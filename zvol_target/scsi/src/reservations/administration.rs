//! What an administrator may do to reservations.

use std::io;

use super::{State, tell};
use crate::additional_sense::AdditionalSense;
use crate::device::{Device, InventoryError};

/// Why reservations were not cleared; they are as they were.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClearReservationsError {
    /// There is no such unit.
    #[error(transparent)]
    Absent(#[from] InventoryError),
    /// It never was ready, so nothing is known of them.
    #[error("what is reserved is not known while the logical unit is not ready")]
    Unknown,
    /// That nothing is reserved could not be stored.
    #[error("it could not be stored: {0}")]
    NotStored(#[from] io::Error),
}

impl Device {
    /// Forgets every registration and reservation of a unit, as CLEAR does (SPC-5 5.14.11.2.6), and what RESERVE reserved: for a host
    /// that is gone for good and that no other can preempt. Registered nexuses find RESERVATIONS PREEMPTED.
    ///
    /// # Errors
    /// [`ClearReservationsError`].
    pub async fn clear_reservations(&self, number: u16) -> Result<(), ClearReservationsError> {
        let unit = self
            .logical_unit(number)
            .ok_or(InventoryError::Absent(number))?;
        let reservations = unit.reservations().ok_or(ClearReservationsError::Unknown)?;
        let mut unstored = reservations.changing.lock().await;
        let registered = reservations.persistent().registrations;
        if let Some(store) = unit.reservation_store() {
            unstored.0 = true;
            store.store(State::default().persistent).await?;
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
