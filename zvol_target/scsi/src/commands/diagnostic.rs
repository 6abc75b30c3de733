// SPDX-License-Identifier: Apache-2.0
//! SEND DIAGNOSTIC (SPC-5).

use volume::{Buffer, LOGICAL_BLOCK_BYTES};

use crate::additional_sense::AdditionalSense;
use crate::execution::{Execution, Failure, Reply};
use crate::sense::{Sense, SenseKey};

/// With SELFTEST, runs the default self-test: reads the first and the last block, and flushes the volume if it is writable. Other
/// hosts are not affected, for all values of DEVOFFL and UNITOFFL. Without SELFTEST, does nothing: the command table refuses
/// self-test codes and diagnostic pages.
///
/// # Errors
/// LOGICAL UNIT NOT READY if the volume no longer exists; HARDWARE ERROR, INTERNAL TARGET FAILURE if the test failed otherwise.
/// Not LOGICAL UNIT FAILED SELF-TEST, which `ESXi` treats as loss of the device.
pub(crate) async fn send_diagnostic(execution: &mut Execution<'_>) -> Result<Reply, Failure> {
    const SELFTEST: u8 = 0x04;
    if !execution.cdb.bit(1, SELFTEST) {
        return Ok(Reply::default());
    }
    let capacity = execution.unit.capacity();
    let last = capacity.blocks().saturating_sub(1) * u64::from(LOGICAL_BLOCK_BYTES);
    let volume = &execution.unit.volume;
    for offset in [0, last] {
        let read = volume
            .read(offset, Buffer::new(LOGICAL_BLOCK_BYTES as usize))
            .await;
        read.map_err(|error| failed(execution, &error))?;
    }
    if execution.unit.write_protection().is_none() {
        let flushed = volume.flush().await;
        flushed.map_err(|error| failed(execution, &error))?;
    }
    Ok(Reply::default())
}

fn failed(execution: &Execution, error: &volume::VolumeError) -> Sense {
    // Logs the error.
    let sense = execution.volume_failure(error, AdditionalSense::INTERNAL_TARGET_FAILURE);
    if matches!(error, volume::VolumeError::Gone(_)) {
        return sense;
    }
    Sense::new(
        SenseKey::HardwareError,
        AdditionalSense::INTERNAL_TARGET_FAILURE,
    )
}
