// SPDX-License-Identifier: Apache-2.0
//! COMPARE AND WRITE (SBC-4): ATS, the locks of VMFS.

use volume::engine::urgently;
use volume::{Buffer, Stability};

use crate::additional_sense::AdditionalSense;
use crate::execution::{Execution, Failure, Reply};
use crate::sense::{Sense, SenseKey};

/// Compares the blocks with the first half of Data-Out. If they are equal, writes the second half. Atomic with respect to all
/// other writes. It has priority over bulk I/O of the volume.
///
/// An aborted command has no effect: if the abort arrives during the write, the old data is written back before any other write
/// of the range. Otherwise the host would retry, and get a miscompare from its own success.
///
/// # Errors
/// MISCOMPARE DURING VERIFY OPERATION, with the first different byte of Data-Out as INFORMATION; the errors of READ and WRITE.
/// INVALID FIELD IN COMMAND INFORMATION UNIT if Data-Out is not exactly both halves.
pub(crate) async fn compare_and_write(execution: &mut Execution<'_>) -> Result<Reply, Failure> {
    let range = execution.byte_range()?;
    execution.require_writable()?;
    if range.length == 0 {
        return Ok(Reply::default());
    }
    // At most 255 blocks.
    let half = range.length as u32;
    let data = execution.receive_exactly(2 * half).await?;
    let (expected, new) = data.split_at(half as usize);
    let _alone = execution.hold_exclusive(range.offset, range.length).await?;
    execution.check_aborted()?;
    // This does not wait for memory: it needs no more than the Data-Out of this command.
    let volume = &execution.unit.volume;
    let stored = urgently(volume.read(range.offset, Buffer::new(half as usize))).await;
    let stored = stored.map_err(|error| {
        execution.volume_failure(&error, AdditionalSense::UNRECOVERED_READ_ERROR)
    })?;
    if *stored != *expected {
        let mut pairs = stored.iter().zip(expected);
        let at = pairs.position(|(is, expected)| is != expected);
        execution.offloaded.miscompares += 1;
        return Err(miscompare(at.unwrap_or_default() as u64).into());
    }
    execution.check_aborted()?;
    let written = urgently(volume.write(range.offset, Buffer::from(new), Stability::Stable));
    let written = execution.until_aborted(written).await;
    if execution.unit.tasks.commit(execution.task).is_err() {
        let undone =
            urgently(volume.write(range.offset, Buffer::from(expected), Stability::Stable));
        if let Err(error) = undone.await {
            tracing::error!(
                logical_unit = execution.number,
                initiator = %execution.nexus.initiator_port,
                %error,
                "a COMPARE AND WRITE was aborted, but its write could not be undone"
            );
        }
        return Err(Failure::Aborted);
    }
    written.map_err(|error| execution.volume_failure(&error, AdditionalSense::WRITE_ERROR))?;
    execution.bytes += range.length;
    Ok(Reply::default())
}

fn miscompare(at: u64) -> Sense {
    Sense {
        information: Some(at),
        ..Sense::new(
            SenseKey::Miscompare,
            AdditionalSense::MISCOMPARE_DURING_VERIFY_OPERATION,
        )
    }
}
