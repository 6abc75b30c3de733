// SPDX-License-Identifier: Apache-2.0
//! POPULATE TOKEN and WRITE USING TOKEN (SBC-4 5.12, 5.59): offloaded data transfer (ODX).

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use volume::LOGICAL_BLOCK_BYTES;

use super::copy_manager::CopyEnd;
use super::operations::{RunningOperation, State};
use super::token_lists::{
    self, BLOCK_DEVICE_ZERO, BlockRange, CHANGE_VULNERABLE, MAXIMUM_LIST_BYTES, OFFSET_AT,
    TOKEN_BYTES, WriteUsingToken,
};
use super::tokens::{ROD_TOKEN_LENGTH, Rod};
use super::transfer::{Stop, Transfer, transfer};
use super::{DEFAULT_TOKEN_TIMEOUT, MAXIMUM_ROD_BYTES};
use crate::additional_sense::AdditionalSense;
use crate::execution::{ByteRange, Execution, Failure, Reply};
use crate::sam::Status;
use crate::sense::{CopyEndRole, Sense, SenseKey};

/// The list of ranges is too long.
const TOO_LARGE: Sense = Sense::illegal_request(AdditionalSense::INVALID_FIELD_IN_PARAMETER_LIST);

/// The blocks of the token no longer exist, or are about to change.
const CANCELLED: Sense =
    Sense::illegal_request(AdditionalSense::INVALID_TOKEN_OPERATION_TOKEN_CANCELLED);

/// Creates a token for the present content of blocks.
///
/// # Errors
/// The errors of [`token_lists::parse_populate_token`]; LOGICAL BLOCK ADDRESS OUT OF RANGE, OPERATION IN PROGRESS, INSUFFICIENT
/// RESOURCES, INSUFFICIENT RESOURCES TO CREATE ROD TOKEN.
pub(crate) async fn populate_token(execution: &mut Execution<'_>) -> Result<Reply, Failure> {
    const SERVICE_ACTION: u8 = 0x10;
    let Some(list) = receive_list(execution).await? else {
        return Ok(Reply::default());
    };
    let request = token_lists::parse_populate_token(&list)?;
    let ranges = byte_ranges(execution, &request.ranges)?;
    let operation = begin(execution, SERVICE_ACTION)?;
    let made = make_token(execution, &ranges, request.inactivity_timeout).await;
    match &made {
        Ok(token) => {
            operation.change(|progress| {
                progress.token = Some(token.clone());
                progress.bytes = ranges.iter().map(|range| range.length).sum();
            });
            operation.complete(Status::Good, Vec::new());
        }
        Err(failure) => fail(execution, operation, failure),
    }
    made.map(|_| Reply::default())
}

async fn make_token(
    execution: &mut Execution<'_>,
    ranges: &[ByteRange],
    inactivity_timeout: Option<u32>,
) -> Result<Box<[u8; TOKEN_BYTES]>, Failure> {
    let end = CopyEnd::addressed(execution)?;
    let locks = &end.unit.ranges;
    let ranges: Vec<Range<u64>> = ranges
        .iter()
        .map(|range| range.offset..range.offset + range.length)
        .collect();
    let watch = locks.watch(ranges.clone());
    // The watch does not see writes that were requested before. So the point in time is the end of these writes.
    for range in &ranges {
        let held = locks.read(range.clone());
        drop(execution.task.unless_aborted(held).await?);
    }
    let rod = Rod {
        unit: Arc::downgrade(&end.unit),
        number: execution.number,
        host: execution.nexus.initiator_device.clone(),
        ranges,
        watch,
    };
    let seconds = inactivity_timeout.unwrap_or(DEFAULT_TOKEN_TIMEOUT);
    let timeout = Duration::from_secs(u64::from(seconds));
    let tokens = &execution.device.tokens;
    Ok(tokens.create(&end.unit, rod, timeout)?)
}

