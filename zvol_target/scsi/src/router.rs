// SPDX-License-Identifier: Apache-2.0
//! The task router and device server (SAM-5): checks before a command, dispatch, status.

use std::sync::Arc;
use std::time::Instant;

use crate::additional_sense::AdditionalSense;
use crate::address::Address;
use crate::cdb::Cdb;
use crate::command_table::{self, CommandDescription, Operation};
use crate::commands::{
    capacity, compare_and_write, defects, diagnostic, inquiry, lba_status, log_sense, mode_select,
    mode_sense, or_write, power, pre_fetch, read_write, report_luns, report_supported,
    request_sense, synchronize_cache, target_port_groups, unmap, verify, write_atomic, write_same,
};
use crate::device::Device;
use crate::execution::{Execution, Failure, Reply};
use crate::hosts::CountedNexus;
use crate::logical_unit::{LogicalUnit, UnitTasks};
use crate::offload::Offloads;
use crate::offload_statistics::OffloadStatistics;
use crate::reservations::{persistent_reserve_in, persistent_reserve_out, reserve};
use crate::sam::{Command, Completion, DataOut, Nexus, Outcome, Status, TaskAttribute};
use crate::sense::{Sense, SenseFormat, SenseKey};
use crate::statistics::{Counted, Family};
use crate::task_set::{Abort, EnteredTask};
use crate::third_party_copy as copy;
use crate::unit_attention::UnitAttentions;

/// A command in the task set of its logical unit.
pub(crate) struct Admitted {
    pub(crate) number: u16,
    pub(crate) unit: Arc<LogicalUnit>,
    pub(crate) nexus: Arc<Nexus>,
    /// The host's offloads.
    pub(crate) offloads: Offloads,
    /// `None` if the nexus no longer exists.
    pub(crate) counted: Option<Arc<CountedNexus>>,
    pub(crate) task: EnteredTask<UnitTasks>,
    /// Time of its arrival.
    pub(crate) arrived_at: Instant,
}

/// Runs a command.
pub(crate) async fn execute(
    device: Arc<Device>,
    admitted: Admitted,
    command: Command,
    mut data_out: Box<dyn DataOut>,
) -> Outcome {
    let Admitted {
        number,
        unit,
        nexus,
        offloads,
        counted,
        task,
        arrived_at,
    } = admitted;
    let mut execution = Execution {
        device: &device,
        unit: &unit,
        number,
        nexus: &nexus,
        cdb: Cdb(&command.cdb),
        task: task.task(),
        data_out: &mut *data_out,
        data_in_buffer_size: command.data_in_buffer_size,
        data_out_required: 0,
        bytes: 0,
        offloads,
        offloaded: OffloadStatistics::default(),
    };
    let description = command_table::find(execution.cdb, |command| unit.offers(command, offloads));
    let result = run(&mut execution, description, command.attribute).await;
    let Execution {
        data_out_required,
        bytes,
        offloaded,
        ..
    } = execution;
    let count = |what| {
        let of_nexus = counted.as_ref().map(|counted| &*counted.counters);
        for counters in [Some(unit.counters()), of_nexus].into_iter().flatten() {
            counters.count(what);
            counters.count_offloaded(&offloaded);
        }
    };
    let result = match (task.finish(), result) {
        (None, Ok(reply)) => Ok(reply),
        (None, Err(Failure::Check(sense))) => Err(Ending::Check(sense)),
        (None, Err(Failure::ReservationConflict)) => Err(Ending::ReservationConflict),
        (Some(Abort::WithStatus), _) => {
            count(Counted::Aborted);
            return Outcome::Completed(Completion {
                data_out_required,
                ..Completion::with_status(Status::TaskAborted)
            });
        }
        // The nexus can be lost before the task notices it.
        (Some(Abort::Silent), _) | (None, Err(Failure::Aborted)) => {
            count(Counted::Aborted);
            return Outcome::Aborted;
        }
    };
    let failure = match &result {
        Err(Ending::Check(sense)) => Some(sense.key),
        Ok(_) | Err(Ending::ReservationConflict) => None,
    };
    // A command that reports a unit attention did nothing else.
    if failure != Some(SenseKey::UnitAttention) {
        count(Counted::Completed {
            family: description.map_or(Family::Other, |description| description.family),
            bytes,
            failure,
            elapsed: arrived_at.elapsed(),
        });
    }
    Outcome::Completed(completion(result, data_out_required, unit.sense_format()))
}

/// An end with a status other than GOOD.
enum Ending {
    Check(Sense),
    ReservationConflict,
}

