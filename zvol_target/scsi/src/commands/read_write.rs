// SPDX-License-Identifier: Apache-2.0
//! READ and WRITE of 6, 10, 12 and 16 bytes (SBC-4).

use volume::{Buffer, Stability};

use crate::additional_sense::AdditionalSense;
use crate::cdb::Cdb;
use crate::execution::{Execution, Failure, Reply};

/// DPO is only advice on caching, and taken without effect: SBC-4 allows any replacement order.
pub(crate) const FUA: u8 = 0x08;

/// The 6-byte commands have no FUA; that bit belongs to their address.
fn force_unit_access(cdb: Cdb) -> bool {
    cdb.operation_code() >> 5 != 0 && cdb.bit(1, FUA)
}

/// # Errors
/// LOGICAL BLOCK ADDRESS OUT OF RANGE, INVALID FIELD IN CDB (too long), UNRECOVERED READ ERROR.
pub(crate) async fn read(execution: &mut Execution<'_>) -> Result<Reply, Failure> {
    let range = execution.transfer_range()?;
    if range.length == 0 {
        return Ok(Reply::default());
    }
    let unit = execution.unit;
    if unit.options.write_cache && force_unit_access(execution.cdb) {
        // Data newer in the cache has to be on the medium before it is read from there (SBC-4, FUA).
        let flushed = unit.volume.flush().await;
        flushed.map_err(|error| execution.volume_failure(&error, AdditionalSense::WRITE_ERROR))?;
    }
    // What the initiator has no room for need not be read, except for the rest of a block.
    let room = u64::from(execution.data_in_buffer_size);
    let length = range
        .length
        .min(room.next_multiple_of(u64::from(range.block_bytes)));
    if length == 0 {
        return Ok(Reply {
            data_in: None,
            data_in_wanted: range.length,
        });
    }
    // At most ACCEPTED_TRANSFER_BYTES.
    let buffer = execution.allocate(length as u32).await?;
    let data = unit
        .volume
        .read(range.offset, buffer)
        .await
        .map_err(|error| {
            execution.volume_failure(&error, AdditionalSense::UNRECOVERED_READ_ERROR)
        })?;
    execution.bytes = length;
    Ok(Reply {
        data_in: Some(data),
        data_in_wanted: range.length,
    })
}

/// # Errors
/// LOGICAL BLOCK ADDRESS OUT OF RANGE, INVALID FIELD IN CDB (too long), WRITE PROTECTED, SPACE ALLOCATION FAILED WRITE PROTECT, WRITE
/// ERROR, INVALID FIELD IN COMMAND INFORMATION UNIT.
pub(crate) async fn write(execution: &mut Execution<'_>) -> Result<Reply, Failure> {
    let range = execution.transfer_range()?;
    execution.require_writable()?;
    let stability = execution.stability(force_unit_access(execution.cdb));
    execution.data_out_wanted = range.length;
    for (offset, length) in range.chunks() {
        let data = execution.receive_blocks(length, range.block_bytes).await?;
        let received = data.len();
        if received > 0 {
            let _held = execution.hold_for_write(offset, received as u64).await?;
            execution.check_aborted()?;
            execution.write_chunk(offset, data, stability).await?;
        }
        if received < length as usize {
            break;
        }
    }
    Ok(Reply::default())
}

impl Execution<'_> {
    /// Writes data of Data-Out to the volume, and counts it.
    pub(crate) async fn write_chunk(
        &mut self,
        offset: u64,
        data: Buffer,
        stability: Stability,
    ) -> Result<(), Failure> {
        let length = data.len() as u64;
        let written = self.unit.volume.write(offset, data, stability).await;
        written.map_err(|error| self.volume_failure(&error, AdditionalSense::WRITE_ERROR))?;
        self.bytes += length;
        Ok(())
    }
}
