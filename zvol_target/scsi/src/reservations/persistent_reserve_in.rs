// SPDX-License-Identifier: Apache-2.0
//! PERSISTENT RESERVE IN (SPC-5 6.16).

use super::persistent::{PersistentReservation, ReservationType};
use super::transport_id;
use super::{Reservations, State};
use crate::execution::{Execution, Reply};
use crate::router::NOT_READY;
use crate::sense::Sense;

/// READ KEYS: the keys of all registrations.
///
/// # Errors
/// LOGICAL UNIT NOT READY.
pub(crate) fn read_keys(execution: &Execution) -> Result<Reply, Sense> {
    listed(execution, |state| {
        let keys = state.persistent.registrations.values();
        keys.flat_map(|key| key.to_be_bytes()).collect()
    })
}

/// READ RESERVATION: the reservation with the key of its holder; zero if all registrants hold it.
///
/// # Errors
/// LOGICAL UNIT NOT READY.
pub(crate) fn read_reservation(execution: &Execution) -> Result<Reply, Sense> {
    listed(execution, |state| {
        let Some(PersistentReservation { kind, holder }) = &state.persistent.reservation else {
            return Vec::new();
        };
        let holder = holder.as_ref();
        let key = holder.and_then(|holder| state.persistent.registrations.get(holder));
        let mut data = vec![0; 16];
        data[..8].copy_from_slice(&key.copied().unwrap_or(0).to_be_bytes());
        data[13] = *kind as u8;
        data
    })
}

/// READ FULL STATUS: each registered nexus, and whether it holds the reservation. A registration by `ALL_TG_PT` is listed once
/// for each target port.
///
/// # Errors
/// LOGICAL UNIT NOT READY.
pub(crate) fn read_full_status(execution: &Execution) -> Result<Reply, Sense> {
    const R_HOLDER: u8 = 0x01;
    listed(execution, |state| {
        let persistent = &state.persistent;
        let mut data = Vec::new();
        for (nexus, key) in &persistent.registrations {
            let holds = persistent.reservation.as_ref();
            let holds = holds.filter(|_| persistent.is_holder(nexus));
            let mut descriptor = [0; 24];
            descriptor[..8].copy_from_slice(&key.to_be_bytes());
            if let Some(held) = holds {
                descriptor[12] = R_HOLDER;
                descriptor[13] = held.kind as u8;
            }
            descriptor[18..20].copy_from_slice(&nexus.relative_target_port.to_be_bytes());
            let id = transport_id::of_port(&nexus.initiator_port);
            // A few hundred bytes.
            descriptor[20..].copy_from_slice(&(id.len() as u32).to_be_bytes());
            data.extend_from_slice(&descriptor);
            data.extend_from_slice(&id);
        }
        data
    })
}

/// REPORT CAPABILITIES.
pub(crate) fn report_capabilities(execution: &Execution) -> Result<Reply, Sense> {
    const CRH: u8 = 0x10;
    const ATP_C: u8 = 0x04;
    const PTPL_C: u8 = 0x01;
    const TMV: u8 = 0x80;
    const PTPL_A: u8 = 0x01;
    let persists = reservations(execution)?.read().persists;
    let storable = execution.unit.reservation_store().is_some();
    let mut types = [0; 2];
    for kind in ReservationType::ALL {
        // One bit for each type code: those of 0 to 7 in the first byte.
        types[usize::from(kind as u8 / 8)] |= 1 << (kind as u8 % 8);
    }
    let [low, high] = types;
    let mut data = [0, 8, CRH | ATP_C, TMV, low, high, 0, 0];
    if storable {
        data[2] |= PTPL_C;
    }
    if persists {
        data[3] |= PTPL_A;
    }
    Ok(reply(execution, &data))
}

fn reservations<'a>(execution: &'a Execution) -> Result<&'a Reservations, Sense> {
    let reservations = execution.unit.reservations();
    reservations.map(AsRef::as_ref).ok_or(NOT_READY)
}

/// PRGENERATION, ADDITIONAL LENGTH, and the list.
fn listed(execution: &Execution, list: impl FnOnce(&State) -> Vec<u8>) -> Result<Reply, Sense> {
    let (generation, list) = {
        let state = reservations(execution)?.read();
        (state.generation, list(&state))
    };
    // The number of registrations is limited: less than a megabyte.
    let length = list.len() as u32;
    let data = [
        &generation.to_be_bytes()[..],
        &length.to_be_bytes()[..],
        &list,
    ]
    .concat();
    Ok(reply(execution, &data))
}

fn reply(execution: &Execution, data: &[u8]) -> Reply {
    Reply::parameter_data(data, u32::from(execution.cdb.u16(7)))
}
