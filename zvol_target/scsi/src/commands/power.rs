// SPDX-License-Identifier: Apache-2.0
//! START STOP UNIT (SBC-4).

use crate::commands::synchronize_cache;
use crate::execution::{Execution, Failure, Reply};

/// A volume has no motor and no medium to unload: LOEJ and POWER CONDITION are refused by the command table.
///
/// START = 1 has nothing to do. START = 0 writes the cache out, as any stop does, and the unit stays ready: one host that shuts
/// down must not take the disk from the others, and GOOD with START = 0 guarantees only that the unit may be switched off.
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
