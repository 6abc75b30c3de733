// SPDX-License-Identifier: Apache-2.0
//! Writes when space is short: refuses those that need new space if growth is refused, and lets overwrites pass.
//!
//! On a zvol an overwrite can fail for lack of space although enough is free. OpenZFS demands that up to 24 times the written
//! length (`spa_asize_inflation`) is free, and counts data that is not in the pool yet at that size. After the end of a
//! transaction group this count is 0, and the same write succeeds if space is reserved for it.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use tokio::time::{Instant, timeout_at};

use crate::gate::{SpaceCheck, Verdict};
use crate::patience::wait;
use crate::store::{Store, Unwritten};
use crate::zfs::TransactionGroups;
use crate::{Allocation, Buffer, Stability, Volume, VolumeError, zfs};

/// How long a write is retried. It is less than a host's command timeout (30 s on Linux, 40 s on `ESXi`).
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a write to a thick volume is retried.
const THICK_PATIENCE: Duration = Duration::from_secs(10);

/// Writes up to this length are retried together after a transaction group, longer ones one by one. Then a heartbeat has space
/// next to them.
const SHORT: usize = 64 << 10;

/// EIO of a zvol with less than this left means lack of space, bytes. The error comes at 0, but space can be freed before the
/// check.
const NOTHING_LEFT: u64 = 64 << 20;

/// How long a check of the space left is valid.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Most extents requested at once.
const EXTENTS: usize = 64;

/// Writes, unless the write needs space that the volume may not allocate.
pub(crate) async fn write<V: Volume>(
    volume: &V,
    store: &Store,
    offset: u64,
    buffer: Buffer,
    stability: Stability,
) -> Result<(), VolumeError> {
    pass(volume, store, offset, buffer.len() as u64).await?;
    match store.try_write(offset, buffer, stability).await {
        Ok(()) => Ok(()),
        Err(unwritten) => match &store.gate.zvol {
            Some(checked) => {
                let until = Instant::now() + patience(store);
                write_again(volume, store, checked, offset, unwritten, stability, until).await
            }
            None => Err(unwritten.error),
        },
    }
}

fn patience(store: &Store) -> Duration {
    if store.gate.is_thick() {
        THICK_PATIENCE
    } else {
        PATIENCE
    }
}

/// Waits until a write may allocate new space, or turns out to need none.
///
/// # Errors
/// [`VolumeError::OutOfSpace`]; the errors of reading.
async fn pass<V: Volume>(
    volume: &V,
    store: &Store,
    offset: u64,
    length: u64,
) -> Result<(), VolumeError> {
    if store.gate.admit(length) == Verdict::Passed {
        return Ok(());
    }
    let until = Instant::now() + PATIENCE;
    loop {
        match store.gate.admit(length) {
            Verdict::Passed => return Ok(()),
            Verdict::Refused => return require_allocated(volume, offset, length).await,
            Verdict::Exhausted => match require_allocated(volume, offset, length).await {
                Err(VolumeError::OutOfSpace) if Instant::now() < until => {}
                answer => return answer,
            },
        }
        let mut changed = pin!(store.gate.changed().notified());
        changed.as_mut().enable();
        // The grant can have come before this started to listen.
        if store.gate.admit(length) == Verdict::Passed {
            return Ok(());
        }
        if !store.gate.is_closed() && wait(timeout_at(until, changed)).await.is_none() {
            return Err(VolumeError::OutOfSpace);
        }
    }
}

/// Makes a range read as zeroes, unless the volume may not allocate the space that this needs. Freeing needs none.
pub(crate) async fn clear<V: Volume>(
    volume: &V,
    store: &Store,
    offset: u64,
    length: u64,
    stability: Stability,
) -> Result<(), VolumeError> {
    if store.granularity().is_none() {
        pass(volume, store, offset, length).await?;
    }
    let cleared = store.clear(offset, length, stability).await;
    let (mut error, checked) = match (cleared, &store.gate.zvol) {
        (Err(error), Some(checked)) => (error, checked),
        (cleared, _) => return cleared,
    };
    // Only edges are written, in allocated blocks.
    let until = Instant::now() + patience(store);
    while Instant::now() < until {
        let Some(pool) = short_pool(store, &error, checked).await else {
            return Err(error);
        };
        if wait(timeout_at(until, pool.next())).await.is_none() {
            break;
        }
        match store.clear(offset, length, stability).await {
            Ok(()) => return Ok(()),
            Err(again) => error = again,
        }
    }
    Err(VolumeError::OutOfSpace)
}

