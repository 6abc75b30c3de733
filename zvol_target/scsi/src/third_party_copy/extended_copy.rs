// SPDX-License-Identifier: Apache-2.0
//! EXTENDED COPY(LID1) (SPC-4 6.5).

use std::sync::Arc;

use volume::LOGICAL_BLOCK_BYTES;
use volume::copy::{CopyRange, known_fallback};

use super::copy_manager::{CopyEnd, resolve};
use super::operations::RunningOperation;
use super::parameter_list::{self, Cscd, LENGTH_ERROR, MAXIMUM_LIST_BYTES, ParameterList};
use super::segment_descriptors::{
    DESTINATION_ADDRESS_AT, DESTINATION_ID_AT, NUMBER_OF_BLOCKS_AT, SOURCE_ADDRESS_AT,
    SOURCE_ID_AT, Segment,
};
use super::transfer::{Stop, Transfer, check_end, transfer};
use super::{MAXIMUM_COPY_BYTES, MAXIMUM_READ_AND_WRITTEN_BYTES};
use crate::additional_sense::AdditionalSense;
use crate::commands::inquiry::DIRECT_ACCESS;
use crate::execution::{Execution, Failure, Reply};
use crate::sam::Status;
use crate::sense::{CopyEndRole, SegmentFailure, SegmentPointer, Sense, SenseKey};

const SERVICE_ACTION: u8 = 0x00;

/// Checks all segments first, then copies them in order.
///
/// # Errors
/// The errors of [`parameter_list::parse`]; OPERATION IN PROGRESS, INSUFFICIENT RESOURCES; COPY ABORTED with the number of the
/// segment: missing CSCD descriptor, unknown logical unit, missing blocks, source and destination that overlap, an error of a
/// logical unit.
pub(crate) async fn extended_copy(execution: &mut Execution<'_>) -> Result<Reply, Failure> {
    let length = execution.cdb.u32(10);
    if length == 0 {
        return Ok(Reply::default());
    }
    if length as usize > MAXIMUM_LIST_BYTES {
        return Err(LENGTH_ERROR.into());
    }
    execution.data_out_required = u64::from(length);
    let list = execution.receive(length).await?;
    let list = parameter_list::parse(&list)?;
    let operation = match list.list_identifier {
        Some(identifier) => execution.unit.copies().begin(
            execution.nexus.id,
            u32::from(identifier),
            SERVICE_ACTION,
        )?,
        None => RunningOperation::unidentified(SERVICE_ACTION),
    };
    let copied = copy(execution, &list, &operation).await;
    match &copied {
        Ok(()) => operation.complete(Status::Good, Vec::new()),
        Err(Failure::Check(sense)) => {
            let sense = sense.to_bytes(execution.unit.sense_format());
            operation.complete(Status::CheckCondition, sense);
        }
        Err(Failure::Aborted | Failure::ReservationConflict) => drop(operation),
    }
    copied.map(|()| Reply::default())
}

async fn copy(
    execution: &mut Execution<'_>,
    list: &ParameterList,
    operation: &RunningOperation,
) -> Result<(), Failure> {
    let ends: Vec<_> = list
        .cscds
        .iter()
        .map(|cscd| resolve(execution, cscd))
        .collect();
    let mut transfers = Vec::with_capacity(list.segments.len());
    let mut total = 0;
    for (number, segment) in list.segments.iter().enumerate() {
        // At most a few dozen segments.
        let checking = Checking {
            list,
            ends: &ends,
            segment,
            number: number as u16,
        };
        let transfer = checking.check(execution)?;
        total += transfer.length;
        let is_too_long = total > MAXIMUM_COPY_BYTES
            || (total > MAXIMUM_READ_AND_WRITTEN_BYTES && cannot_clone(&transfer));
        if number > 0 && is_too_long {
            let code = AdditionalSense::INVALID_FIELD_IN_PARAMETER_LIST;
            return Err(checking.invalid(code, NUMBER_OF_BLOCKS_AT));
        }
        transfers.push((transfer, checking));
    }
    for (what, checked) in &transfers {
        let before = operation.progress().bytes;
        operation.change(|progress| progress.segments += 1);
        if let Err(stop) = transfer(execution, operation, what).await {
            let written = operation.progress().bytes - before;
            return Err(checked.stopped(stop, what, written));
        }
    }
    Ok(())
}

/// Whether a transfer certainly reads and writes: `volume` knows a reason, or the units are in different pools.
fn cannot_clone(transfer: &Transfer) -> bool {
    let [source, destination] = [transfer.source, transfer.destination].map(|end| &end.unit.volume);
    let range = CopyRange {
        source: Arc::clone(source),
        source_offset: transfer.source_offset,
        destination: Arc::clone(destination),
        destination_offset: transfer.destination_offset,
        length: transfer.length,
    };
    let names = [source.dataset(), destination.dataset()];
    let [from, to] = [&names[0], &names[1]].map(|name| name.as_deref().map(volume::zfs::pool_of));
    known_fallback(&range).is_some() || from != to
}

/// A segment during its checks.
struct Checking<'a> {
    list: &'a ParameterList,
    /// Logical units by CSCD descriptor ID; `None` if the nexus has none.
    ends: &'a [Option<CopyEnd>],
    segment: &'a Segment,
    number: u16,
}

