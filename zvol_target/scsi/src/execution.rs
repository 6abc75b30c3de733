// SPDX-License-Identifier: Apache-2.0
//! A running command, with the operations that all command families use.

use std::future::poll_fn;
use std::task::Poll;

use volume::{Buffer, LOGICAL_BLOCK_BYTES, VolumeError};

use crate::additional_sense::AdditionalSense;
use crate::cdb::{BlockRange, Cdb};
use crate::device::Device;
use crate::logical_unit::{Capacity, LogicalUnit};
use crate::offload::{Offload, Offloads};
use crate::offload_statistics::OffloadStatistics;
use crate::range_lock::RangeGuard;
use crate::sam::{DataOut, DeliveryError, Nexus};
use crate::sense::{Sense, SenseKey};
use crate::task_set::{Aborted, Task};

/// Recommended limit of the data of one READ, WRITE or VERIFY: MAXIMUM TRANSFER LENGTH of the Block Limits page.
///
/// Hosts split larger requests by this field. Commands above 1 MiB are not faster.
pub(crate) const MAXIMUM_TRANSFER_BYTES: u32 = 4 << 20;

/// Enforced limit of such a command, for hosts that ignore the field. A READ allocates what its initiator accepts, which the
/// transport limits over all commands of a nexus.
pub(crate) const ACCEPTED_TRANSFER_BYTES: u32 = 16 << 20;

/// Limit of one transfer between Data-Out and the volume, and of one read of VERIFY.
pub(crate) const CHUNK_BYTES: u32 = 1 << 20;

/// Limit of one step of UNMAP and WRITE SAME: a multiple of every granule, so that steps cut no granule.
pub(crate) const CLEARING_STEP_BYTES: u64 = 16 << 20;

/// Data of a command that ended with GOOD.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    pub(crate) data_in: Option<Buffer>,
    /// For [`crate::sam::Completion::data_in_required`].
    pub(crate) data_in_required: u64,
}

impl Reply {
    /// Cuts Data-In to the allocation length (SPC-5 4.2).
    pub(crate) fn parameter_data(data: &[u8], allocation_length: u32) -> Self {
        let length = data.len().min(allocation_length as usize);
        Self {
            data_in_required: length as u64,
            data_in: data
                .get(..length)
                .filter(|data| !data.is_empty())
                .map(Buffer::from),
        }
    }
}

/// Why a command did not end with GOOD.
#[derive(Debug)]
pub(crate) enum Failure {
    /// CHECK CONDITION.
    Check(Sense),
    /// RESERVATION CONFLICT.
    ReservationConflict,
    /// No status: the task was aborted.
    Aborted,
}

impl From<Sense> for Failure {
    fn from(sense: Sense) -> Self {
        Self::Check(sense)
    }
}

impl From<Aborted> for Failure {
    fn from(Aborted: Aborted) -> Self {
        Self::Aborted
    }
}

impl From<DeliveryError> for Failure {
    fn from(error: DeliveryError) -> Self {
        match error {
            DeliveryError::NexusLost => Self::Aborted,
            DeliveryError::TransferFailed => Self::Check(Sense::new(
                SenseKey::AbortedCommand,
                AdditionalSense::DATA_PHASE_ERROR,
            )),
        }
    }
}

/// A running command.
pub(crate) struct Execution<'a> {
    pub(crate) device: &'a Device,
    pub(crate) unit: &'a LogicalUnit,
    pub(crate) number: u16,
    pub(crate) nexus: &'a Nexus,
    pub(crate) cdb: Cdb<'a>,
    pub(crate) task: &'a Task,
    pub(crate) data_out: &'a mut dyn DataOut,
    /// [`crate::sam::Command::data_in_buffer_size`]
    pub(crate) data_in_buffer_size: u32,
    /// For [`crate::sam::Completion::data_out_required`].
    pub(crate) data_out_required: u64,
    /// Bytes moved so far, for the counters.
    pub(crate) bytes: u64,
    /// The host's offloads.
    pub(crate) offloads: Offloads,
    /// Bytes of offloads so far, for the counters.
    pub(crate) offloaded: OffloadStatistics,
}

/// A checked range of blocks, in bytes of the volume.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByteRange {
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

impl ByteRange {
    /// Splits the range into pieces of at most `most` bytes: offset and length.
    fn pieces(self, most: u32) -> impl Iterator<Item = (u64, u32)> {
        (0..self.length).step_by(most as usize).map(move |at| {
            let length = (self.length - at).min(u64::from(most));
            (self.offset + at, length as u32)
        })
    }

    /// Splits the range at multiples of `most`: offset and length.
    pub(crate) fn aligned_pieces(self, most: u64) -> impl Iterator<Item = (u64, u64)> {
        let end = self.offset + self.length;
        let mut at = self.offset;
        std::iter::from_fn(move || {
            let piece = (at, end.min((at / most + 1) * most) - at);
            at += piece.1;
            (piece.1 > 0).then_some(piece)
        })
    }

