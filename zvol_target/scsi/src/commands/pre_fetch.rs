// SPDX-License-Identifier: Apache-2.0
//! PRE-FETCH(10) and (16) (SBC-4).

use crate::execution::{Execution, Reply};
use crate::sense::Sense;

/// Checks the range, and leaves reading ahead to the caches below, which see the READs themselves.
///
/// GOOD, never CONDITION MET: that would say that all the blocks have a place in the cache, which no volume guarantees.
///
/// # Errors
/// LOGICAL BLOCK ADDRESS OUT OF RANGE.
pub(crate) fn pre_fetch(execution: &Execution) -> Result<Reply, Sense> {
    // Zero blocks mean all to the end, which begins inside the volume or at its end.
    execution.byte_range()?;
    Ok(Reply::default())
}
