// SPDX-License-Identifier: Apache-2.0
//! Vital product data pages of SBC-4: Block Limits, Block Device Characteristics, Logical Block Provisioning.

use volume::LOGICAL_BLOCK_BYTES;

use crate::commands::{unmap, write_atomic, write_same};
use crate::execution::{Execution, MAXIMUM_TRANSFER_BYTES};
use crate::offload::Offload;
use crate::provisioning::THRESHOLD_SET_BYTES;

/// MAXIMUM COMPARE AND WRITE LENGTH, blocks.
const MAXIMUM_COMPARE_AND_WRITE_LENGTH: u8 = u8::MAX;

/// OPTIMAL TRANSFER LENGTH, bytes. QEMU sends EXTENDED COPY commands of this length, but at least 2 MiB: with 1 MiB a copy takes
/// 1.6 times as long (docs/measured.md). Linux reads ahead twice this length, and `mkfs.xfs` uses it as stripe width.
const OPTIMAL_TRANSFER_BYTES: u32 = 4 << 20;

/// Block Limits. Limits of disabled commands are zero. WSNZ is zero: a WRITE SAME of zero blocks means all blocks.
pub(crate) fn block_limits(execution: &Execution) -> Vec<u8> {
    const UGAVALID: u32 = 1 << 31;
    let capacity = execution.unit.capacity();
    let maximum = MAXIMUM_TRANSFER_BYTES / LOGICAL_BLOCK_BYTES;
    let granularity = capacity.granularity();
    let mut page = vec![0; 60];
    page[1] = MAXIMUM_COMPARE_AND_WRITE_LENGTH;
    page[2..4].copy_from_slice(&u16::try_from(granularity).unwrap_or(0).to_be_bytes());
    let mut set = |at: usize, value: u32| page[at..at + 4].copy_from_slice(&value.to_be_bytes());
    set(4, maximum);
    set(8, OPTIMAL_TRANSFER_BYTES / LOGICAL_BLOCK_BYTES);
    if let Some(granule) = execution.unmap_granularity() {
        set(16, unmap::MAXIMUM_LBA_COUNT);
        set(20, unmap::MAXIMUM_BLOCK_DESCRIPTOR_COUNT);
        set(24, (granule / LOGICAL_BLOCK_BYTES).max(1));
        // Aligned to the start of the volume.
        set(28, UGAVALID);
    }
    if let Some(blocks) = write_atomic::maximum_blocks(execution) {
        set(40, blocks);
        set(44, blocks);
        set(48, 1);
    }
    if execution.offloads.contains(Offload::WriteSame) {
        let maximum = u64::from(write_same::MAXIMUM_WRITE_SAME_LENGTH);
        page[32..40].copy_from_slice(&maximum.to_be_bytes());
    }
    page
}

/// Block Device Characteristics: no rotation; all other fields are not reported.
pub(crate) fn block_device_characteristics() -> Vec<u8> {
    const NON_ROTATING_MEDIUM: u16 = 1;
    let mut page = vec![0; 60];
    page[..2].copy_from_slice(&NON_ROTATING_MEDIUM.to_be_bytes());
    page
}

/// Logical Block Provisioning. All fields are zero if the unit cannot unmap.
pub(crate) fn logical_block_provisioning(execution: &Execution) -> Vec<u8> {
    const LBPU: u8 = 0x80;
    const LBPWS: u8 = 0x40;
    const LBPWS10: u8 = 0x20;
    /// 001b: unmapped blocks read as zeroes.
    const LBPRZ: u8 = 0x04;
    /// PROVISIONING TYPE.
    const THIN: u8 = 0x02;
    if execution.unmap_granularity().is_none() {
        return vec![0; 4];
    }
    let exponent = (THRESHOLD_SET_BYTES / u64::from(LOGICAL_BLOCK_BYTES)).ilog2() as u8;
    let write_same = if execution.offloads.contains(Offload::WriteSame) {
        LBPWS | LBPWS10
    } else {
        0
    };
    vec![exponent, LBPU | write_same | LBPRZ, THIN, 0]
}
