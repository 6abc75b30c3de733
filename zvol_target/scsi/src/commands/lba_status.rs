// SPDX-License-Identifier: Apache-2.0
//! GET LBA STATUS(16) (SBC-4).

use volume::{Allocation, Extent, LOGICAL_BLOCK_BYTES};

use crate::additional_sense::AdditionalSense;
use crate::execution::{Execution, Failure, Reply};
use crate::sense::Sense;

/// Most LBA status descriptors in one answer; the host can continue after the last one.
const MOST_DESCRIPTORS: usize = 512;

/// Limits for one answer: queries of the volume, and extents per query.
const MOST_QUESTIONS: usize = 16;
const EXTENTS_OF_A_QUESTION: usize = 64;

const HEADER_BYTES: usize = 8;
const DESCRIPTOR_BYTES: usize = 16;

/// PROVISIONING STATUS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum ProvisioningStatus {
    /// Mapped, or unknown.
    Mapped = 0,
    Deallocated = 1,
}

/// Consecutive blocks of one status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    blocks: u64,
    status: ProvisioningStatus,
}

/// Status of the blocks from STARTING LOGICAL BLOCK ADDRESS on, with a limited number of queries to the volume. A block is
/// deallocated if all of it is certainly a hole. All blocks of a thick unit are mapped.
///
/// # Errors
/// LOGICAL BLOCK ADDRESS OUT OF RANGE, UNRECOVERED READ ERROR.
pub(crate) async fn get_lba_status(execution: &mut Execution<'_>) -> Result<Reply, Failure> {
    let cdb = execution.cdb;
    let (address, allocation_length) = (cdb.u64(2), cdb.u32(10));
    let end = execution.unit.capacity().blocks();
    if address >= end {
        return Err(Sense::address_out_of_range(address).into());
    }
    let room = (allocation_length as usize).saturating_sub(HEADER_BYTES);
    let most = (room / DESCRIPTOR_BYTES).clamp(1, MOST_DESCRIPTORS);
    let runs = if execution.unmap_granularity().is_some() {
        runs(execution, address, end, most).await?
    } else {
        vec![Run {
            blocks: end - address,
            status: ProvisioningStatus::Mapped,
        }]
    };
    Ok(Reply::parameter_data(
        &parameter_data(address, &runs),
        allocation_length,
    ))
}

/// Neighbours differ, unless a run is too long for one descriptor.
fn parameter_data(address: u64, runs: &[Run]) -> Vec<u8> {
    let mut data = vec![0; HEADER_BYTES];
    let mut at = address;
    for &Run { blocks, status } in runs {
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        data.extend_from_slice(&at.to_be_bytes());
        data.extend_from_slice(&blocks.to_be_bytes());
        data.extend_from_slice(&[status as u8, 0, 0, 0]);
        at += u64::from(blocks);
        if blocks == u32::MAX {
            break;
        }
    }
    // PARAMETER DATA LENGTH; at most a few KiB.
    let length = (data.len() - 4) as u32;
    data[..4].copy_from_slice(&length.to_be_bytes());
    data
}

/// At most `most` runs of the blocks from `address` on, at least one.
async fn runs(
    execution: &Execution<'_>,
    address: u64,
    end: u64,
    most: usize,
) -> Result<Vec<Run>, Failure> {
    let block_bytes = u64::from(LOGICAL_BLOCK_BYTES);
    let mut runs: Vec<Run> = Vec::new();
    let mut at = address;
    for _ in 0..MOST_QUESTIONS {
        if at >= end {
            break;
        }
        let (offset, length) = (at * block_bytes, (end - at) * block_bytes);
        let volume = &execution.unit.volume;
        let extents = volume
            .allocation(offset, length, EXTENTS_OF_A_QUESTION)
            .await;
        let extents = extents.map_err(|error| {
            execution.volume_failure(&error, AdditionalSense::UNRECOVERED_READ_ERROR)
        })?;
        execution.check_aborted()?;
        let before = at;
        for run in in_blocks(&extents, at, end) {
            at += run.blocks;
            let count = runs.len();
            match runs.last_mut() {
                Some(last) if last.status == run.status => last.blocks += run.blocks,
                _ if count == most => return Ok(runs),
                _ => runs.push(run),
            }
        }
        if at == before {
            break;
        }
    }
    if runs.is_empty() {
        runs.push(Run {
            blocks: 1,
            status: ProvisioningStatus::Mapped,
        });
    }
    Ok(runs)
}

/// Converts consecutive extents from the block `at` on to runs of blocks below `end`.
fn in_blocks(extents: &[Extent], at: u64, end: u64) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut at = at;
    for extent in extents {
        let behind = extent.offset.saturating_add(extent.length);
        let to = (behind / u64::from(LOGICAL_BLOCK_BYTES)).min(end);
        if to > at {
            runs.push(Run {
                blocks: to - at,
                status: match extent.allocation {
                    Allocation::Hole => ProvisioningStatus::Deallocated,
                    _ => ProvisioningStatus::Mapped,
                },
            });
            at = to;
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_become_runs_up_to_the_end() {
        let extent = |offset, length, allocation| Extent {
            offset,
            length,
            allocation,
        };
        let extents = [
            extent(1024, 1024, Allocation::Hole),
            extent(2048, 512, Allocation::Allocated),
            extent(2560, 4096, Allocation::Unknown),
        ];
        let run = |blocks, status| Run { blocks, status };
        assert_eq!(
            in_blocks(&extents, 2, 6),
            [
                run(2, ProvisioningStatus::Deallocated),
                run(1, ProvisioningStatus::Mapped),
                run(1, ProvisioningStatus::Mapped),
            ]
        );
    }

    #[test]
    fn a_run_longer_than_a_descriptor_ends_the_answer() {
        let runs = [
            Run {
                blocks: 1 << 33,
                status: ProvisioningStatus::Deallocated,
            },
            Run {
                blocks: 1,
                status: ProvisioningStatus::Mapped,
            },
        ];
        let data = parameter_data(5, &runs);
        assert_eq!(data.len(), 24);
        assert_eq!(data[3], 20);
        assert_eq!(
            data[8..],
            [0, 0, 0, 0, 0, 0, 0, 5, 255, 255, 255, 255, 1, 0, 0, 0]
        );
    }
}