/// The pool of a zvol if the error means lack of space.
async fn short_pool(
    store: &Store,
    error: &VolumeError,
    checked: &SpaceCheck,
) -> Option<Arc<TransactionGroups>> {
    let dataset = zfs::dataset_of(store.file()).ok()?;
    let short = is_shortage(error, &dataset, checked).await;
    short.then(|| TransactionGroups::of(zfs::pool_of(&dataset)))
}

/// Checks the destination before a clone. The clone needs no space of the pool, but the first overwrite of shared blocks does.
/// Where growth is refused, the range must therefore be allocated already.
pub(crate) async fn admit_clone<V: Volume>(
    volume: &V,
    store: &Store,
    offset: u64,
    length: u64,
) -> Result<(), VolumeError> {
    if store.gate.is_closed() {
        return require_allocated(volume, offset, length).await;
    }
    Ok(())
}

async fn write_again<V: Volume>(
    volume: &V,
    store: &Store,
    checked: &SpaceCheck,
    offset: u64,
    mut unwritten: Unwritten,
    stability: Stability,
    until: Instant,
) -> Result<(), VolumeError> {
    // Everything that a thick volume needs is reserved, including new space.
    let thick = store.gate.is_thick();
    let mut overwrites = thick.then_some(true);
    loop {
        let Unwritten { error, buffer } = unwritten;
        let Some(buffer) = buffer else {
            return Err(error);
        };
        let Some(pool) = short_pool(store, &error, checked).await else {
            return Err(error);
        };
        // A write that needs new space is retried once: perhaps only concurrent writes took the space.
        if overwrites == Some(false) || Instant::now() > until {
            if !thick {
                store.gate.find_full();
            }
            return Err(VolumeError::OutOfSpace);
        }
        if overwrites.is_none() {
            let length = buffer.len() as u64;
            overwrites = Some(require_allocated(volume, offset, length).await.is_ok());
        }
        let turn = wait(timeout_at(until, pool.turn(buffer.len() > SHORT))).await;
        let Some(Ok(_turn)) = turn else {
            return Err(VolumeError::OutOfSpace);
        };
        // The write itself shows whether the transaction group helped.
        if wait(timeout_at(until, pool.next())).await.is_none() {
            return Err(VolumeError::OutOfSpace);
        }
        if buffer.len() > SHORT && overwrites == Some(true) {
            return write_in_pieces(volume, store, checked, offset, &buffer, stability, until)
                .await;
        }
        match store.try_write(offset, buffer, stability).await {
            Ok(()) => return Ok(()),
            Err(again) => unwritten = again,
        }
    }
}

/// Overwrites in pieces of [`SHORT`] bytes. OpenZFS demands 24 times the length of each write to be free. Concurrent short writes
/// take that space at the start of each transaction group, so that a long write would never find enough.
async fn write_in_pieces<V: Volume>(
    volume: &V,
    store: &Store,
    checked: &SpaceCheck,
    offset: u64,
    data: &[u8],
    stability: Stability,
    until: Instant,
) -> Result<(), VolumeError> {
    for (number, bytes) in (0_u64..).zip(data.chunks(SHORT)) {
        let at = offset + number * SHORT as u64;
        if let Err(unwritten) = store.try_write(at, Buffer::from(bytes), stability).await {
            let again = write_again(volume, store, checked, at, unwritten, stability, until);
            Box::pin(again).await?;
        }
    }
    Ok(())
}

/// Whether a zvol's error means lack of space. The kernel turns EDQUOT into EIO, and with `zvol_use_blk_mq=1` ENOSPC too: for EIO
/// only the space left shows the cause.
async fn is_shortage(error: &VolumeError, dataset: &str, checked: &SpaceCheck) -> bool {
    match error {
        VolumeError::OutOfSpace => return true,
        VolumeError::Device(error) if Errno::from_io_error(error) == Some(Errno::IO) => {}
        _ => return false,
    }
    let known = checked.lock().ok().and_then(|checked| *checked);
    if let Some((_, short)) = known.filter(|(when, _)| when.elapsed() < CHECK_INTERVAL) {
        return short;
    }
    let name = dataset.to_owned();
    let query = tokio::task::spawn_blocking(move || zfs::datasets(&[name]));
    let Some(answer) = wait(query).await else {
        return false;
    };
    let short = match answer.map_err(io::Error::other) {
        Ok(Ok(answer)) => answer
            .first()
            .is_some_and(|dataset| dataset.unreserved_bytes() < NOTHING_LEFT),
        Ok(Err(error)) => {
            tracing::warn!(dataset, %error, "a zvol failed a write, and how much space is left can't be found out");
            false
        }
        Err(_) => false,
    };
    if let Ok(mut checked) = checked.lock() {
        *checked = Some((Instant::now(), short));
    }
    short
}

