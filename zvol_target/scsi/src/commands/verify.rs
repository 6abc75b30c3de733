// SPDX-License-Identifier: Apache-2.0
//! VERIFY and WRITE AND VERIFY of 10, 12 and 16 bytes (SBC-4).

use volume::{Buffer, LOGICAL_BLOCK_BYTES, Stability};

use crate::additional_sense::AdditionalSense;
use crate::cdb::Cdb;
use crate::execution::{ByteRange, Execution, Failure, Reply};
use crate::sense::{Sense, SenseKey};

/// BYTCHK field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ByteCheck {
    /// 00b: the blocks can be read.
    Readable,
    /// 01b: they equal Data-Out.
    Compare,
    /// 11b: each equals the one block in Data-Out.
    CompareEach,
}

impl ByteCheck {
    fn of(cdb: Cdb) -> Result<Self, Sense> {
        match (cdb.byte(1) >> 1) & 0x03 {
            0b00 => Ok(Self::Readable),
            0b01 => Ok(Self::Compare),
            0b11 => Ok(Self::CompareEach),
            _ => Err(INVALID_BYTCHK),
        }
    }
}

const INVALID_BYTCHK: Sense = Sense::invalid_field_in_cdb(1, Some(2));

/// # Errors
/// LOGICAL BLOCK ADDRESS OUT OF RANGE, INVALID FIELD IN CDB, UNRECOVERED READ ERROR, MISCOMPARE DURING VERIFY OPERATION, INVALID FIELD
/// IN COMMAND INFORMATION UNIT.
pub(crate) async fn verify(execution: &mut Execution<'_>) -> Result<Reply, Failure> {
    execution.task.fences_nothing();
    match ByteCheck::of(execution.cdb)? {
        ByteCheck::Readable => {
            // No data is transferred, so only the capacity limits the length. The command can be aborted between its steps.
            let range = execution.byte_range()?;
            for (offset, length) in range.chunks() {
                if execution.bytes > 0 {
                    execution.next_step().await?;
                }
                execution.read_chunk(offset, length).await?;
                execution.bytes += u64::from(length);
            }
        }
        ByteCheck::Compare => {
            let range = execution.transfer_range()?;
            execution.data_out_required = range.length;
            for (offset, length) in range.short_chunks() {
                let data = execution.receive_blocks(length).await?;
                execution.compare(offset, &data).await?;
                execution.bytes += data.len() as u64;
                if data.len() < length as usize {
                    break;
                }
            }
        }
        ByteCheck::CompareEach => compare_each(execution).await?,
    }
    Ok(Reply::default())
}

async fn compare_each(execution: &mut Execution<'_>) -> Result<(), Failure> {
    let range = execution.byte_range()?;
    if range.length == 0 {
        return Ok(());
    }
    execution.data_out_required = u64::from(LOGICAL_BLOCK_BYTES);
    let pattern = execution.receive_blocks(LOGICAL_BLOCK_BYTES).await?;
    if pattern.is_empty() {
        return Ok(());
    }
    for (offset, length) in range.chunks() {
        if execution.bytes > 0 {
            execution.next_step().await?;
        }
        let stored = execution.read_chunk(offset, length).await?;
        if stored
            .chunks(pattern.len())
            .any(|block| *block != pattern[..])
        {
            return Err(MISCOMPARE.into());
        }
        execution.bytes += u64::from(length);
    }
    Ok(())
}

/// Writes to stable storage and reads back. With BYTCHK = 01b, compares the read data with Data-Out.
///
/// # Errors
/// The errors of WRITE and [`verify`].
pub(crate) async fn write_and_verify(execution: &mut Execution<'_>) -> Result<Reply, Failure> {
    let check = ByteCheck::of(execution.cdb)?;
    if check == ByteCheck::CompareEach {
        return Err(INVALID_BYTCHK.into());
    }
    let range: ByteRange = execution.transfer_range()?;
    execution.require_writable()?;
    execution.data_out_required = range.length;
    for (offset, length) in range.short_chunks() {
        let data = execution.receive_blocks(length).await?;
        let received = data.len();
        if received > 0 {
            let _held = execution.hold_for_write(offset, received as u64).await?;
            execution.check_aborted()?;
            let sent = (check == ByteCheck::Compare).then(|| Buffer::from(&data[..]));
            execution
                .write_chunk(offset, data, Stability::Stable)
                .await?;
            match sent {
                Some(sent) => execution.compare(offset, &sent).await?,
                // At most a short chunk.
                None => drop(execution.read_chunk(offset, received as u32).await?),
            }
        }
        if received < length as usize {
            break;
        }
    }
    Ok(Reply::default())
}

const MISCOMPARE: Sense = Sense::new(
    SenseKey::Miscompare,
    AdditionalSense::MISCOMPARE_DURING_VERIFY_OPERATION,
);

impl Execution<'_> {
    /// Reads a part of the volume, at most a chunk.
    pub(crate) async fn read_chunk(&mut self, offset: u64, length: u32) -> Result<Buffer, Failure> {
        let buffer = self.allocate(length).await?;
        self.read_volume(offset, buffer).await
    }

    /// Compares a part of the volume, at most a chunk, with `data`.
    async fn compare(&mut self, offset: u64, data: &[u8]) -> Result<(), Failure> {
        if data.is_empty() {
            return Ok(());
        }
        // At most a short chunk.
        let stored = self.read_chunk(offset, data.len() as u32).await?;
        if stored[..] == *data {
            Ok(())
        } else {
            Err(MISCOMPARE.into())
        }
    }
}
