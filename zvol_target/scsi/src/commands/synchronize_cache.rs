// SPDX-License-Identifier: Apache-2.0
//! SYNCHRONIZE CACHE(10) and (16) (SBC-4).

use crate::additional_sense::AdditionalSense;
use crate::execution::{Execution, Failure, Reply};

/// Flushes the whole volume, regardless of the range: a volume has no smaller flush.
///
/// With IMMED the status could come first; it still comes after the flush, so that GOOD always means stable.
///
/// # Errors
/// LOGICAL BLOCK ADDRESS OUT OF RANGE, WRITE ERROR, SPACE ALLOCATION FAILED WRITE PROTECT.
pub(crate) async fn synchronize_cache(execution: &mut Execution<'_>) -> Result<Reply, Failure> {
    // Zero blocks mean all blocks up to the last. The address must be in the volume or at its end.
    execution.byte_range()?;
    flush(execution).await
}

/// Makes all completed writes stable.
///
/// # Errors
/// The errors of [`synchronize_cache`].
pub(crate) async fn flush(execution: &mut Execution<'_>) -> Result<Reply, Failure> {
    let flushed = execution.unit.volume.flush().await;
    flushed.map_err(|error| execution.volume_failure(&error, AdditionalSense::WRITE_ERROR))?;
    Ok(Reply::default())
}