/// Checks that the whole range is allocated, so that a write needs no more space.
///
/// # Errors
/// [`VolumeError::OutOfSpace`] if it is not; the errors of reading.
pub(crate) async fn require_allocated<V: Volume>(
    volume: &V,
    offset: u64,
    length: u64,
) -> Result<(), VolumeError> {
    if !volume.has_allocation_map() {
        return require_data(volume, offset, length).await;
    }
    let (mut at, end) = (offset, offset.saturating_add(length));
    while at < end {
        let extents = volume.allocation(at, end - at, EXTENTS).await?;
        let before = at;
        for extent in extents {
            match extent.allocation {
                Allocation::Allocated => {}
                Allocation::Hole => return Err(VolumeError::OutOfSpace),
                Allocation::Unknown => require_data(volume, extent.offset, extent.length).await?,
            }
            at = extent.offset + extent.length;
        }
        if at <= before {
            return Err(VolumeError::OutOfSpace);
        }
    }
    Ok(())
}

/// Reads a range: a block with a byte other than 0 is allocated. A block of zeroes is treated as a hole.
async fn require_data<V: Volume>(volume: &V, offset: u64, length: u64) -> Result<(), VolumeError> {
    const STEP: u64 = 1 << 20;
    let geometry = volume.geometry();
    let block = u64::from(geometry.physical_block_bytes);
    let end = (offset + length)
        .next_multiple_of(block)
        .min(geometry.size_bytes);
    let mut at = offset - offset % block;
    while at < end {
        let step = (end - at).min(STEP.max(block));
        let data = volume.read(at, Buffer::new(step as usize)).await?;
        if data.chunks(block as usize).any(crate::buffer::is_zero) {
            return Err(VolumeError::OutOfSpace);
        }
        at += step;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;
    use crate::{Geometry, LocalBoxFuture};

    const BLOCK: u64 = 4096;

    /// Only its second block is data. Its map, if it has a map, is `Unknown` everywhere.
    struct Unmapped {
        has_map: bool,
    }

    impl Volume for Unmapped {
        fn geometry(&self) -> Geometry {
            Geometry {
                size_bytes: 4 * BLOCK,
                physical_block_bytes: BLOCK as u32,
            }
        }

        fn has_allocation_map(&self) -> bool {
            self.has_map
        }

        fn read(
            &self,
            offset: u64,
            mut buffer: Buffer,
        ) -> LocalBoxFuture<'_, Result<Buffer, VolumeError>> {
            for (at, byte) in (offset..).zip(buffer.iter_mut()) {
                *byte = u8::from(at / BLOCK == 1);
            }
            Box::pin(ready(Ok(buffer)))
        }

        fn write(
            &self,
            _: u64,
            _: Buffer,
            _: Stability,
        ) -> LocalBoxFuture<'_, Result<(), VolumeError>> {
            Box::pin(ready(Err(VolumeError::ReadOnly)))
        }

        fn flush(&self) -> LocalBoxFuture<'_, Result<(), VolumeError>> {
            Box::pin(ready(Ok(())))
        }
    }

    #[tokio::test]
    async fn without_a_map_a_block_that_is_not_all_zeroes_is_allocated() {
        for has_map in [false, true] {
            let volume = Unmapped { has_map };
            for (offset, length) in [(BLOCK, 512), (2 * BLOCK - 512, 512), (BLOCK, BLOCK)] {
                require_allocated(&volume, offset, length).await.unwrap();
            }
            for (offset, length) in [(0, 512), (BLOCK - 512, 1024), (2 * BLOCK - 512, 1024)] {
                let refused = require_allocated(&volume, offset, length).await;
                assert!(matches!(refused, Err(VolumeError::OutOfSpace)));
            }
        }
    }
}