fn completion(
    result: Result<Reply, Ending>,
    data_out_required: u64,
    format: SenseFormat,
) -> Completion {
    match result {
        Ok(reply) => Completion {
            status: Status::Good,
            sense: Vec::new(),
            data_in: reply.data_in,
            data_in_required: reply.data_in_required,
            data_out_required,
        },
        Err(Ending::Check(sense)) => Completion {
            sense: sense.to_bytes(format),
            data_out_required,
            ..Completion::with_status(Status::CheckCondition)
        },
        Err(Ending::ReservationConflict) => Completion {
            data_out_required,
            ..Completion::with_status(Status::ReservationConflict)
        },
    }
}

async fn run(
    execution: &mut Execution<'_>,
    description: Result<&CommandDescription, Sense>,
    attribute: TaskAttribute,
) -> Result<Reply, Failure> {
    execution.task.enabled().await?;
    if attribute == TaskAttribute::AutoContingentAllegiance {
        // An ACA condition never exists here (NORMACA = 0).
        return Err(Sense::new(
            SenseKey::AbortedCommand,
            AdditionalSense::INVALID_MESSAGE_ERROR,
        )
        .into());
    }
    // In the order of SAM-5 5.3.3: a reset, RESERVATION CONFLICT, other unit attentions.
    let runs_despite_unit_attention =
        description.is_ok_and(CommandDescription::runs_despite_unit_attention);
    if !runs_despite_unit_attention {
        report_unit_attention(execution, UnitAttentions::take_reset)?;
    }
    if let Ok(description) = description {
        let rule = description.reservation_rule(execution.cdb);
        if execution.unit.reservation_conflict(execution.nexus, rule) {
            return Err(Failure::ReservationConflict);
        }
    }
    if !runs_despite_unit_attention {
        report_unit_attention(execution, UnitAttentions::take)?;
    }
    let description = description?;
    if !execution.unit.is_ready() && !description.runs_while_not_ready() {
        return Err(NOT_READY.into());
    }
    match description.operation {
        Operation::TestUnitReady => Ok(Reply::default()),
        Operation::RequestSense => Ok(request_sense::request_sense(execution)),
        Operation::Read => read_write::read(execution).await,
        Operation::Write => read_write::write(execution).await,
        Operation::WriteAndVerify => verify::write_and_verify(execution).await,
        Operation::Verify => verify::verify(execution).await,
        Operation::CompareAndWrite => compare_and_write::compare_and_write(execution).await,
        Operation::OrWrite => or_write::or_write(execution).await,
        Operation::WriteAtomic => write_atomic::write_atomic(execution).await,
        Operation::WriteSame => write_same::write_same(execution).await,
        Operation::Unmap => unmap::unmap(execution).await,
        Operation::GetLbaStatus => lba_status::get_lba_status(execution).await,
        Operation::SynchronizeCache => synchronize_cache::synchronize_cache(execution).await,
        Operation::PreFetch => Ok(pre_fetch::pre_fetch(execution)?),
        Operation::ReadDefectData => Ok(defects::read_defect_data(execution)),
        Operation::LogSense => Ok(log_sense::log_sense(execution)?),
        Operation::SendDiagnostic => diagnostic::send_diagnostic(execution).await,
        Operation::StartStopUnit => power::start_stop_unit(execution).await,
        Operation::Inquiry => Ok(inquiry::inquiry(execution)?),
        Operation::ModeSense => Ok(mode_sense::mode_sense(execution)?),
        Operation::ModeSelect => mode_select::mode_select(execution).await,
        Operation::ReadCapacity10 => Ok(capacity::read_capacity_10(execution)),
        Operation::ReadCapacity16 => Ok(capacity::read_capacity_16(execution)),
        Operation::ReportLuns => Ok(report_luns::report_luns(
            execution.device,
            execution.nexus,
            execution.cdb,
        )?),
        Operation::ReportSupportedOperationCodes => {
            Ok(report_supported::operation_codes(execution)?)
        }
        Operation::ReportSupportedTaskManagementFunctions => {
            Ok(report_supported::task_management_functions(execution.cdb)?)
        }
        Operation::ReportTargetPortGroups => {
            Ok(target_port_groups::report_target_port_groups(execution))
        }
        Operation::PersistentReserveInReadKeys => Ok(persistent_reserve_in::read_keys(execution)?),
        Operation::PersistentReserveInReadReservation => {
            Ok(persistent_reserve_in::read_reservation(execution)?)
        }
        Operation::PersistentReserveInReportCapabilities => {
            Ok(persistent_reserve_in::report_capabilities(execution)?)
        }
        Operation::PersistentReserveInReadFullStatus => {
            Ok(persistent_reserve_in::read_full_status(execution)?)
        }
        Operation::PersistentReserveOut(action) => {
            persistent_reserve_out::persistent_reserve_out(execution, action).await
        }
        Operation::Reserve => reserve::reserve(execution).await,
        Operation::Release => reserve::release(execution).await,
        Operation::ExtendedCopy => copy::extended_copy(execution).await,
        Operation::CopyOperationAbort => Ok(copy::copy_operation_abort(execution)?),
        Operation::ReceiveCopyStatusLid1 => Ok(copy::receive_copy_status_lid1(execution)?),
        Operation::ReceiveCopyData => Ok(copy::receive_copy_data(execution)?),
        Operation::ReceiveCopyOperatingParameters => {
            Ok(copy::receive_copy_operating_parameters(execution))
        }
        Operation::ReceiveCopyFailureDetails => Ok(copy::receive_copy_failure_details(execution)?),
        Operation::ReceiveCopyStatusLid4 => Ok(copy::receive_copy_status_lid4(execution)?),
        Operation::PopulateToken => copy::populate_token(execution).await,
        Operation::WriteUsingToken => copy::write_using_token(execution).await,
        Operation::ReceiveRodTokenInformation => {
            Ok(copy::receive_rod_token_information(execution)?)
        }
    }
}

