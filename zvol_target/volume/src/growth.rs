// SPDX-License-Identifier: Apache-2.0
//! Writes where space is short: what would take more of it is refused when it shall be, what overwrites goes on.
//!
//! On a zvol an overwrite can fail for want of space though there is enough of it. OpenZFS demands up to 24 times
//! (`spa_asize_inflation`) what is written to be free, and counts what is not in the pool yet as if it took that much. Once
//! a transaction group has ended, nothing is counted any more, and the same write succeeds where space is held for it.

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

/// How long a write is tried again: less than hosts wait for a command (30 s with Linux, 40 s with `ESXi`).
const PATIENCE: Duration = Duration::from_secs(20);

/// The same of a thick volume.
const THICK_PATIENCE: Duration = Duration::from_secs(10);

/// Writes up to this length are tried again at once after a transaction group, longer ones one after the other: a heartbeat
/// finds room in addition to them.
const SHORT: usize = 64 << 10;

/// EIO of a zvol with less than this left is want of space, bytes. It comes when nothing is left; somebody may free some before that
/// can be checked.
const NOTHING_LEFT: u64 = 64 << 20;

/// How long what was found of the space left is good for.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Most extents requested at once.
const EXTENTS: usize = 64;

/// Writes, unless it needs space that it shall not get.
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

/// Lets a write through that may have new space, or needs none.
///
/// # Errors
/// [`VolumeError::OutOfSpace`]; those of reading.
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
        // The word may have come before this one listened.
        if store.gate.admit(length) == Verdict::Passed {
            return Ok(());
        }
        if !store.gate.is_closed() && wait(timeout_at(until, changed)).await.is_none() {
            return Err(VolumeError::OutOfSpace);
        }
    }
}

/// Makes a range read as zeroes, unless that needs space which it shall not get: giving space back never does.
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
    // Only edges are written, in blocks that take space.
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

/// The pool of a zvol whose error is want of space.
async fn short_pool(
    store: &Store,
    error: &VolumeError,
    checked: &SpaceCheck,
) -> Option<Arc<TransactionGroups>> {
    let dataset = zfs::dataset_of(store.file()).ok()?;
    let short = is_shortage(error, &dataset, checked).await;
    short.then(|| TransactionGroups::of(zfs::pool_of(&dataset)))
}

/// Before a clone into a range. It needs no space of the pool, but the first overwrite of what it shares does: where no more may be taken,
/// the range has to take as much already.
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
    // All that a thick volume needs is reserved, new space too.
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
        // What needs new space has one more try: other writes may have been in the way only.
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
        // What comes of it is seen by the write.
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

/// Overwrites by pieces of [`SHORT`]. OpenZFS demands 24 times the length of each to be free: concurrent with short writes, which take that room
/// at once in each transaction group, a long one would not find its own.
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

/// Whether a zvol's error is want of space. The kernel makes EIO of EDQUOT, and with `zvol_use_blk_mq=1` of ENOSPC too: of an
/// EIO only the space left tells.
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
    let Some(found) = wait(query).await else {
        return false;
    };
    let short = match found.map_err(io::Error::other) {
        Ok(Ok(found)) => found
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

/// Makes sure that all of a range takes space already, and writing it no more.
///
/// # Errors
/// [`VolumeError::OutOfSpace`] when it may not; those of reading.
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

/// Reads a range: a block that is not all zeroes takes space. Of one that is, nobody knows.
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
