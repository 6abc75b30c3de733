// SPDX-License-Identifier: Apache-2.0
//! Results of copy operations: the RECEIVE COPY commands (SPC-4 6.20 to 6.25) and COPY OPERATION ABORT (SPC-4 6.3).

use std::sync::Arc;

use volume::LOGICAL_BLOCK_BYTES;

use super::operating_parameters::operating_parameters;
use super::operations::{CopyOperation, Progress, State};
use crate::execution::{Execution, Reply};
use crate::sam::Status;
use crate::sense::Sense;

/// Byte of the CDB where LIST IDENTIFIER begins.
const LIST_IDENTIFIER_AT: u16 = 2;

/// The operation does not exist, or is not in the state that the command requires.
const NO_OPERATION: Sense = Sense::invalid_field_in_cdb(LIST_IDENTIFIER_AT, None);

/// TRANSFER COUNT UNITS: bytes.
const BYTES: u8 = 0x00;
/// TRANSFER COUNT UNITS: kibibytes.
const KIBIBYTES: u8 = 0x01;
/// TRANSFER COUNT UNITS: blocks of the destination.
const BLOCKS: u8 = 0xf1;

const EXTENDED_COPY_LID1: u8 = 0x00;

pub(crate) fn receive_copy_operating_parameters(execution: &Execution) -> Reply {
    Reply::parameter_data(&operating_parameters(), execution.cdb.u32(10))
}

/// # Errors
/// INVALID FIELD IN CDB if no operation has the list identifier, or its status was delivered.
pub(crate) fn receive_copy_status_lid1(execution: &Execution) -> Result<Reply, Sense> {
    const AVAILABLE_DATA: [u8; 4] = [0, 0, 0, 8];
    let operation = lid1(execution)?;
    let Progress {
        state,
        segments,
        bytes,
        status_delivered,
        ..
    } = operation.progress();
    if status_delivered {
        return Err(NO_OPERATION);
    }
    let status = match state {
        State::Running => 0x00,
        State::Completed(Status::Good, _) | State::CompletedPartially => 0x01,
        State::Completed(..) | State::Terminated => 0x02,
    };
    operation.change(|progress| {
        // If it has completed in the meantime, its status is still to be delivered.
        progress.status_delivered = status != 0x00;
    });
    let (units, count) = match u32::try_from(bytes) {
        Ok(bytes) => (BYTES, bytes),
        Err(_) => (KIBIBYTES, u32::try_from(bytes >> 10).unwrap_or(u32::MAX)),
    };
    let mut data = AVAILABLE_DATA.to_vec();
    data.push(status);
    data.extend_from_slice(&segments.to_be_bytes());
    data.push(units);
    data.extend_from_slice(&count.to_be_bytes());
    Ok(Reply::parameter_data(&data, execution.cdb.u32(10)))
}

/// Always fails: a copy holds no data for its host.
///
/// # Errors
/// INVALID FIELD IN CDB if no operation has the list identifier.
pub(crate) fn receive_copy_data(execution: &Execution) -> Result<Reply, Sense> {
    const AVAILABLE_DATA: [u8; 4] = [0; 4];
    lid1(execution)?;
    Ok(Reply::parameter_data(
        &AVAILABLE_DATA,
        execution.cdb.u32(10),
    ))
}

/// # Errors
/// INVALID FIELD IN CDB if no operation has the list identifier, it is running, or its details were delivered.
pub(crate) fn receive_copy_failure_details(execution: &Execution) -> Result<Reply, Sense> {
    /// First byte from the status on.
    const STATUS_AT: usize = 56;
    const SENSE_DATA_AT: usize = 60;
    let operation = lid1(execution)?;
    let progress = operation.progress();
    if progress.details_delivered {
        return Err(NO_OPERATION);
    }
    let data = match progress.state {
        State::Running => return Err(NO_OPERATION),
        State::Completed(Status::Good, _) | State::CompletedPartially | State::Terminated => {
            vec![0; 4]
        }
        State::Completed(status, sense) => {
            let mut data = vec![0; SENSE_DATA_AT];
            data[STATUS_AT] = status as u8;
            // Less than a hundred bytes.
            data[58..60].copy_from_slice(&(sense.len() as u16).to_be_bytes());
            data.extend_from_slice(&sense);
            let available = data.len() as u32 - 4;
            data[..4].copy_from_slice(&available.to_be_bytes());
            data
        }
    };
    operation.change(|progress| progress.details_delivered = true);
    Ok(Reply::parameter_data(&data, execution.cdb.u32(10)))
}

/// # Errors
/// INVALID FIELD IN CDB if no operation has the list identifier.
pub(crate) fn receive_copy_status_lid4(execution: &Execution) -> Result<Reply, Sense> {
    let operation = lid4(execution)?;
    let mut data = shared_header(&operation);
    let available = data.len() as u32 - 4;
    data[..4].copy_from_slice(&available.to_be_bytes());
    Ok(Reply::parameter_data(&data, execution.cdb.u32(10)))
}

