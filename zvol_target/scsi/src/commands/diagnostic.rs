// SPDX-License-Identifier: Apache-2.0
//! SEND DIAGNOSTIC (SPC-5).

use volume::Buffer;

use crate::additional_sense::AdditionalSense;
use crate::execution::{Execution, Failure, Reply};
use crate::sense::{Sense, SenseKey};

/// With SELFTEST the default self-test: the first and the last block are read, and the volume is flushed if it takes writes. Other
/// hosts notice nothing of it, whether DEVOFFL and UNITOFFL would allow that or not. Without SELFTEST there is nothing to do: the
/// command table refuses self-test codes and diagnostic pages.
///
/// # Errors
/// LOGICAL UNIT NOT READY when the volume is gone. HARDWARE ERROR, INTERNAL TARGET FAILURE when the test failed otherwise. Not LOGICAL UNIT FAILED SELF-TEST, which `ESXi` takes for the loss of
/// the device.
pub(crate) async fn send_diagnostic(execution: &mut Execution<'_>) -> Result<Reply, Failure> {
    const SELFTEST: u8 = 0x04;
    if !execution.cdb.bit(1, SELFTEST) {
        return Ok(Reply::default());
    }
    let capacity = execution.unit.capacity();
    let block_bytes = capacity.block_bytes();
    let last = capacity.blocks().saturating_sub(1) * u64::from(block_bytes);
    let volume = &execution.unit.volume;
    for offset in [0, last] {
        let read = volume.read(offset, Buffer::new(block_bytes as usize)).await;
        read.map_err(|error| failed(execution, &error))?;
    }
    if execution.unit.write_protection().is_none() {
        let flushed = volume.flush().await;
        flushed.map_err(|error| failed(execution, &error))?;
    }
    Ok(Reply::default())
}

fn failed(execution: &Execution, error: &volume::VolumeError) -> Sense {
    // Logs what happened.
    let sense = execution.volume_failure(error, AdditionalSense::INTERNAL_TARGET_FAILURE);
    if matches!(error, volume::VolumeError::Gone(_)) {
        return sense;
    }
    Sense::new(
        SenseKey::HardwareError,
        AdditionalSense::INTERNAL_TARGET_FAILURE,
    )
}
