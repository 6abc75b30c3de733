// SPDX-License-Identifier: Apache-2.0
//! The volume of a logical unit that is not ready.

use std::io;

use volume::{Buffer, Geometry, LocalBoxFuture, Stability, Volume, VolumeError};

/// A volume without bytes. Its unit is not ready and receives no medium commands; they would fail.
#[derive(Debug)]
pub(crate) struct AbsentVolume;

fn absent<T: 'static>() -> LocalBoxFuture<'static, Result<T, VolumeError>> {
    let error = io::Error::new(io::ErrorKind::NotConnected, "the volume is not open");
    Box::pin(std::future::ready(Err(VolumeError::Gone(error))))
}

impl Volume for AbsentVolume {
    fn geometry(&self) -> Geometry {
        Geometry {
            size_bytes: 0,
            physical_block_bytes: 512,
        }
    }

    fn read(&self, _: u64, _: Buffer) -> LocalBoxFuture<'_, Result<Buffer, VolumeError>> {
        absent()
    }

    fn write(
        &self,
        _: u64,
        _: Buffer,
        _: Stability,
    ) -> LocalBoxFuture<'_, Result<(), VolumeError>> {
        absent()
    }

    fn flush(&self) -> LocalBoxFuture<'_, Result<(), VolumeError>> {
        absent()
    }
}
