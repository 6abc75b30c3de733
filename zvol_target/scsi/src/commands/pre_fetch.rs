// SPDX-License-Identifier: Apache-2.0
//! PRE-FETCH(10) and (16) (SBC-4).

use crate::execution::{Execution, Reply};
use crate::sense::Sense;

/// Checks the range. The caches below detect READs and read ahead.
///
/// Returns GOOD, never CONDITION MET, which means that all blocks are in the cache: no volume guarantees that.
///
/// # Errors
/// LOGICAL BLOCK ADDRESS OUT OF RANGE.
pub(crate) fn pre_fetch(execution: &Execution) -> Result<Reply, Sense> {
    // Zero blocks mean all blocks up to the last. The address must be in the volume or at its end.
    execution.byte_range()?;
    Ok(Reply::default())
}
