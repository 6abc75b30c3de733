// SPDX-License-Identifier: Apache-2.0
//! PERSISTENT RESERVE OUT (SPC-5 6.17).

use std::collections::BTreeSet;

use super::notify;
use super::parameter_list::{
    APTPL_AT, BASIC_LENGTH, Basic, LENGTH_ERROR, MAXIMUM_LENGTH, RegisterAndMove,
};
use super::persistent::{PersistentReservations, RegisteredNexus};
use super::service_actions::{Consequences, Move, Registration, ScopeAndType};
use super::transport_id::TransportId;
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
    RegisterAndMove,
}

/// A service action with its parameters, checked as far as possible without the registrations.
enum Request {
    Register {
        existing_key: Option<u64>,
        new_key: u64,
        others: BTreeSet<RegisteredNexus>,
        /// `SPEC_I_PT`: only for a nexus that is not registered.
        for_newcomers: bool,
        persists: bool,
    },
    Move {
        key: u64,
        new_key: u64,
        to: RegisteredNexus,
        unregister: bool,
        persists: bool,
    },
    WithKey {
        action: ServiceAction,
        key: u64,
        victim: u64,
    },
}

/// Makes the change; first on stable storage if it must survive a power loss. Then establishes the unit attentions.
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
    if (length as usize) < BASIC_LENGTH || length > MAXIMUM_LENGTH {
        return Err(LENGTH_ERROR.into());
    }
    execution.data_out_required = u64::from(length);
    let list = execution.receive(length).await?;
    let request = parse(execution, action, &list)?;
    let unit = execution.unit;
    let reservations = unit.reservations().ok_or(NOT_READY)?;
    let task = execution.task;
    let mut unstored = task.unless_aborted(reservations.changing.lock()).await?;
    execution.check_aborted()?;

    let (mut next, mut persists, stored) = {
        let state = reservations.read();
        if state.reserved_by.is_some() {
            return Err(Failure::ReservationConflict);
        }
        (state.persistent.clone(), state.persists, state.to_persist())
    };
    let consequences = request.perform(execution, &mut next)?;
    if let (true, Some(requested)) = (consequences.counts, request.persists()) {
        persists = requested;
    }
    if let Some(store) = unit.reservation_store() {
        let content = if persists {
            next.clone()
        } else {
            PersistentReservations::default()
        };
        if unstored.0 || content != stored {
            unstored.0 = true;
            let done = store.store(content).await;
            done.map_err(|error| not_stored(execution, &error))?;
            unstored.0 = false;
        }
    }
    reservations.change(|state| {
        state.persistent = next;
        state.persists = persists;
        if consequences.counts {
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

fn parse(execution: &Execution, action: ServiceAction, list: &[u8]) -> Result<Request, Sense> {
    let storable = execution.unit.reservation_store().is_some();
    let check_persists = |persists, at| {
        if persists && !storable {
            Err(Sense::invalid_field_in_parameter_list(at, Some(0)))
        } else {
            Ok(())
        }
    };
    if action == ServiceAction::RegisterAndMove {
        let list = RegisterAndMove::parse(list)?;
        check_persists(list.persists, RegisterAndMove::APTPL_AT)?;
        return Ok(Request::Move {
            key: list.key,
            new_key: list.service_action_key,
            unregister: list.unregister,
            persists: list.persists,
            to: destination(execution, list)?,
        });
    }
    let list = Basic::parse(list)?;
    let existing_key = match action {
        ServiceAction::Register => Some(list.key),
        ServiceAction::RegisterAndIgnoreExistingKey => None,
        _ => {
            refuse_initiator_ports(&list)?;
            return Ok(Request::WithKey {
                action,
                key: list.key,
                victim: list.service_action_key,
            });
        }
    };
    if existing_key.is_none() {
        refuse_initiator_ports(&list)?;
    }
    check_persists(list.persists, APTPL_AT)?;
    Ok(Request::Register {
        existing_key,
        new_key: list.service_action_key,
        others: others(execution, &list)?,
        for_newcomers: list.initiator_ports.is_some(),
        persists: list.persists,
    })
}

/// `SPEC_I_PT` where it is not allowed.
const NO_INITIATOR_PORTS: Sense = Sense::invalid_field_in_parameter_list(APTPL_AT, Some(3));

fn refuse_initiator_ports(list: &Basic) -> Result<(), Sense> {
    if list.initiator_ports.is_some() {
        return Err(NO_INITIATOR_PORTS);
    }
    Ok(())
}

/// Destination of a REGISTER AND MOVE: a nexus of another host that may use the unit, at an existing port.
fn destination(execution: &Execution, list: RegisterAndMove) -> Result<RegisteredNexus, Sense> {
    let invalid = |at| Sense::invalid_field_in_parameter_list(at, None);
    let to = RegisteredNexus {
        initiator_port: list.initiator_port,
        relative_target_port: list.relative_target_port,
    };
    let ports = execution.device.relative_target_ports(execution.nexus);
    if !ports.contains(&to.relative_target_port) {
        return Err(invalid(RegisterAndMove::RELATIVE_TARGET_PORT_AT));
    }
    let device = execution.device;
    if to == RegisteredNexus::from(execution.nexus)
        || !device.permits(execution.number, to.initiator_device())
    {
        return Err(invalid(RegisterAndMove::TRANSPORT_ID_AT));
    }
    Ok(to)
}

/// The nexuses of `SPEC_I_PT` and `ALL_TG_PT`, in addition to the sender.
fn others(execution: &Execution, list: &Basic) -> Result<BTreeSet<RegisteredNexus>, Sense> {
    let &Execution {
        device,
        number,
        nexus,
        ..
    } = execution;
    let caller = RegisteredNexus::from(nexus);
    let mut initiator_ports = BTreeSet::from([caller.initiator_port.clone()]);
    for (id, at) in list.initiator_ports.iter().flatten() {
        let named = match id {
            TransportId::Port(port) => vec![port.clone()],
            // Every known port of the host (SPC-5 6.17.3).
            TransportId::Device(name) => device.initiator_ports(name),
        };
        let permitted = |port: &str| device.permits(number, super::persistent::device_of(port));
        if named.is_empty() || !named.iter().all(|port| permitted(port)) {
            return Err(Sense::invalid_field_in_parameter_list(*at, None));
        }
        initiator_ports.extend(named);
    }
    let target_ports = if list.all_target_ports {
        device.relative_target_ports(nexus)
    } else {
        BTreeSet::from([nexus.relative_target_port])
    };
    let all = initiator_ports.iter().flat_map(|initiator_port| {
        let target_ports = target_ports.iter();
        target_ports.map(|&relative_target_port| RegisteredNexus {
            initiator_port: initiator_port.clone(),
            relative_target_port,
        })
    });
    Ok(all.filter(|nexus| *nexus != caller).collect())
}

impl Request {
    fn persists(&self) -> Option<bool> {
        match self {
            Self::Register { persists, .. } | Self::Move { persists, .. } => Some(*persists),
            Self::WithKey { .. } => None,
        }
    }

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
                for_newcomers,
                ..
            } => {
                let is_registered = state.registrations.contains_key(&nexus);
                let consequences = state.register(&Registration {
                    nexus: &nexus,
                    others,
                    existing_key: *existing_key,
                    new_key: *new_key,
                })?;
                if *for_newcomers && is_registered {
                    return Err(NO_INITIATOR_PORTS.into());
                }
                Ok(consequences)
            }
            Self::Move {
                key,
                new_key,
                to,
                unregister,
                ..
            } => {
                let destination = Move {
                    to,
                    new_key: *new_key,
                    unregister: *unregister,
                };
                state.register_and_move(&nexus, *key, &destination)
            }
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
    // range here. Locking all ranges waits for steps that checked earlier.
    let ranges = &execution.unit.ranges;
    let all = execution.task.unless_aborted(ranges.exclusive(0..u64::MAX));
    drop(all.await?);
    Ok(())
}