impl<'a> Checking<'a> {
    fn check(&self, execution: &Execution) -> Result<Transfer<'a>, Failure> {
        let segment = self.segment;
        let source = self.end(execution, CopyEndRole::Source)?;
        let destination = self.end(execution, CopyEndRole::Destination)?;
        let length = u64::from(segment.blocks) * u64::from(LOGICAL_BLOCK_BYTES);
        let source_offset = offset(source, segment.source_address, length);
        let destination_offset = offset(destination, segment.destination_address, length);
        // Errors in a segment have no specific code (SPC-4 5.17.7.4).
        let code = AdditionalSense::NO_ADDITIONAL_SENSE_INFORMATION;
        let source_offset = source_offset.ok_or_else(|| self.invalid(code, SOURCE_ADDRESS_AT))?;
        let destination_offset =
            destination_offset.ok_or_else(|| self.invalid(code, DESTINATION_ADDRESS_AT))?;
        // After a failure in the middle, the source of a retry would be destroyed.
        if Arc::ptr_eq(&source.unit.volume, &destination.unit.volume)
            && source_offset.abs_diff(destination_offset) < length
        {
            return Err(self.invalid(code, DESTINATION_ADDRESS_AT));
        }
        Ok(Transfer {
            source,
            source_offset,
            destination,
            destination_offset,
            length,
            watch: None,
        })
    }

    /// The source or destination of the segment, if it may be used.
    fn end(&self, execution: &Execution, role: CopyEndRole) -> Result<&'a CopyEnd, Failure> {
        let (cscd, at) = self.cscd(role);
        let index = match role {
            CopyEndRole::Source => self.segment.source,
            CopyEndRole::Destination => self.segment.destination,
        };
        let cscd =
            cscd.ok_or_else(|| self.invalid(AdditionalSense::UNREACHABLE_COPY_TARGET, at))?;
        let end = self.ends.get(usize::from(index)).and_then(Option::as_ref);
        let end = end.ok_or_else(|| self.unreachable(cscd.at))?;
        check_end(execution, end, role).map_err(|stop| self.failed(stop, None))?;
        if cscd.peripheral_device_type != DIRECT_ACCESS {
            let code = AdditionalSense::INCORRECT_COPY_TARGET_DEVICE_TYPE;
            return Err(self.aborted(code, SegmentPointer::ParameterList(cscd.at + 1)));
        }
        if cscd
            .block_bytes
            .is_some_and(|said| said != LOGICAL_BLOCK_BYTES)
        {
            let code = AdditionalSense::INVALID_FIELD_IN_PARAMETER_LIST;
            return Err(self.aborted(code, SegmentPointer::ParameterList(cscd.at + 29)));
        }
        Ok(end)
    }

    /// The CSCD descriptor of the source or destination, and its position in the segment descriptor.
    fn cscd(&self, role: CopyEndRole) -> (Option<&'a Cscd>, u16) {
        let (index, at) = match role {
            CopyEndRole::Source => (self.segment.source, SOURCE_ID_AT),
            CopyEndRole::Destination => (self.segment.destination, DESTINATION_ID_AT),
        };
        (self.list.cscds.get(usize::from(index)), at)
    }

    /// Sense data for a transfer of this segment that ended early, after `written` bytes.
    fn stopped(&self, stop: Stop, what: &Transfer, written: u64) -> Failure {
        let residual = (what.length - written).div_ceil(u64::from(LOGICAL_BLOCK_BYTES));
        self.failed(stop, (written > 0).then_some(residual))
    }

    /// `residual` is in blocks of the destination, if any was written.
    fn failed(&self, stop: Stop, residual: Option<u64>) -> Failure {
        let pointer = |role| {
            let (cscd, _) = self.cscd(role);
            SegmentPointer::ParameterList(cscd.map_or(0, |cscd| cscd.at))
        };
        let (code, pointer, forwarded) = match stop {
            Stop::Aborted => return Failure::Aborted,
            // Not possible without a watch.
            Stop::Cancelled | Stop::Changed => {
                let code = AdditionalSense::COMMANDS_CLEARED_BY_DEVICE_SERVER;
                return Sense {
                    information: residual,
                    ..Sense::new(SenseKey::CopyAborted, code)
                }
                .into();
            }
            Stop::Unreachable(role) => (
                AdditionalSense::COPY_TARGET_DEVICE_NOT_REACHABLE,
                pointer(role),
                None,
            ),
            Stop::Failed(forwarded) => (
                AdditionalSense::THIRD_PARTY_DEVICE_FAILURE,
                pointer(forwarded.from),
                Some(forwarded),
            ),
        };
        Sense {
            information: residual,
            segment: Some(SegmentFailure {
                segment: self.number,
                pointer,
                forwarded,
            }),
            ..Sense::new(SenseKey::CopyAborted, code)
        }
        .into()
    }

    fn unreachable(&self, cscd_at: u16) -> Failure {
        let code = AdditionalSense::COPY_TARGET_DEVICE_NOT_REACHABLE;
        self.aborted(code, SegmentPointer::ParameterList(cscd_at))
    }

    /// Sense data for a wrong byte of the segment descriptor.
    fn invalid(&self, code: AdditionalSense, byte: u16) -> Failure {
        self.aborted(code, SegmentPointer::Segment(byte))
    }

    fn aborted(&self, code: AdditionalSense, pointer: SegmentPointer) -> Failure {
        Sense {
            segment: Some(SegmentFailure {
                segment: self.number,
                pointer,
                forwarded: None,
            }),
            ..Sense::new(SenseKey::CopyAborted, code)
        }
        .into()
    }
}

/// Offset of `length` bytes from the block at `address` on; `None` if not all of them exist.
fn offset(end: &CopyEnd, address: u64, length: u64) -> Option<u64> {
    let capacity = end.unit.capacity();
    let block_bytes = u64::from(LOGICAL_BLOCK_BYTES);
    let first = address.checked_mul(block_bytes)?;
    let behind = first.checked_add(length)?;
    (behind <= capacity.blocks() * block_bytes).then_some(first)
}
