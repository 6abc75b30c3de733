// SPDX-License-Identifier: Apache-2.0
//! Writes zeroes as data, for backends without a better method.

use crate::{Buffer, Stability, Volume, VolumeError};

/// Most bytes written at once.
const STEP_BYTES: usize = 1 << 20;

/// Writes zeroes in steps, one after the other.
///
/// # Errors
/// The errors of [`Volume::write`].
pub(crate) async fn write<V: Volume + ?Sized>(
    volume: &V,
    offset: u64,
    length: u64,
    stability: Stability,
) -> Result<(), VolumeError> {
    let mut done = 0;
    while done < length {
        // At most STEP_BYTES.
        let step = (length - done).min(STEP_BYTES as u64) as usize;
        volume
            .write(offset + done, Buffer::zeroed(step), stability)
            .await?;
        done += step as u64;
    }
    Ok(())
}
