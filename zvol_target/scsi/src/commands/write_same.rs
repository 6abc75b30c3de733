// SPDX-License-Identifier: Apache-2.0
//! WRITE SAME(10) and (16) (SBC-4).

use volume::{Buffer, LOGICAL_BLOCK_BYTES, Stability};

use crate::additional_sense::AdditionalSense;
use crate::cdb::BlockRange;
use crate::execution::{ByteRange, CLEARING_STEP_BYTES, Execution, Failure, Reply};
use crate::sense::Sense;

/// Operation code of the 10-byte command.
const WRITE_SAME_10: u8 = 0x41;

/// MAXIMUM WRITE SAME LENGTH, blocks. With blocks of 512 bytes it equals one clearing step, so that more would not be faster. A
/// pattern of this length is written within a second.
pub(crate) const MAXIMUM_WRITE_SAME_LENGTH: u32 = 1 << 15;

/// Writes one block to a whole range, in steps. Between the steps, other tasks run, and can abort this one.
///
/// Zeroes (a block of zeroes, or NDOB) are cleared as by UNMAP, with and without that bit; a thick unit keeps the space
/// reserved. NUMBER OF LOGICAL BLOCKS 0 means all blocks up to the last (WSNZ = 0).
///
/// # Errors
/// INVALID FIELD IN CDB: longer than [`MAXIMUM_WRITE_SAME_LENGTH`], or UNMAP on a unit that cannot unmap. LOGICAL BLOCK ADDRESS
/// OUT OF RANGE; the errors of WRITE.
pub(crate) async fn write_same(execution: &mut Execution<'_>) -> Result<Reply, Failure> {
    const UNMAP: u8 = 0x08;
    const NDOB: u8 = 0x01;
    let cdb = execution.cdb;
    let unmap = cdb.bit(1, UNMAP);
    execution.require_writable()?;
    if unmap && execution.unmap_granularity().is_none() {
        return Err(Sense::invalid_field_in_cdb(1, Some(3)).into());
    }
    let range = range(execution)?;
    let without_data = cdb.operation_code() != WRITE_SAME_10 && cdb.bit(1, NDOB);
    let block = if without_data {
        None
    } else {
        let block = execution.receive_exactly(LOGICAL_BLOCK_BYTES).await?;
        block.iter().any(|&byte| byte != 0).then_some(block)
    };
    match block {
        Some(block) => write_pattern(execution, range, &block).await?,
        None => execution.clear(range, unmap).await?,
    }
    execution.make_stable().await?;
    Ok(Reply::default())
}

fn range(execution: &Execution) -> Result<ByteRange, Sense> {
    let BlockRange {
        address,
        blocks,
        blocks_at,
    } = execution.cdb.block_range();
    let capacity = execution.unit.capacity();
    let blocks = match blocks {
        0 if address >= capacity.blocks() => return Err(Sense::address_out_of_range(address)),
        0 => capacity.blocks() - address,
        blocks => u64::from(blocks),
    };
    let range = execution.blocks(address, blocks)?;
    if blocks > u64::from(MAXIMUM_WRITE_SAME_LENGTH) {
        return Err(Sense::invalid_field_in_cdb(blocks_at, None));
    }
    Ok(range)
}

async fn write_pattern(
    execution: &mut Execution<'_>,
    range: ByteRange,
    block: &[u8],
) -> Result<(), Failure> {
    for (offset, length) in range.chunks() {
        if execution.bytes > 0 {
            execution.next_step().await?;
        }
        let mut buffer = execution.allocate(length).await?;
        repeat(block, &mut buffer);
        let _held = execution.hold_for_write(offset, u64::from(length)).await?;
        execution.check_aborted()?;
        execution
            .write_chunk(offset, buffer, Stability::Cached)
            .await?;
    }
    Ok(())
}

/// Fills a buffer with copies of one block.
fn repeat(block: &[u8], buffer: &mut Buffer) {
    for place in buffer.chunks_exact_mut(block.len()) {
        place.copy_from_slice(block);
    }
}

impl Execution<'_> {
    /// Makes a range read as zeroes, in steps. With `unmap`, counts the whole granules as unmapped, else all bytes as zeroed. Not
    /// stable before [`Execution::make_stable`].
    ///
    /// # Errors
    /// The errors of WRITE.
    pub(crate) async fn clear(&mut self, range: ByteRange, unmap: bool) -> Result<(), Failure> {
        for (offset, length) in range.aligned_pieces(CLEARING_STEP_BYTES) {
            if self.bytes > 0 {
                self.next_step().await?;
            }
            let _held = self.hold_for_write(offset, length).await?;
            self.check_aborted()?;
            self.clear_step(offset, length, unmap).await?;
            self.bytes += length;
        }
        Ok(())
    }

    /// Ends a command that wrote cached steps: one flush for all of them.
    ///
    /// # Errors
    /// WRITE ERROR; [`Failure::Aborted`] if the task was aborted.
    pub(crate) async fn make_stable(&mut self) -> Result<(), Failure> {
        if self.bytes == 0 {
            return Ok(());
        }
        self.check_aborted()?;
        let flushed = self.unit.volume.flush().await;
        Ok(flushed.map_err(|error| self.volume_failure(&error, AdditionalSense::WRITE_ERROR))?)
    }

    async fn clear_step(&mut self, offset: u64, length: u64, unmap: bool) -> Result<(), Failure> {
        let volume = &self.unit.volume;
        let cleared = volume.clear(offset, length, Stability::Cached);
        let cleared = self.until_aborted(cleared).await;
        cleared.map_err(|error| self.volume_failure(&error, AdditionalSense::WRITE_ERROR))?;
        if unmap {
            let granule = self.unmap_granularity().map_or(1, u64::from);
            let whole = (offset + length) / granule * granule;
            self.offloaded.unmapped_bytes += whole.saturating_sub(offset.next_multiple_of(granule));
        } else {
            self.offloaded.zeroed_bytes += length;
        }
        Ok(())
    }
}