/// Whether the command does not need the volume.
pub(crate) fn runs_while_not_ready(cdb: &[u8]) -> bool {
    command_table::find(Cdb(cdb), |_| true).is_ok_and(CommandDescription::runs_while_not_ready)
}

/// Sense data of a unit without volume. Linux repeats the command (`scsi_io_completion_action`); it would fail one with CAUSE NOT
/// REPORTABLE at once.
pub(crate) const NOT_READY: Sense = Sense::new(
    SenseKey::NotReady,
    AdditionalSense::LOGICAL_UNIT_IS_IN_PROCESS_OF_BECOMING_READY,
);

/// Reports a unit attention of the nexus from `take`, if there is one, instead of running the command (SAM-5 5.14).
fn report_unit_attention(
    execution: &Execution,
    take: fn(&UnitAttentions, u64) -> Option<AdditionalSense>,
) -> Result<(), Sense> {
    let nexus = execution.nexus.id;
    let Some(condition) = take(&execution.unit.unit_attentions, nexus) else {
        return Ok(());
    };
    if condition == AdditionalSense::REPORTED_LUNS_DATA_HAS_CHANGED {
        execution.device.clear_reported_luns_changed(nexus);
    }
    Err(execution.unit.unit_attention_sense(condition))
}

/// Answers a command to the REPORT LUNS well-known logical unit, or to a number without logical unit (SAM-5, SPC-5).
pub(crate) fn execute_without_unit(
    device: &Device,
    nexus: &Nexus,
    command: &Command,
) -> Completion {
    let result = answer_without_unit(
        device,
        nexus,
        Address::from(command.logical_unit),
        Cdb(&command.cdb),
    );
    completion(result.map_err(Ending::Check), 0, SenseFormat::Fixed)
}

fn answer_without_unit(
    device: &Device,
    nexus: &Nexus,
    address: Address,
    cdb: Cdb,
) -> Result<Reply, Sense> {
    let well_known = address == Address::ReportLuns;
    let not_supported = Sense::illegal_request(AdditionalSense::LOGICAL_UNIT_NOT_SUPPORTED);
    // A missing logical unit has precedence over errors in the CDB.
    let operation = command_table::with_operation_code(cdb.operation_code())
        .first()
        .map(|command| command.operation);
    match operation {
        Some(Operation::Inquiry | Operation::RequestSense) => {}
        Some(Operation::ReportLuns) if well_known || address == Address::Number(0) => {}
        Some(Operation::TestUnitReady) if well_known => {}
        _ if well_known => {
            return Err(Sense::illegal_request(
                AdditionalSense::INVALID_COMMAND_OPERATION_CODE,
            ));
        }
        _ => return Err(not_supported),
    }
    // None of these depends on an offload.
    match command_table::find(cdb, |_| true)?.operation {
        Operation::Inquiry => inquiry::inquiry_without_unit(device, cdb, address),
        Operation::ReportLuns => report_luns::report_luns(device, nexus, cdb),
        Operation::RequestSense if well_known => {
            Ok(request_sense::parameter_data(cdb, request_sense::NO_SENSE))
        }
        Operation::RequestSense => Ok(request_sense::parameter_data(cdb, not_supported)),
        _ => Ok(Reply::default()),
    }
}
