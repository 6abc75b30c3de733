// SPDX-License-Identifier: Apache-2.0
//! RESERVE(6), RESERVE(10), RELEASE(6) and RELEASE(10) (SPC-2 7.21, 7.17), with persistent reservations (SPC-3 5.6.3).
//!
//! They apply to the whole logical unit and the sending nexus. The command table refuses extents and third parties.

use super::State;
use super::persistent::RegisteredNexus;
use crate::execution::{Execution, Failure, Reply};
use crate::router::NOT_READY;
use crate::sam::Nexus;

/// # Errors
/// RESERVATION CONFLICT while another nexus has reserved the unit, or any nexus is registered.
pub(crate) async fn reserve(execution: &mut Execution<'_>) -> Result<Reply, Failure> {
    change(execution, |state, nexus| match state.reserved_by {
        Some(holder) if holder != nexus => Err(Failure::ReservationConflict),
        _ => {
            state.reserved_by = Some(nexus);
            Ok(())
        }
    })
    .await
}

/// GOOD without an effect if another nexus has reserved the unit.
///
/// # Errors
/// RESERVATION CONFLICT while a nexus is registered.
pub(crate) async fn release(execution: &mut Execution<'_>) -> Result<Reply, Failure> {
    change(execution, |state, nexus| {
        state.reserved_by.take_if(|holder| *holder == nexus);
        Ok(())
    })
    .await
}

async fn change(
    execution: &mut Execution<'_>,
    change: impl FnOnce(&mut State, u64) -> Result<(), Failure>,
) -> Result<Reply, Failure> {
    let &mut Execution {
        device,
        unit,
        number,
        nexus,
        task,
        ..
    } = execution;
    let reservations = unit.reservations().ok_or(NOT_READY)?;
    // Not while a PERSISTENT RESERVE OUT makes its change.
    let _one_at_a_time = task.unless_aborted(reservations.changing.lock()).await?;
    // A nexus that is lost, or loses its access, must not get it afterwards: it would hold it forever.
    device.while_seen(nexus, number, || {
        reservations.change(|state| {
            execution.check_aborted()?;
            match with_registrations(state, nexus) {
                Some(result) => result,
                None => change(state, nexus.id),
            }
        })
    })?;
    Ok(Reply::default())
}

/// Result of the command while a nexus is registered. Nexuses with the access of the persistent reservation's holder get GOOD
/// without an effect; others get a conflict.
fn with_registrations(state: &State, nexus: &Nexus) -> Option<Result<(), Failure>> {
    let persistent = &state.persistent;
    if persistent.registrations.is_empty() {
        return None;
    }
    let is_reserved = persistent.reservation.is_some();
    Some(
        if is_reserved && persistent.may_use_all(&RegisteredNexus::from(nexus)) {
            Ok(())
        } else {
            Err(Failure::ReservationConflict)
        },
    )
}
