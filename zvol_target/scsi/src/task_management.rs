//! Task management functions (SAM-5 7).

use std::sync::Arc;

use crate::additional_sense::AdditionalSense;
use crate::address::Address;
use crate::device::Device;
use crate::logical_unit::LogicalUnit;
use crate::sam::{
    FunctionResponse, LocalBoxFuture, LogicalUnitNumber, Nexus, TaskManagementFunction,
};
use crate::task_set::AbortedTasks;

/// Tasks are marked aborted when this returns; the future waits for their end.
pub(crate) fn manage(
    device: &Device,
    nexus: &Nexus,
    function: TaskManagementFunction,
) -> LocalBoxFuture<'static, FunctionResponse> {
    let waits = match function {
        TaskManagementFunction::AbortTask {
            logical_unit,
            identifier,
        } => units(device, logical_unit).and_then(|units| {
            let aborted = abort(units, |of, is| of == nexus.id && is == identifier);
            if aborted.iter().all(|(_, tasks)| tasks.is_empty()) {
                Err(FunctionResponse::TaskDoesNotExist)
            } else {
                Ok(aborted)
            }
        }),
        TaskManagementFunction::AbortTaskSet(logical_unit) => {
            units(device, logical_unit).map(|units| abort(units, |of, _| of == nexus.id))
        }
        TaskManagementFunction::ClearTaskSet(logical_unit) => {
            units(device, logical_unit).map(|units| clear_task_sets(units, nexus))
        }
        TaskManagementFunction::LogicalUnitReset(logical_unit) => units(device, logical_unit)
            .map(|units| reset(units, AdditionalSense::BUS_DEVICE_RESET_FUNCTION_OCCURRED)),
        TaskManagementFunction::TargetReset => Ok(reset(
            device.all_units(),
            AdditionalSense::SCSI_BUS_RESET_OCCURRED,
        )),
        // NORMACA = 0: no logical unit ever has an ACA condition.
        TaskManagementFunction::ClearAca(_) => Err(FunctionResponse::NotSupported),
    };
    Box::pin(async move {
        match waits {
            Ok(aborted) => {
                for (unit, tasks) in &aborted {
                    unit.tasks.wait_until_ended(tasks).await;
                }
                FunctionResponse::Complete
            }
            Err(response) => response,
        }
    })
}

/// The units a function on one logical unit is about; none for the well-known one, which never has tasks.
fn units(
    device: &Device,
    logical_unit: LogicalUnitNumber,
) -> Result<Vec<Arc<LogicalUnit>>, FunctionResponse> {
    match Address::from(logical_unit) {
        Address::ReportLuns => Ok(Vec::new()),
        Address::Number(number) => {
            let units = device.units_with_number(number);
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

fn abort(units: Vec<Arc<LogicalUnit>>, which: impl Fn(u64, u64) -> bool) -> Aborted {
    units
        .into_iter()
        .map(|unit| {
            let tasks = unit.tasks.abort(&which);
            (unit, tasks)
        })
        .collect()
}

fn clear_task_sets(units: Vec<Arc<LogicalUnit>>, nexus: &Nexus) -> Aborted {
    let aborted = abort(units, |_, _| true);
    for (unit, tasks) in &aborted {
        for other in tasks.nexuses().filter(|&of| of != nexus.id) {
            unit.unit_attentions.establish_for(
                other,
                AdditionalSense::COMMANDS_CLEARED_BY_ANOTHER_INITIATOR,
            );
        }
    }
    aborted
}

fn reset(units: Vec<Arc<LogicalUnit>>, condition: AdditionalSense) -> Aborted {
    let aborted = abort(units, |_, _| true);
    for (unit, _) in &aborted {
        unit.reset(condition);
    }
    aborted
}
