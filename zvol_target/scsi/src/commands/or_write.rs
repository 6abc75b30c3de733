// SPDX-License-Identifier: Apache-2.0
//! ORWRITE(16) (SBC-4): the bitwise or of the stored and the received data.

use volume::Stability;

use crate::execution::{Execution, Failure, Reply};

/// Each block is read and written atomically. The command is not atomic: other writes can run between its steps.
///
/// # Errors
/// The errors of READ and WRITE.
pub(crate) async fn or_write(execution: &mut Execution<'_>) -> Result<Reply, Failure> {
    let range = execution.transfer_range()?;
    execution.require_writable()?;
    execution.data_out_required = range.length;
    for (offset, length) in range.short_chunks() {
        let mut data = execution.receive_blocks(length).await?;
        let received = data.len();
        if received > 0 {
            let _alone = execution.hold_exclusive(offset, received as u64).await?;
            execution.check_aborted()?;
            // At most a short chunk.
            let stored = execution.read_chunk(offset, received as u32).await?;
            for (byte, stored) in data.iter_mut().zip(&stored[..]) {
                *byte |= stored;
            }
            execution
                .write_chunk(offset, data, Stability::Stable)
                .await?;
        }
        if received < length as usize {
            break;
        }
    }
    Ok(Reply::default())
}
