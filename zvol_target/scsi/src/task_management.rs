// SPDX-License-Identifier: Apache-2.0
//! Task management functions (SAM-5 7).

use std::sync::Arc;

use crate::additional_sense::AdditionalSense;
use crate::address::Address;
use crate::device::Device;
use crate::logical_unit::LogicalUnit;
use crate::sam::{
    FunctionResponse, LocalBoxFuture, LogicalUnitNumber, Nexus, TaskManagementFunction,
};
use crate::task_set::{Abort, AbortedTasks};

/// Marks the tasks as aborted; the future waits for their end. If dropped before, it fences the units until then.
pub(crate) fn manage(
    device: &Device,
    nexus: &Nexus,
    function: TaskManagementFunction,
) -> LocalBoxFuture<'static, FunctionResponse> {
    let host = Some(nexus.initiator_device.clone());
    let waits = match function {
        TaskManagementFunction::AbortTask {
            logical_unit,
            identifier,
        } => units(device, nexus, logical_unit).and_then(|units| {
            let aborted = abort(units, |of, is| {
                (of == nexus.id && is == identifier).then_some(Abort::Silent)
            });
            if aborted.iter().all(|(_, tasks)| tasks.is_empty()) {
                Err(FunctionResponse::TaskDoesNotExist)
            } else {
                Ok(Unended::new(aborted, host))
            }
        }),
        // The task set belongs to the nexus (TST = 001b).
        TaskManagementFunction::AbortTaskSet(logical_unit)
        | TaskManagementFunction::ClearTaskSet(logical_unit) => units(device, nexus, logical_unit)
            .map(|units| abort(units, |of, _| (of == nexus.id).then_some(Abort::Silent)))
            .map(|aborted| Unended::new(aborted, host)),
        TaskManagementFunction::LogicalUnitReset(logical_unit) => {
            units(device, nexus, logical_unit).map(|units| {
                let condition = AdditionalSense::BUS_DEVICE_RESET_FUNCTION_OCCURRED;
                reset(units, nexus, condition)
            })
        }
        // Only units that the nexus may use.
        TaskManagementFunction::TargetReset => Ok(reset(
            device.units_with_tasks(nexus, None),
            nexus,
            AdditionalSense::SCSI_BUS_RESET_OCCURRED,
        )),
        // NORMACA = 0: an ACA condition never exists.
        TaskManagementFunction::ClearAca(_) => Err(FunctionResponse::NotSupported),
    };
    Box::pin(async move {
        match waits {
            Ok(aborted) => {
                aborted.wait().await;
                FunctionResponse::Complete
            }
            Err(response) => response,
        }
    })
}

/// The units of a function on one logical unit; none for the well-known one, which has no tasks.
fn units(
    device: &Device,
    nexus: &Nexus,
    logical_unit: LogicalUnitNumber,
) -> Result<Vec<Arc<LogicalUnit>>, FunctionResponse> {
    match Address::from(logical_unit) {
        Address::ReportLuns => Ok(Vec::new()),
        Address::Number(number) => {
            let units = device.units_with_tasks(nexus, Some(number));
            if units.is_empty() {
                Err(FunctionResponse::IncorrectLogicalUnit)
            } else {
                Ok(units)
            }
        }
        Address::Elsewhere => Err(FunctionResponse::IncorrectLogicalUnit),
    }
}

type Aborted = Vec<(Arc<LogicalUnit>, AbortedTasks)>;

/// Aborted tasks. When their waiter is dropped, the units are fenced until they have ended.
pub(crate) struct Unended {
    tasks: Aborted,
    /// Initiator device that considers them ended; `None`: all.
    host: Option<String>,
}

impl Unended {
    pub(crate) fn new(tasks: Aborted, host: Option<String>) -> Self {
        Self { tasks, host }
    }

    /// Ready when they have ended.
    pub(crate) async fn wait(&self) {
        for (unit, tasks) in &self.tasks {
            unit.tasks.wait_until_ended(tasks).await;
        }
    }
}

impl Drop for Unended {
    fn drop(&mut self) {
        for (unit, tasks) in &self.tasks {
            unit.tasks.fence(tasks, self.host.as_deref());
        }
    }
}

fn abort(units: Vec<Arc<LogicalUnit>>, how: impl Fn(u64, u64) -> Option<Abort>) -> Aborted {
    units
        .into_iter()
        .map(|unit| {
            let tasks = unit.tasks.abort(&how);
            (unit, tasks)
        })
        .collect()
}

/// Aborts all tasks of every nexus. Those of other nexuses end with TASK ABORTED (TAS = 1).
fn reset(units: Vec<Arc<LogicalUnit>>, nexus: &Nexus, condition: AdditionalSense) -> Unended {
    let aborted = abort(units, |of, _| {
        Some(if of == nexus.id {
            Abort::Silent
        } else {
            Abort::WithStatus
        })
    });
    for (unit, _) in &aborted {
        unit.reset(condition);
    }
    Unended::new(aborted, None)
}
