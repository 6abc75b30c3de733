// SPDX-License-Identifier: Apache-2.0
//! WRITE ATOMIC(16) (SBC-4).

use volume::{LOGICAL_BLOCK_BYTES, Stability};

use crate::execution::{Execution, Failure, Reply};
use crate::sense::Sense;

/// MAXIMUM ATOMIC TRANSFER LENGTH and ATOMIC ALIGNMENT, blocks; `None` if the volume guarantees no atomic writes.
pub(crate) fn maximum_blocks(execution: &Execution) -> Option<u32> {
    let bytes = execution.unit.volume.atomic_write_bytes()?;
    // Both are powers of two.
    let blocks = bytes / LOGICAL_BLOCK_BYTES;
    (blocks > 0).then_some(blocks)
}

/// Writes all blocks or none, even in a power cut. The write is always stable, as volumes guarantee atomicity only for stable
/// writes.
///
/// # Errors
/// INVALID FIELD IN CDB: longer than [`maximum_blocks`], or not aligned to that length. INVALID FIELD IN COMMAND INFORMATION
/// UNIT: Data-Out of a different length. The errors of WRITE.
pub(crate) async fn write_atomic(execution: &mut Execution<'_>) -> Result<Reply, Failure> {
    const LOGICAL_BLOCK_ADDRESS: u16 = 2;
    const TRANSFER_LENGTH: u16 = 12;
    let range = execution.byte_range()?;
    let blocks = execution.cdb.block_range();
    let most = maximum_blocks(execution).unwrap_or(0);
    if blocks.blocks > most {
        return Err(Sense::invalid_field_in_cdb(TRANSFER_LENGTH, None).into());
    }
    if most > 0 && blocks.address % u64::from(most) != 0 {
        return Err(Sense::invalid_field_in_cdb(LOGICAL_BLOCK_ADDRESS, None).into());
    }
    execution.require_writable()?;
    if range.length == 0 {
        return Ok(Reply::default());
    }
    // A few blocks.
    let data = execution.receive_exactly(range.length as u32).await?;
    let _alone = execution.hold_exclusive(range.offset, range.length).await?;
    execution.check_aborted()?;
    execution
        .write_chunk(range.offset, data, Stability::Stable)
        .await?;
    Ok(Reply::default())
}