/// Writes the blocks of a token, up to their end. Data that has changed after the creation of the token is never written: the
/// command ends before.
///
/// The errors of [`token_lists::parse_write_using_token`] and of WRITE; INVALID TOKEN OPERATION. COPY ABORTED with TOKEN
/// CANCELLED if a block of the source changed, or the token's creator lost access, after the first write.
pub(crate) async fn write_using_token(execution: &mut Execution<'_>) -> Result<Reply, Failure> {
    const SERVICE_ACTION: u8 = 0x11;
    let Some(list) = receive_list(execution).await? else {
        return Ok(Reply::default());
    };
    let request = token_lists::parse_write_using_token(&list)?;
    let ranges = byte_ranges(execution, &request.ranges)?;
    execution.require_writable()?;
    let source = source(execution, &request)?;
    let operation = begin(execution, SERVICE_ACTION)?;
    let written = match &source {
        None => clear(execution, &operation, &ranges).await,
        Some((rod, offset)) => write(execution, &operation, rod, *offset, &ranges).await,
    };
    if source.is_some() {
        execution.device.tokens.used(&request.token, request.delete);
    }
    let requested: u64 = ranges.iter().map(|range| range.length).sum();
    match &written {
        Ok(()) if operation.progress().bytes < requested => {
            operation.complete_as(State::CompletedPartially);
        }
        Ok(()) => operation.complete(Status::Good, Vec::new()),
        Err(failure) => fail(execution, operation, failure),
    }
    written.map(|()| Reply::default())
}

/// Source of a token and the first byte to write; `None` for zeroes. Refuses a destination with another block size, which would
/// write partial blocks.
fn source(
    execution: &Execution,
    request: &WriteUsingToken,
) -> Result<Option<(Arc<Rod>, u64)>, Sense> {
    let token = &request.token;
    if token[6..8] != ROD_TOKEN_LENGTH {
        let code = AdditionalSense::INVALID_TOKEN_OPERATION_INVALID_TOKEN_LENGTH;
        return Err(Sense::illegal_request(code));
    }
    match u32::from_be_bytes([token[0], token[1], token[2], token[3]]) {
        BLOCK_DEVICE_ZERO => return Ok(None),
        CHANGE_VULNERABLE => {}
        _ => {
            let code = AdditionalSense::INVALID_TOKEN_OPERATION_UNSUPPORTED_TOKEN_TYPE;
            return Err(Sense::illegal_request(code));
        }
    }
    let device = execution.device;
    let rod = device
        .tokens
        .find(token, |number, host| device.permits(number, host))?;
    if rod.unit.strong_count() == 0 {
        return Err(CANCELLED);
    }
    let offset = request.offset.checked_mul(LOGICAL_BLOCK_BYTES.into());
    let offset = offset.filter(|&offset| offset < rod.bytes());
    let offset = offset.ok_or(Sense::invalid_field_in_parameter_list(OFFSET_AT, None))?;
    Ok(Some((rod, offset)))
}

async fn write(
    execution: &mut Execution<'_>,
    operation: &RunningOperation,
    rod: &Rod,
    offset: u64,
    ranges: &[ByteRange],
) -> Result<(), Failure> {
    let destination = CopyEnd::addressed(execution)?;
    let unit = rod.unit.upgrade().ok_or(CANCELLED)?;
    let source = CopyEnd::of_token(&unit, rod.number, &rod.host);
    drop(unit);
    for (from, to, length) in pieces(&rod.ranges, offset, ranges) {
        let what = Transfer {
            source: &source,
            source_offset: from,
            destination: &destination,
            destination_offset: to,
            length,
            watch: Some(&rod.watch),
        };
        let copied = transfer(execution, operation, &what).await;
        copied.map_err(|stop| failed(stop, operation.progress().bytes > 0))?;
    }
    Ok(())
}

/// Source offset, destination offset and length of each piece, in order, until the source or the destination ends.
fn pieces(rod: &[Range<u64>], offset: u64, ranges: &[ByteRange]) -> Vec<(u64, u64, u64)> {
    let represented: u64 = rod.iter().map(|range| range.end - range.start).sum();
    let mut left = represented.saturating_sub(offset);
    let mut sources = rod.iter().cloned();
    let mut source = 0..0;
    let mut skip = offset;
    let mut pieces = Vec::new();
    for range in ranges {
        let mut done = 0;
        while done < range.length && left > 0 {
            if source.is_empty() {
                let Some(next) = sources.next() else {
                    return pieces;
                };
                let skipped = skip.min(next.end - next.start);
                skip -= skipped;
                source = next.start + skipped..next.end;
                continue;
            }
            let length = (range.length - done)
                .min(source.end - source.start)
                .min(left);
            pieces.push((source.start, range.offset + done, length));
            source.start += length;
            done += length;
            left -= length;
        }
    }
    pieces
}

async fn clear(
    execution: &mut Execution<'_>,
    operation: &RunningOperation,
    ranges: &[ByteRange],
) -> Result<(), Failure> {
    let mut done = 0;
    let cleared = clear_each(execution, operation, ranges, &mut done).await;
    // The reported data is stable, even after an error.
    execution.make_stable().await?;
    operation.change(|progress| progress.bytes += done);
    cleared
}

