// SPDX-License-Identifier: Apache-2.0
//! COMPARE AND WRITE (SBC-4): what VMFS locks with (ATS).

use volume::engine::urgently;
use volume::{Buffer, CompareError, Comparison};

use crate::additional_sense::AdditionalSense;
use crate::commands::read_write::FUA;
use crate::execution::{Execution, Failure, Reply};
use crate::sense::{Sense, SenseKey};

/// Compares the blocks with the first half of Data-Out, and if they are equal writes the second half: as one, whatever else writes
/// there. It goes ahead of bulk work in the volume.
///
/// Aborted, it has done nothing: when the abort comes while the volume compares and writes, what was there is written back before
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
    let _alone = execution.hold_exclusive(range.offset, range.length).await?;
    execution.check_aborted()?;
    // Nothing waits for memory here: it is as much as this command was given for its Data-Out.
    let stability = execution.stability(execution.cdb.bit(1, FUA));
    let volume = &execution.unit.volume;
    let both = Buffer::from(&data[..]);
    let compared = urgently(volume.compare_and_write(range.offset, both, stability));
    let compared = execution.until_aborted(compared).await;
    match compared {
        Ok(Comparison::Differs(at)) => {
            execution.offloaded.miscompares += 1;
            return Err(miscompare(at as u64).into());
        }
        Err(CompareError::Read(error)) => {
            let code = AdditionalSense::UNRECOVERED_READ_ERROR;
            return Err(execution.volume_failure(&error, code).into());
        }
        Ok(Comparison::Written) | Err(CompareError::Write(_)) => {}
    }
    if execution.unit.tasks.commit(execution.task).is_err() {
        let expected = data.get(..half as usize).unwrap_or_default();
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
    if let Err(CompareError::Write(error)) = compared {
        let code = AdditionalSense::WRITE_ERROR;
        return Err(execution.volume_failure(&error, code).into());
    }
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
