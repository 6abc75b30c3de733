// SPDX-License-Identifier: Apache-2.0
//! READ CAPACITY(10) and (16) (SBC-4).

use volume::LOGICAL_BLOCK_BYTES;

use crate::execution::{Execution, Reply};

pub(crate) fn read_capacity_10(execution: &Execution) -> Reply {
    let capacity = execution.unit.capacity();
    let last = u32::try_from(capacity.blocks().saturating_sub(1)).unwrap_or(u32::MAX);
    let mut data = [0; 8];
    data[..4].copy_from_slice(&last.to_be_bytes());
    data[4..].copy_from_slice(&LOGICAL_BLOCK_BYTES.to_be_bytes());
    Reply::parameter_data(&data, 8)
}

/// Without protection information (`PROT_EN` = 0). LBPME and LBPRZ are set if the unit can unmap. The volume starts at a physical
/// block, so LOWEST ALIGNED LOGICAL BLOCK ADDRESS is zero.
pub(crate) fn read_capacity_16(execution: &Execution) -> Reply {
    const LBPME_AND_LBPRZ: u8 = 0xc0;
    let capacity = execution.unit.capacity();
    let mut data = [0; 32];
    data[..8].copy_from_slice(&capacity.blocks().saturating_sub(1).to_be_bytes());
    data[8..12].copy_from_slice(&LOGICAL_BLOCK_BYTES.to_be_bytes());
    data[13] = capacity.physical_block_exponent();
    if execution.unmap_granularity().is_some() {
        data[14] = LBPME_AND_LBPRZ;
    }
    Reply::parameter_data(&data, execution.cdb.u32(10))
}
