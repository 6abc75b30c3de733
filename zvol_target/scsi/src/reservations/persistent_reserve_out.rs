// SPDX-License-Identifier: Apache-2.0
//! PERSISTENT RESERVE OUT (SPC-5 6.17).

use std::collections::BTreeSet;

use super::notify;
use super::parameter_list::{LENGTH, LENGTH_ERROR, NOT_PERSISTENT, ParameterList};
use super::persistent::{PersistentReservations, RegisteredNexus};
use super::service_actions::{Consequences, Registration, ScopeAndType};
use crate::additional_sense::AdditionalSense;
use crate::execution::{Execution, Failure, Reply};
use crate::router::NOT_READY;
use crate::sense::{Sense, SenseKey};
use crate::task_management::Unended;

/// SERVICE ACTION (SPC-5 6.17.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServiceAction {
    Register,
    Reserve,
    Release,
    Clear,
    Preempt,
    PreemptAndAbort,
    RegisterAndIgnoreExistingKey,
}

/// A service action with its parameters, checked as far as possible without the registrations.
enum Request {
    Register {
        existing_key: Option<u64>,
        new_key: u64,
        others: BTreeSet<RegisteredNexus>,
        persists: bool,
    },
    WithKey {
        action: ServiceAction,
        key: u64,
        victim: u64,
    },
}

/// Makes the change, first on stable storage. Then establishes the unit attentions.
///
/// # Errors
/// RESERVATION CONFLICT; PARAMETER LIST LENGTH ERROR, INVALID FIELD IN PARAMETER LIST, INVALID FIELD IN CDB, INVALID RELEASE OF
/// PERSISTENT RESERVATION, INSUFFICIENT REGISTRATION RESOURCES; INTERNAL TARGET FAILURE if it could not be stored. After an error
/// nothing has changed.
pub(crate) async fn persistent_reserve_out(
    execution: &mut Execution<'_>,
    action: ServiceAction,
) -> Result<Reply, Failure> {
    let length = execution.cdb.u32(5);
    if length < LENGTH {
        return Err(LENGTH_ERROR.into());
    }
    execution.data_out_required = u64::from(length);
    let list = execution.receive(LENGTH).await?;
    let request = parse(execution, action, &ParameterList::parse(&list, length)?)?;
    let unit = execution.unit;
    let reservations = unit.reservations().ok_or(NOT_READY)?;
    let task = execution.task;
    let mut unstored = task.unless_aborted(reservations.changing.lock()).await?;
    execution.check_aborted()?;

    let stored = {
        let state = reservations.read();
        if state.reserved_by.is_some() {
            return Err(Failure::ReservationConflict);
        }
        state.persistent.clone()
    };
    let mut next = stored.clone();
    let consequences = request.perform(execution, &mut next)?;
    if let Some(store) = unit.reservation_store() {
        if unstored.0 || next != stored {
            unstored.0 = true;
            let done = store.store(next.clone()).await;
            done.map_err(|error| not_stored(execution, &error))?;
            unstored.0 = false;
        }
    }
    reservations.change(|state| {
        state.persistent = next;
        if consequences.counts {
            if let Request::Register { persists, .. } = request {
                state.persists = persists;
            }
            state.generation = state.generation.wrapping_add(1);
        }
    });
    drop(unstored);
    notify(execution.device, execution.number, &consequences.attentions);
    if action == ServiceAction::PreemptAndAbort {
        abort(execution, &consequences.preempted).await?;
    }
    Ok(Reply::default())
}

fn parse(
    execution: &Execution,
    action: ServiceAction,
    list: &ParameterList,
) -> Result<Request, Sense> {
    let existing_key = match action {
        ServiceAction::Register => Some(list.key),
        ServiceAction::RegisterAndIgnoreExistingKey => None,
        _ => {
            return Ok(Request::WithKey {
                action,
                key: list.key,
                victim: list.service_action_key,
            });
        }
    };
    if list.persists && execution.unit.reservation_store().is_none() {
        return Err(NOT_PERSISTENT);
    }
    let others = if list.all_target_ports {
        other_target_ports(execution)
    } else {
        BTreeSet::new()
    };
    Ok(Request::Register {
        existing_key,
        new_key: list.service_action_key,
        others,
        persists: list.persists,
    })
}

/// The sender's initiator port at the other target ports.
fn other_target_ports(execution: &Execution) -> BTreeSet<RegisteredNexus> {
    let nexus = execution.nexus;
    let ports = execution.device.relative_target_ports(nexus);
    let others = ports
        .into_iter()
        .filter(|&port| port != nexus.relative_target_port);
    let others = others.map(|relative_target_port| RegisteredNexus {
        initiator_port: nexus.initiator_port.clone(),
        relative_target_port,
    });
    others.collect()
}

impl Request {
    fn perform(
        &self,
        execution: &Execution,
        state: &mut PersistentReservations,
    ) -> Result<Consequences, Failure> {
        let nexus = RegisteredNexus::from(execution.nexus);
        let scope_and_type = ScopeAndType(execution.cdb.byte(2));
        match self {
            Self::Register {
                existing_key,
                new_key,
                others,
                ..
            } => state.register(&Registration {
                nexus: &nexus,
                others,
                existing_key: *existing_key,
                new_key: *new_key,
            }),
            Self::WithKey {
                action,
                key,
                victim,
            } => match action {
                ServiceAction::Reserve => state.reserve(&nexus, *key, scope_and_type),
                ServiceAction::Release => state.release(&nexus, *key, scope_and_type),
                ServiceAction::Clear => state.clear(&nexus, *key),
                _ => state.preempt(&nexus, *key, *victim, scope_and_type),
            },
        }
    }
}

fn not_stored(execution: &Execution, error: &std::io::Error) -> Sense {
    tracing::error!(
        logical_unit = execution.number,
        initiator = %execution.nexus.initiator_port,
        %error,
        "persistent reservations could not be stored"
    );
    Sense::new(
        SenseKey::HardwareError,
        AdditionalSense::INTERNAL_TARGET_FAILURE,
    )
}

/// Aborts the tasks of the nexuses, also on a unit that this one replaced, and waits for their end: a WRITE in the volume must
/// not change data after this.
async fn abort(
    execution: &Execution<'_>,
    preempted: &BTreeSet<RegisteredNexus>,
) -> Result<(), Failure> {
    let nexuses = execution.device.nexuses();
    let victims: BTreeSet<_> = nexuses
        .iter()
        .filter(|nexus| preempted.contains(&RegisteredNexus::from(&***nexus)))
        .map(|nexus| nexus.id)
        .collect();
    let mut aborted = Vec::new();
    for unit in execution.device.instances(execution.number) {
        let tasks = unit.tasks.abort(|nexus, _| {
            victims
                .contains(&nexus)
                .then_some(crate::task_set::Abort::WithStatus)
        });
        aborted.push((unit, tasks));
    }
    // If this command is aborted itself, the unit is fenced until they have ended.
    let aborted = Unended::new(aborted, None);
    execution.task.unless_aborted(aborted.wait()).await?;
    // A task of a third-party copy can belong to another unit. Each of its steps checks reservations after it has locked its
    // range here. So only steps that have requested it by now can have checked earlier.
    let drained = execution.unit.ranges.drain();
    Ok(execution.task.unless_aborted(drained).await?)
}