/// The token of a POPULATE TOKEN is delivered once. An allocation length of zero discards it.
///
/// # Errors
/// INVALID FIELD IN CDB if no operation has the list identifier.
pub(crate) fn receive_rod_token_information(execution: &Execution) -> Result<Reply, Sense> {
    /// ID FOR CREATING ROD CSCD DESCRIPTOR: reserved here.
    const IDENTIFIER: [u8; 2] = [0; 2];
    let operation = lid4(execution)?;
    let mut data = shared_header(&operation);
    let descriptor = operation
        .progress()
        .token
        .map_or(Vec::new(), |token| [&IDENTIFIER[..], &token[..]].concat());
    // One token at most.
    data.extend_from_slice(&(descriptor.len() as u32).to_be_bytes());
    data.extend_from_slice(&descriptor);
    let available = data.len() as u32 - 4;
    data[..4].copy_from_slice(&available.to_be_bytes());
    let allocation_length = execution.cdb.u32(10);
    let taken = allocation_length.min(execution.data_in_buffer_size) as usize;
    if allocation_length == 0 || taken >= data.len() {
        operation.change(|progress| progress.token = None);
    }
    Ok(Reply::parameter_data(&data, allocation_length))
}

/// The shared third-party copy status header with its sense data (SPC-4 6.24). The caller sets AVAILABLE DATA.
fn shared_header(operation: &CopyOperation) -> Vec<u8> {
    const IN_PROGRESS_IN_FOREGROUND: u8 = 0x11;
    const COMPLETED_WITHOUT_ERRORS: u8 = 0x01;
    const COMPLETED_WITH_ERRORS: u8 = 0x02;
    const COMPLETED_WITH_PARTIAL_TOKEN_USAGE: u8 = 0x03;
    const TERMINATED: u8 = 0x60;
    /// Milliseconds.
    const STATUS_UPDATE_DELAY: u32 = 1000;
    const NO_UPDATE: u32 = 0xffff_fffe;
    let progress = operation.progress();
    let (code, delay, status, mut sense) = match progress.state {
        State::Running => (
            IN_PROGRESS_IN_FOREGROUND,
            STATUS_UPDATE_DELAY,
            Status::Good,
            Vec::new(),
        ),
        State::Completed(status, sense) => {
            let code = if status == Status::Good {
                COMPLETED_WITHOUT_ERRORS
            } else {
                COMPLETED_WITH_ERRORS
            };
            (code, NO_UPDATE, status, sense)
        }
        State::CompletedPartially => (
            COMPLETED_WITH_PARTIAL_TOKEN_USAGE,
            NO_UPDATE,
            Status::Good,
            Vec::new(),
        ),
        State::Terminated => (TERMINATED, NO_UPDATE, Status::TaskAborted, Vec::new()),
    };
    let sense_length = sense.len();
    sense.resize(sense_length.next_multiple_of(4), 0);
    let mut data = vec![0; 32];
    data[4] = operation.service_action;
    data[5] = code;
    // OPERATION COUNTER: counts segments.
    data[6..8].copy_from_slice(&progress.segments.to_be_bytes());
    data[8..12].copy_from_slice(&delay.to_be_bytes());
    data[12] = status as u8;
    // Less than a hundred bytes.
    data[13] = sense.len() as u8;
    data[14] = sense_length as u8;
    let (units, count) = match operation.service_action {
        EXTENDED_COPY_LID1 => (BYTES, progress.bytes),
        // Windows adds it to the offset into the ROD, which is in blocks.
        _ => (BLOCKS, progress.bytes / u64::from(LOGICAL_BLOCK_BYTES)),
    };
    data[15] = units;
    data[16..24].copy_from_slice(&count.to_be_bytes());
    data[24..26].copy_from_slice(&progress.segments.to_be_bytes());
    data.extend_from_slice(&sense);
    data
}

/// Cancels the operation before its next step. Its command ends with COMMANDS CLEARED BY DEVICE SERVER.
///
/// # Errors
/// INVALID FIELD IN CDB if no running operation has the list identifier.
pub(crate) fn copy_operation_abort(execution: &Execution) -> Result<Reply, Sense> {
    let copies = execution.unit.copies();
    if copies.cancel(execution.nexus.id, execution.cdb.u32(2)) {
        Ok(Reply::default())
    } else {
        Err(NO_OPERATION)
    }
}

/// The operation of an eight-bit LIST IDENTIFIER.
fn lid1(execution: &Execution) -> Result<Arc<CopyOperation>, Sense> {
    find(execution, u32::from(execution.cdb.byte(2)))
}

/// The operation of a 32-bit LIST IDENTIFIER.
fn lid4(execution: &Execution) -> Result<Arc<CopyOperation>, Sense> {
    find(execution, execution.cdb.u32(2))
}

fn find(execution: &Execution, list_identifier: u32) -> Result<Arc<CopyOperation>, Sense> {
    let copies = execution.unit.copies();
    copies
        .find(execution.nexus.id, list_identifier)
        .ok_or(NO_OPERATION)
}
