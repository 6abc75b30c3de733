// SPDX-License-Identifier: Apache-2.0
//! COMPARE AND WRITE (SBC-4): what VMFS locks with (ATS).

use volume::Buffer;
use volume::engine::urgently;

use crate::additional_sense::AdditionalSense;
use crate::commands::read_write::FUA;
use crate::execution::{Execution, Failure, Reply};
use crate::sense::{Sense, SenseKey};

/// Compares the blocks with the first half of Data-Out, and if they are equal writes the second half: as one, whatever else writes
/// there. It goes ahead of bulk work in the volume.
///
/// Aborted, it has done nothing: when the abort comes while the second half is written, what was there is written back before
/// anybody else may write. Its host would otherwise try again, and find its own success as a miscompare.
///
/// # Errors
/// MISCOMPARE DURING VERIFY OPERATION, INFORMATION being the first byte of Data-Out that differs; those of READ and WRITE. A Data-Out
/// that is not both halves: INVALID FIELD IN COMMAND INFORMATION UNIT.
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
    // Nothing waits for memory here: it is as much as this command was given for its Data-Out.
    let stability = execution.stability(execution.cdb.bit(1, FUA));
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
    let written = urgently(volume.write(range.offset, Buffer::from(new), stability));
    let written = execution.until_aborted(written).await;
    if execution.unit.tasks.commit(execution.task).is_err() {
        let undone = urgently(volume.write(range.offset, Buffer::from(expected), stability));
        if let Err(error) = undone.await {
            tracing::error!(
                logical_unit = execution.number,
                initiator = %execution.nexus.initiator_port,
                %error,
                "a COMPARE AND WRITE was aborted, and what it wrote could not be undone"
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
