// SPDX-License-Identifier: Apache-2.0
//! START STOP UNIT (SBC-4).

use crate::commands::synchronize_cache;
use crate::execution::{Execution, Failure, Reply};

/// A volume has no motor and no removable medium: the command table refuses LOEJ and POWER CONDITION.
///
/// START = 1 does nothing. START = 0 flushes the cache, as required for a stop, but the unit is still ready: a host that shuts
/// down must not stop the disk of other hosts, and GOOD only guarantees that the unit can be switched off.
///
/// # Errors
/// WRITE ERROR, SPACE ALLOCATION FAILED WRITE PROTECT.
pub(crate) async fn start_stop_unit(execution: &mut Execution<'_>) -> Result<Reply, Failure> {
    const START: u8 = 0x01;
    const NO_FLUSH: u8 = 0x04;
    if execution.cdb.bit(4, START) || execution.cdb.bit(4, NO_FLUSH) {
        return Ok(Reply::default());
    }
    synchronize_cache::flush(execution).await
}
