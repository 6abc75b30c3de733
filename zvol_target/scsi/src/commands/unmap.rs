// SPDX-License-Identifier: Apache-2.0
//! UNMAP (SBC-4).

use crate::additional_sense::AdditionalSense;
use crate::execution::{ByteRange, Execution, Failure, Reply};
use crate::sense::Sense;

/// MAXIMUM UNMAP LBA COUNT, over all descriptors of a command.
pub(crate) const MAXIMUM_LBA_COUNT: u32 = 1 << 20;

/// MAXIMUM UNMAP BLOCK DESCRIPTOR COUNT.
pub(crate) const MAXIMUM_BLOCK_DESCRIPTOR_COUNT: u32 = 256;

const HEADER_BYTES: usize = 8;
const DESCRIPTOR_BYTES: usize = 16;

/// Most bytes of the parameter list that are checked. A longer list exceeds the limits.
const MOST_LIST_BYTES: u32 =
    (HEADER_BYTES + DESCRIPTOR_BYTES * (MAXIMUM_BLOCK_DESCRIPTOR_COUNT as usize + 1)) as u32;

/// Unmaps all blocks of all descriptors; if one descriptor is invalid, none. Whole granules are freed; all blocks read as zeroes
/// (LBPRZ = 1). The command table refuses ANCHOR.
///
/// # Errors
/// PARAMETER LIST LENGTH ERROR, INVALID FIELD IN PARAMETER LIST (limits), LOGICAL BLOCK ADDRESS OUT OF RANGE; the errors of
/// WRITE.
pub(crate) async fn unmap(execution: &mut Execution<'_>) -> Result<Reply, Failure> {
    let length = u32::from(execution.cdb.u16(7));
    execution.require_writable()?;
    if length == 0 {
        return Ok(Reply::default());
    }
    execution.data_out_required = u64::from(length);
    let list = execution.receive(length.min(MOST_LIST_BYTES)).await?;
    for range in ranges(execution, &list, length)? {
        execution.clear(range, true).await?;
    }
    execution.make_stable().await?;
    Ok(Reply::default())
}

/// Checks a parameter list of `length` bytes; `list` contains the received part.
fn ranges(execution: &Execution, list: &[u8], length: u32) -> Result<Vec<ByteRange>, Sense> {
    const LENGTH_ERROR: Sense =
        Sense::illegal_request(AdditionalSense::PARAMETER_LIST_LENGTH_ERROR);
    let &[_, _, high, low, _, _, _, _, ref descriptors @ ..] = list else {
        return Err(LENGTH_ERROR);
    };
    // UNMAP DATA LENGTH is redundant. A descriptor that exceeds this length is ignored (SBC-4 5.35).
    let descriptor_bytes = usize::from(u16::from_be_bytes([high, low]));
    if descriptor_bytes > (length as usize).saturating_sub(HEADER_BYTES) {
        return Err(LENGTH_ERROR);
    }
    let count = descriptor_bytes / DESCRIPTOR_BYTES;
    if count > MAXIMUM_BLOCK_DESCRIPTOR_COUNT as usize {
        return Err(Sense::invalid_field_in_parameter_list(2, None));
    }
    let descriptors = descriptors
        .get(..count * DESCRIPTOR_BYTES)
        .ok_or(LENGTH_ERROR)?;
    let mut blocks_left = MAXIMUM_LBA_COUNT;
    descriptors
        .chunks_exact(DESCRIPTOR_BYTES)
        .enumerate()
        .map(|(index, descriptor)| {
            let (address, rest) = descriptor.split_at(8);
            let address = address
                .iter()
                .fold(0, |sum, &byte| (sum << 8) | u64::from(byte));
            let blocks = rest
                .iter()
                .take(4)
                .fold(0, |sum, &byte| (sum << 8) | u32::from(byte));
            blocks_left = blocks_left.checked_sub(blocks).ok_or_else(|| {
                // At most 257 descriptors.
                let at = HEADER_BYTES + index * DESCRIPTOR_BYTES + 8;
                Sense::invalid_field_in_parameter_list(at as u16, None)
            })?;
            execution.blocks(address, u64::from(blocks))
        })
        .collect()
}
