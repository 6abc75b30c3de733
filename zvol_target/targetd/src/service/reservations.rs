//! Persistent reservations of logical units.

use scsi::{ClearReservationsError, PersistentReservations};

use super::maintenance::retry_lun;
use super::{Service, ServiceError, Shared, Unusable};

impl Service {
    /// The registrations and the reservation of a logical unit, and what of them is stored.
    ///
    /// # Errors
    /// [`ServiceError::NoTarget`], [`ServiceError::NoLun`]; [`ServiceError::Unusable`] while it is not known, as the unit was never
    /// served.
    pub fn reservations(
        &self,
        target: &str,
        number: u16,
    ) -> Result<(PersistentReservations, PersistentReservations), ServiceError> {
        self.lun(target, number)?;
        let unit = self
            .running_lun(target, number)
            .map(|running| &running.unit);
        let known = unit.and_then(|unit| {
            let present = unit.persistent_reservations()?;
            Some((present, unit.reservations_to_persist()?))
        });
        known.ok_or_else(|| {
            let reason = "what is reserved is not known: the LUN has not been served yet";
            Unusable::Description(reason.to_owned()).into()
        })
    }
}

/// Removes every registration and reservation of a logical unit, also where its file is missing or damaged; it is then tried again.
///
/// # Errors
/// [`ServiceError::NoTarget`], [`ServiceError::NoLun`], [`ServiceError::ReservationsNotStored`].
pub async fn clear_reservations(
    service: &Shared,
    target: &str,
    number: u16,
) -> Result<(), ServiceError> {
    let absent = || ServiceError::NoLun {
        target: target.to_owned(),
        number,
    };
    let device = {
        let service = service.borrow();
        service.lun(target, number)?;
        service.device(target).cloned().ok_or_else(absent)?
    };
    let cleared = device.device().clear_reservations(number).await;
    cleared.map_err(|error| match error {
        ClearReservationsError::NotStored(error) => ServiceError::ReservationsNotStored {
            target: target.to_owned(),
            number,
            error,
        },
        _ => absent(),
    })?;
    retry_lun(service, target, number).await;
    Ok(())
}
