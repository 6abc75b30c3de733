// SPDX-License-Identifier: Apache-2.0
//! Logical units that a copy may use, and limits of concurrent copies.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::parameter_list::Cscd;
use crate::additional_sense::AdditionalSense;
use crate::execution::Execution;
use crate::lock;
use crate::logical_unit::LogicalUnit;
use crate::reservations::ReservationRule;
use crate::sam::Nexus;
use crate::sense::Sense;
use crate::task_set::{Aborted, Task};

/// Most concurrent copies that move data for one host, over all its nexuses. Others wait.
const MAXIMUM_COPIES_OF_HOST: usize = 8;

/// Most concurrent copies for all hosts. Each reads and writes several pieces at a time.
const MAXIMUM_COPIES: usize = 32;

/// The limits of concurrent copies.
#[derive(Debug)]
pub(crate) struct CopyManager {
    running: Arc<Semaphore>,
    /// Semaphores by initiator device.
    running_of_host: Mutex<HashMap<String, Weak<Semaphore>>>,
}

impl Default for CopyManager {
    fn default() -> Self {
        Self {
            running: Arc::new(Semaphore::new(MAXIMUM_COPIES)),
            running_of_host: Mutex::default(),
        }
    }
}

/// Permit to move data.
pub(super) struct Turn {
    _of_host: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl CopyManager {
    /// Waits for a permit, first come, first served.
    ///
    /// # Errors
    /// [`Aborted`] during the wait.
    pub(super) async fn turn(&self, nexus: &Nexus, task: &Task) -> Result<Turn, Aborted> {
        let of_host = self.running_of_host(&nexus.initiator_device);
        let of_all = Arc::clone(&self.running);
        let turn = async move {
            // First the host's permit, so that a host with many copies does not block others. The semaphores are never closed.
            let of_host = of_host.acquire_owned().await.ok()?;
            let of_all = of_all.acquire_owned().await.ok()?;
            Some(Turn {
                _of_host: of_host,
                _of_all: of_all,
            })
        };
        task.unless_aborted(turn).await?.ok_or(Aborted)
    }

    fn running_of_host(&self, initiator_device: &str) -> Arc<Semaphore> {
        let mut known = lock(&self.running_of_host);
        if let Some(running) = known.get(initiator_device).and_then(Weak::upgrade) {
            return running;
        }
        known.retain(|_, running| running.strong_count() > 0);
        let running = Arc::new(Semaphore::new(MAXIMUM_COPIES_OF_HOST));
        known.insert(initiator_device.to_owned(), Arc::downgrade(&running));
        running
    }
}

/// A logical unit that a nexus may use as copy source or destination.
#[derive(Clone)]
pub(super) struct CopyEnd {
    pub(super) unit: Arc<LogicalUnit>,
    number: u16,
    by: Right,
}

/// Why a nexus may use a logical unit.
#[derive(Clone)]
enum Right {
    /// It may use the unit directly.
    Seen,
    /// It has a ROD token for the blocks: this initiator device created it, and may read them.
    Token(String),
}

impl CopyEnd {
    /// The unit of the command.
    ///
    /// # Errors
    /// LOGICAL UNIT NOT SUPPORTED if it was removed, also if a unit with another volume has its number now.
    pub(super) fn addressed(execution: &Execution) -> Result<Self, Sense> {
        let number = execution.number;
        let unit = execution.device.unit_of_nexus(execution.nexus, number);
        let unit = unit.filter(|unit| Arc::ptr_eq(&unit.volume, &execution.unit.volume));
        let unit = unit.ok_or(Sense::illegal_request(
            AdditionalSense::LOGICAL_UNIT_NOT_SUPPORTED,
        ))?;
        Ok(Self {
            unit,
            number,
            by: Right::Seen,
        })
    }

    /// The unit of a ROD token.
    pub(super) fn of_token(unit: &Arc<LogicalUnit>, number: u16, host: &str) -> Self {
        Self {
            unit: Arc::clone(unit),
            number,
            by: Right::Token(host.to_owned()),
        }
    }

    /// Whether the nexus may still use it. During a copy, its host or that of its token can lose access, and the unit can be
    /// removed. A unit that replaced it on the same volume, with other options, does not end the copy.
    pub(super) fn is_reachable(&self, execution: &Execution) -> bool {
        let nexus = execution.nexus;
        let unit = match &self.by {
            Right::Seen => execution.device.unit_of_nexus(nexus, self.number),
            Right::Token(host) if !execution.device.permits(self.number, host) => None,
            Right::Token(_) => execution.device.logical_unit(self.number),
        };
        unit.is_some_and(|unit| Arc::ptr_eq(&unit.volume, &self.unit.volume))
    }

    /// Whether a reservation forbids `rule` to the nexus.
    pub(super) fn has_reservation_conflict(&self, nexus: &Nexus, rule: ReservationRule) -> bool {
        match self.by {
            Right::Seen => self.unit.reservation_conflict(nexus, rule),
            // Errors of the source are not reported for a valid token (SPC-4 table 114).
            Right::Token(_) => false,
        }
    }
}

/// The logical unit of a CSCD descriptor, if the nexus of the command may use it.
pub(super) fn resolve(execution: &Execution, cscd: &Cscd) -> Option<CopyEnd> {
    let is_named = |unit: &LogicalUnit| names(unit, cscd);
    let (number, unit) = execution.device.find_for_nexus(execution.nexus, is_named)?;
    Some(CopyEnd {
        unit,
        number,
        by: Right::Seen,
    })
}

/// Whether the unit has this designation descriptor with association 0.
fn names(unit: &LogicalUnit, cscd: &Cscd) -> bool {
    unit.designators().iter().any(|designator| {
        (designator.code_set(), designator.kind()) == (cscd.code_set, cscd.designator_type)
            && designator.bytes() == cscd.designator
    })
}