/// Adds the cleared bytes to `done`.
async fn clear_each(
    execution: &mut Execution<'_>,
    operation: &RunningOperation,
    ranges: &[ByteRange],
    done: &mut u64,
) -> Result<(), Failure> {
    let unmap = execution.unmap_granularity().is_some();
    for range in ranges {
        execution.clear(*range, unmap).await?;
        *done += range.length;
        if operation.is_cancelled() {
            return Err(failed(Stop::Cancelled, true));
        }
    }
    Ok(())
}

/// `begun`: data was written.
fn failed(stop: Stop, begun: bool) -> Failure {
    let aborted = |code| Sense::new(SenseKey::CopyAborted, code).into();
    match stop {
        Stop::Aborted => Failure::Aborted,
        Stop::Cancelled => aborted(AdditionalSense::COMMANDS_CLEARED_BY_DEVICE_SERVER),
        // The unit of the token was removed, or the token's creator lost access.
        Stop::Changed | Stop::Unreachable(CopyEndRole::Source) if begun => {
            aborted(AdditionalSense::INVALID_TOKEN_OPERATION_TOKEN_CANCELLED)
        }
        Stop::Changed | Stop::Unreachable(CopyEndRole::Source) => CANCELLED.into(),
        Stop::Unreachable(CopyEndRole::Destination) => {
            aborted(AdditionalSense::COPY_TARGET_DEVICE_NOT_REACHABLE)
        }
        // The destination is the unit of the command.
        Stop::Failed(forwarded) => match (forwarded.from, forwarded.sense) {
            (CopyEndRole::Destination, Some((key, additional, information))) => Sense {
                information,
                ..Sense::new(key, additional)
            }
            .into(),
            (CopyEndRole::Destination, None) => Failure::ReservationConflict,
            (CopyEndRole::Source, _) => aborted(AdditionalSense::THIRD_PARTY_DEVICE_FAILURE),
        },
    }
}

/// The parameter list; `None` if its length is zero.
async fn receive_list(execution: &mut Execution<'_>) -> Result<Option<volume::Buffer>, Failure> {
    let length = execution.cdb.u32(10);
    if length == 0 {
        return Ok(None);
    }
    if length as usize > MAXIMUM_LIST_BYTES {
        let code = AdditionalSense::PARAMETER_LIST_LENGTH_ERROR;
        return Err(Sense::illegal_request(code).into());
    }
    execution.data_out_required = u64::from(length);
    execution.receive(length).await.map(Some)
}

/// Converts the ranges to bytes. Fails if blocks do not exist, or the total exceeds the limit.
fn byte_ranges(execution: &Execution, ranges: &[BlockRange]) -> Result<Vec<ByteRange>, Sense> {
    let ranges: Vec<_> = ranges
        .iter()
        .map(|range| execution.blocks(range.address, u64::from(range.blocks)))
        .collect::<Result<_, _>>()?;
    let bytes: u64 = ranges.iter().map(|range| range.length).sum();
    if bytes > MAXIMUM_ROD_BYTES {
        return Err(TOO_LARGE);
    }
    Ok(ranges)
}

/// LIST IDENTIFIER has 32 bits in these commands.
fn begin(execution: &Execution, service_action: u8) -> Result<RunningOperation, Sense> {
    let copies = execution.unit.copies();
    copies.begin(execution.nexus.id, execution.cdb.u32(6), service_action)
}

fn fail(execution: &Execution, operation: RunningOperation, failure: &Failure) {
    match failure {
        Failure::Check(sense) => {
            let sense = sense.to_bytes(execution.unit.sense_format());
            operation.complete(Status::CheckCondition, sense);
        }
        Failure::ReservationConflict => {
            operation.complete(Status::ReservationConflict, Vec::new());
        }
        Failure::Aborted => drop(operation),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_cut_where_a_range_of_either_ends() {
        let range = |offset, length| ByteRange { offset, length };
        let rod = [1024..2048, 8192..9216];
        let to = [range(0, 1024), range(16384, 4096)];
        assert_eq!(
            pieces(&rod, 512, &to),
            [(1536, 0, 512), (8192, 512, 512), (8704, 16384, 512)]
        );
        assert_eq!(pieces(&rod, 1024, &to[..1]), [(8192, 0, 1024)]);
        assert_eq!(pieces(&rod, 2048, &to), []);
    }
}
