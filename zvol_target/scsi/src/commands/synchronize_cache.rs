// SPDX-License-Identifier: Apache-2.0
//! SYNCHRONIZE CACHE(10) and (16) (SBC-4).

use crate::additional_sense::AdditionalSense;
use crate::execution::{Execution, Failure, Reply};

/// Makes the whole volume stable, whatever range is given: a volume knows no smaller flush.
///
/// With IMMED the status might come before; it comes after all the same, so that GOOD always means stable.
///
/// # Errors
/// LOGICAL BLOCK ADDRESS OUT OF RANGE, WRITE ERROR, SPACE ALLOCATION FAILED WRITE PROTECT.
pub(crate) async fn synchronize_cache(execution: &mut Execution<'_>) -> Result<Reply, Failure> {
    // Zero blocks mean all to the end, which begins inside the volume or at its end.
    execution.byte_range()?;
    flush(execution).await
}

/// Makes all completed writes stable.
///
/// # Errors
/// As [`synchronize_cache`].
pub(crate) async fn flush(execution: &mut Execution<'_>) -> Result<Reply, Failure> {
    let flushed = execution.unit.volume.flush().await;
    flushed.map_err(|error| execution.volume_failure(&error, AdditionalSense::WRITE_ERROR))?;
    Ok(Reply::default())
}