    /// Splits the range into pieces of at most [`CHUNK_BYTES`].
    pub(crate) fn chunks(self) -> impl Iterator<Item = (u64, u32)> {
        self.pieces(CHUNK_BYTES)
    }

    /// Splits the range for a command that holds received and read data at a time: pieces are so short that neither waits for
    /// memory.
    pub(crate) fn short_chunks(self) -> impl Iterator<Item = (u64, u32)> {
        const SHORT_CHUNK_BYTES: u32 = 64 << 10;
        self.pieces(SHORT_CHUNK_BYTES)
    }
}

impl Execution<'_> {
    /// The blocks of the CDB in bytes, if all exist.
    ///
    /// # Errors
    /// LOGICAL BLOCK ADDRESS OUT OF RANGE.
    pub(crate) fn byte_range(&self) -> Result<ByteRange, Sense> {
        let BlockRange {
            address, blocks, ..
        } = self.cdb.block_range();
        self.blocks(address, u64::from(blocks))
    }

    /// `blocks` blocks from `address` on in bytes, if all exist.
    ///
    /// # Errors
    /// LOGICAL BLOCK ADDRESS OUT OF RANGE.
    pub(crate) fn blocks(&self, address: u64, blocks: u64) -> Result<ByteRange, Sense> {
        byte_range(self.unit.capacity(), address, blocks)
    }

    /// Unit in which blocks are unmapped, bytes; `None` if the host cannot unmap.
    pub(crate) fn unmap_granularity(&self) -> Option<u32> {
        self.unit
            .unmap_granularity()
            .filter(|_| self.offloads.contains(Offload::Unmap))
    }

    /// [`Execution::byte_range`] for a command that transfers the blocks.
    ///
    /// # Errors
    /// LOGICAL BLOCK ADDRESS OUT OF RANGE; INVALID FIELD IN CDB if longer than [`ACCEPTED_TRANSFER_BYTES`].
    pub(crate) fn transfer_range(&self) -> Result<ByteRange, Sense> {
        let range = self.byte_range()?;
        if range.length > u64::from(ACCEPTED_TRANSFER_BYTES) {
            return Err(Sense::invalid_field_in_cdb(
                self.cdb.block_range().blocks_at,
                None,
            ));
        }
        Ok(range)
    }

    /// Refuses writes to a write-protected unit.
    ///
    /// # Errors
    /// DATA PROTECT.
    pub(crate) fn require_writable(&self) -> Result<(), Sense> {
        self.unit
            .write_protection()
            .map_or(Ok(()), |why| Err(Sense::new(SenseKey::DataProtect, why)))
    }

    /// The next `length` bytes of Data-Out; fewer whole blocks if the initiator announced fewer bytes.
    ///
    /// For an initiator that announces less than the CDB requires, the transport standards allow three reactions (FCP-4 9.4.2;
    /// RFC 7143 11.4.5.1 has only the residual count). Here whole blocks are processed. A partial block is refused with INVALID
    /// FIELD IN COMMAND INFORMATION UNIT: as ILLEGAL REQUEST before any transfer, else as ABORTED COMMAND.
    ///
    /// # Errors
    /// [`Failure`] as described, or if the transfer failed or the task was aborted.
    pub(crate) async fn receive_blocks(&mut self, length: u32) -> Result<Buffer, Failure> {
        let data = self.receive(length).await?;
        self.whole_blocks(data)
    }

    /// Returns `data`, unless its last block is partial.
    ///
    /// # Errors
    /// As in [`Execution::receive_blocks`].
    pub(crate) fn whole_blocks(&self, data: Buffer) -> Result<Buffer, Failure> {
        if data.len() % LOGICAL_BLOCK_BYTES as usize != 0 {
            let key = if self.bytes == 0 {
                SenseKey::IllegalRequest
            } else {
                SenseKey::AbortedCommand
            };
            return Err(Sense::new(
                key,
                AdditionalSense::INVALID_FIELD_IN_COMMAND_INFORMATION_UNIT,
            )
            .into());
        }
        Ok(data)
    }

    /// A whole Data-Out of `length` bytes, for commands that need all of it.
    ///
    /// # Errors
    /// INVALID FIELD IN COMMAND INFORMATION UNIT if the initiator announced a different length; [`Failure`] if the transfer
    /// failed or the task was aborted.
    pub(crate) async fn receive_exactly(&mut self, length: u32) -> Result<Buffer, Failure> {
        self.data_out_required = u64::from(length);
        // One more byte shows whether Data-Out is longer.
        let data = self.receive(length + 1).await?;
        if data.len() == length as usize {
            return Ok(data);
        }
        Err(
            Sense::illegal_request(AdditionalSense::INVALID_FIELD_IN_COMMAND_INFORMATION_UNIT)
                .into(),
        )
    }

    /// The next `length` bytes of Data-Out; fewer if the initiator announced fewer.
    ///
    /// # Errors
    /// [`Failure`] if the transfer failed or the task was aborted.
    pub(crate) async fn receive(&mut self, length: u32) -> Result<Buffer, Failure> {
        let mut data = self
            .task
            .unless_aborted(self.data_out.receive(length))
            .await??;
        data.truncate(length as usize);
        Ok(data)
    }

    /// Memory for `length` bytes to read from the volume. May wait for other commands of the nexus.
    ///
    /// # Errors
    /// [`Aborted`] during the wait.
    pub(crate) async fn allocate(&mut self, length: u32) -> Result<Buffer, Aborted> {
        self.task
            .unless_aborted(self.data_out.allocate(length))
            .await
    }

    /// Locks a byte range for a write. Call it after all Data-Out for the range has arrived.
    ///
    /// # Errors
    /// [`Aborted`] during the wait.
    pub(crate) async fn hold_for_write(
        &self,
        offset: u64,
        length: u64,
    ) -> Result<RangeGuard, Aborted> {
        let held = self.unit.ranges.write(offset..offset + length);
        self.task.unless_aborted(held).await
    }

    /// Locks a byte range that is read and then written atomically. Call it after all Data-Out for the range has arrived.
    ///
    /// # Errors
    /// [`Aborted`] during the wait.
    pub(crate) async fn hold_exclusive(
        &self,
        offset: u64,
        length: u64,
    ) -> Result<RangeGuard, Aborted> {
        let held = self.unit.ranges.exclusive(offset..offset + length);
        self.task.unless_aborted(held).await
    }

    /// The output of an operation of the volume, which runs to its end. Soon after the task was aborted, waits for space in it
    /// end, and parts that have not begun are not begun.
    pub(crate) async fn until_aborted<F: Future>(&self, operation: F) -> F::Output {
        volume::unless_given_up(|| self.task.is_aborted(), operation).await
    }

    /// Called between two steps of a long command: lets other tasks of the reactor run.
    ///
    /// # Errors
    /// [`Aborted`]: stop here.
    pub(crate) async fn next_step(&self) -> Result<(), Aborted> {
        let mut yielded = false;
        poll_fn(|context| {
            if yielded {
                return Poll::Ready(());
            }
            yielded = true;
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        self.check_aborted()
    }

    /// Checks whether the task was aborted.
    ///
    /// # Errors
    /// [`Aborted`].
    pub(crate) fn check_aborted(&self) -> Result<(), Aborted> {
        if self.task.is_aborted() {
            Err(Aborted)
        } else {
            Ok(())
        }
    }

    /// Sense data for a failed operation of the volume; `otherwise` is the code for other errors of the backing store. The exact
    /// failed range is unknown, so INFORMATION is not valid.
    pub(crate) fn volume_failure(&self, error: &VolumeError, otherwise: AdditionalSense) -> Sense {
        if matches!(error, VolumeError::Gone(_) | VolumeError::Device(_)) {
            self.log_failure(error);
        }
        volume_sense(self.unit, error, otherwise)
    }

    pub(crate) fn log_failure(&self, error: &VolumeError) {
        tracing::warn!(
            logical_unit = self.number,
            initiator = %self.nexus.initiator_port,
            operation_code = self.cdb.operation_code(),
            %error,
            "the volume failed a command"
        );
    }
}

/// Like [`Execution::volume_failure`], for any logical unit.
pub(crate) fn volume_sense(
    unit: &LogicalUnit,
    error: &VolumeError,
    otherwise: AdditionalSense,
) -> Sense {
    match error {
        VolumeError::OutOfSpace => Sense::new(
            SenseKey::DataProtect,
            AdditionalSense::SPACE_ALLOCATION_FAILED_WRITE_PROTECT,
        ),
        VolumeError::ReadOnly => {
            Sense::new(SenseKey::DataProtect, AdditionalSense::WRITE_PROTECTED)
        }
        // The volume shrank after the range was checked.
        VolumeError::OutOfRange { .. } => Sense::address_out_of_range(unit.capacity().blocks()),
        // Not MEDIUM ERROR, which hosts take for bad blocks.
        VolumeError::Gone(_) => crate::router::NOT_READY,
        _ => Sense::new(SenseKey::MediumError, otherwise),
    }
}

/// `blocks` blocks from `address` in bytes, if all exist. Zero blocks at the end of the volume are valid.
fn byte_range(capacity: Capacity, address: u64, blocks: u64) -> Result<ByteRange, Sense> {
    let block_bytes = u64::from(LOGICAL_BLOCK_BYTES);
    match address.checked_add(blocks) {
        Some(end) if end <= capacity.blocks() => Ok(ByteRange {
            offset: address * block_bytes,
            length: blocks * block_bytes,
        }),
        _ => Err(Sense::address_out_of_range(address.max(capacity.blocks()))),
    }
}
