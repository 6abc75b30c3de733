// SPDX-License-Identifier: Apache-2.0
//! READ and WRITE of 6, 10, 12 and 16 bytes (SBC-4). FUA has no effect, as each write is stable; nor has DPO, a hint for caches.

use std::pin::pin;

use futures_util::future::{Either, select};
use volume::{Buffer, LOGICAL_BLOCK_BYTES, Stability};

use crate::additional_sense::AdditionalSense;
use crate::execution::{Execution, Failure, Reply};
use crate::task_set::Aborted;

/// # Errors
/// LOGICAL BLOCK ADDRESS OUT OF RANGE, INVALID FIELD IN CDB (too long), UNRECOVERED READ ERROR.
pub(crate) async fn read(execution: &mut Execution<'_>) -> Result<Reply, Failure> {
    let range = execution.transfer_range()?;
    if range.length == 0 {
        return Ok(Reply::default());
    }
    // Do not read more than the initiator accepts, except the rest of a block.
    let room = u64::from(execution.data_in_buffer_size);
    let length = range
        .length
        .min(room.next_multiple_of(u64::from(LOGICAL_BLOCK_BYTES)));
    if length == 0 {
        return Ok(Reply {
            data_in: None,
            data_in_required: range.length,
        });
    }
    // At most ACCEPTED_TRANSFER_BYTES.
    let buffer = execution.allocate(length as u32).await?;
    execution.task.fences_nothing();
    let data = execution.read_volume(range.offset, buffer).await?;
    execution.bytes = length;
    Ok(Reply {
        data_in: Some(data),
        data_in_required: range.length,
    })
}

/// # Errors
/// LOGICAL BLOCK ADDRESS OUT OF RANGE, INVALID FIELD IN CDB (too long), WRITE PROTECTED, SPACE ALLOCATION FAILED WRITE PROTECT, WRITE
/// ERROR, INVALID FIELD IN COMMAND INFORMATION UNIT.
pub(crate) async fn write(execution: &mut Execution<'_>) -> Result<Reply, Failure> {
    let range = execution.transfer_range()?;
    execution.require_writable()?;
    execution.data_out_required = range.length;
    let mut chunks = range.chunks();
    let Some((mut offset, mut length)) = chunks.next() else {
        return Ok(Reply::default());
    };
    let mut data = execution.receive_blocks(length).await?;
    loop {
        let is_whole = data.len() == length as usize;
        let Some((next_offset, next_length)) = chunks.next().filter(|_| is_whole) else {
            if !data.is_empty() {
                execution.write_held(offset, data).await?;
            }
            return Ok(Reply::default());
        };
        // Receive the next part while this one is written.
        data = execution
            .write_and_receive((offset, data), next_length)
            .await?;
        (offset, length) = (next_offset, next_length);
    }
}

impl Execution<'_> {
    /// Reads from the volume. If the task is aborted before the read has begun, it does not begin.
    ///
    /// # Errors
    /// UNRECOVERED READ ERROR.
    pub(crate) async fn read_volume(&self, offset: u64, buffer: Buffer) -> Result<Buffer, Failure> {
        let read = self.until_aborted(self.unit.volume.read(offset, buffer));
        Ok(read.await.map_err(|error| {
            self.volume_failure(&error, AdditionalSense::UNRECOVERED_READ_ERROR)
        })?)
    }

    /// Writes data of Data-Out to its range, locks the range meanwhile, and counts it.
    ///
    /// # Errors
    /// The errors of WRITE.
    async fn write_held(&mut self, offset: u64, data: Buffer) -> Result<(), Failure> {
        let _held = self.hold_for_write(offset, data.len() as u64).await?;
        self.check_aborted()?;
        self.write_chunk(offset, data, Stability::Stable).await
    }

    /// Like [`Execution::write_held`] for one part, and receives the next part at the same time if memory for both is available.
    /// Waits for the write even if receiving fails early.
    ///
    /// # Errors
    /// The errors of WRITE; those of the write first.
    async fn write_and_receive(
        &mut self,
        (offset, data): (u64, Buffer),
        length: u32,
    ) -> Result<Buffer, Failure> {
        let Some(receive) = self.data_out.receive_ahead(length) else {
            self.write_held(offset, data).await?;
            return self.receive_blocks(length).await;
        };
        let written = data.len() as u64;
        let (unit, task) = (self.unit, self.task);
        let write = async {
            let held = unit.ranges.write(offset..offset + written);
            let _held = task.unless_aborted(held).await?;
            if task.is_aborted() {
                return Err(Aborted);
            }
            let write = unit.volume.write(offset, data, Stability::Stable);
            Ok(volume::unless_given_up(|| task.is_aborted(), write).await)
        };
        let receive = task.unless_aborted(receive);
        let (result, received) = match select(pin!(write), pin!(receive)).await {
            Either::Left((Ok(Ok(())), receive)) => (Ok(Ok(())), Some(receive.await)),
            // A failed command receives nothing more.
            Either::Left((failed, _)) => (failed, None),
            Either::Right((received, write)) => (write.await, Some(received)),
        };
        result?.map_err(|error| self.volume_failure(&error, AdditionalSense::WRITE_ERROR))?;
        self.bytes += written;
        let received = received.ok_or(Aborted)??;
        let mut data = received?;
        data.truncate(length as usize);
        self.whole_blocks(data)
    }

    /// Writes data of Data-Out to the volume, and counts it.
    pub(crate) async fn write_chunk(
        &mut self,
        offset: u64,
        data: Buffer,
        stability: Stability,
    ) -> Result<(), Failure> {
        let length = data.len() as u64;
        let written = self.unit.volume.write(offset, data, stability);
        let written = self.until_aborted(written).await;
        written.map_err(|error| self.volume_failure(&error, AdditionalSense::WRITE_ERROR))?;
        self.bytes += length;
        Ok(())
    }
}
