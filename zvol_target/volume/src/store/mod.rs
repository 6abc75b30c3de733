// SPDX-License-Identifier: Apache-2.0
//! The common part of the backends: a descriptor with sizes, and operations on it.

mod clearing;
mod holes;
mod refusal;

pub(crate) use clearing::{Clearing, Way};

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::fs::{OFlags, fcntl_getfl, fdatasync};
use rustix::io::{Errno, retry_on_intr};
use tokio::sync::Mutex;

use self::refusal::Refusals;
use crate::engine::{self, Action, Backing, Operation};
use crate::gate::Gate;
use crate::{Buffer, Geometry, LOGICAL_BLOCK_BYTES, Stability, VolumeError};

/// An open file or zvol.
///
/// # Stable writes
/// - Without the page cache, a stable write is one write with `RWF_DSYNC` (pwritev2(2)). The kernel sends the data with
///   `REQ_FUA`, one request, and other writes of the device do not wait as for a cache flush. A zvol commits its ZIL before it
///   completes such a request (seen in `zil_commit_count` of OpenZFS 2.3.9: none for cached writes, at least one for each stable
///   write).
/// - With the page cache, it is a cached write and then an fdatasync(2). All stable writes that have completed by then share it.
///   With `RWF_DSYNC`, each would wait for a separate writeback and journal commit. The fdatasync also writes back all other dirty
///   pages.
pub(crate) struct Store {
    backing: Arc<Backing>,
    size_bytes: AtomicU64,
    physical_block_bytes: u32,
    read_only: bool,
    in_memory: bool,
    clearing: Clearing,
    /// Decides whether writes may allocate new space.
    pub(crate) gate: Gate,
    /// Counts each cached write twice: at its begin and at its end. Starts at 1, as the previous user can have left unflushed
    /// writes.
    written: AtomicU64,
    /// Value of `written` at the begin of the last successful flush. If `written` is still the same, no flush is needed.
    flushed: AtomicU64,
    /// Whether the kernel's page cache is used.
    page_cache: bool,
    /// An operation found that the device no longer exists, as after an export of a zvol's pool. The export waits until it is
    /// closed.
    gone: AtomicBool,
    /// Cached writes may be lost. The kernel reports a failed writeback once, and then treats the pages as clean. The next
    /// fdatasync would succeed without them. So no flush succeeds until the volume is opened again.
    lost: AtomicBool,
    /// Allows one flush at a time. The kernel reports a failed writeback only to the first flush; a concurrent one would succeed
    /// despite the loss.
    flushing: Mutex<()>,
}

/// A write that failed, with its data if that is available.
#[derive(Debug)]
pub(crate) struct Unwritten {
    pub error: VolumeError,
    pub buffer: Option<Buffer>,
}

impl From<VolumeError> for Unwritten {
    fn from(error: VolumeError) -> Self {
        Self {
            error,
            buffer: None,
        }
    }
}

/// A flush that can find lost writes. If it is dropped without a result, writes count as lost.
struct Doubt<'a>(&'a Store);

impl Doubt<'_> {
    fn resolve<E>(self, result: Result<Buffer, E>) -> Result<Buffer, E> {
        if result.is_ok() {
            std::mem::forget(self);
        }
        result
    }
}

impl Drop for Doubt<'_> {
    fn drop(&mut self) {
        self.0.note_loss();
    }
}

/// What a backend knows before it creates a [`Store`].
pub(crate) struct Facts {
    pub geometry: Geometry,
    pub read_only: bool,
    /// The data never leaves memory (tmpfs, ramfs).
    pub in_memory: bool,
    /// How the backend makes ranges read as zeroes.
    pub clearing: Clearing,
    /// The pool, for a zvol.
    pub pool: Option<String>,
}

impl Store {
    pub(crate) fn new(file: File, facts: Facts) -> Self {
        let page_cache = !fcntl_getfl(&file).is_ok_and(|flags| flags.contains(OFlags::DIRECT));
        // Store the dirty pages of the previous user now. If all writes are stable, no unflushed data exists afterwards, and a
        // failed write loses only itself.
        let left_behind =
            (page_cache && !facts.read_only).then(|| retry_on_intr(|| fdatasync(&file)));
        if let Some(Err(error)) = left_behind {
            tracing::warn!(%error, "cannot store the dirty pages that a volume had when it was opened; flushes of it fail until it is opened again");
        }
        let backing = Backing::new(file, facts.pool);
        Self {
            size_bytes: AtomicU64::new(facts.geometry.size_bytes),
            physical_block_bytes: facts.geometry.physical_block_bytes,
            read_only: facts.read_only,
            in_memory: facts.in_memory,
            clearing: facts.clearing,
            gate: Gate::default(),
            written: AtomicU64::new(1),
            flushed: AtomicU64::new(u64::from(matches!(left_behind, Some(Ok(()))))),
            page_cache,
            gone: AtomicBool::new(false),
            lost: AtomicBool::new(matches!(left_behind, Some(Err(_)))),
            flushing: Mutex::default(),
            backing: Arc::new(backing),
        }
    }

    pub(crate) fn file(&self) -> &File {
        self.backing.file()
    }

    pub(crate) fn read_only(&self) -> bool {
        self.read_only
    }

    pub(crate) fn geometry(&self) -> Geometry {
        Geometry {
            size_bytes: self.size_bytes.load(Ordering::Acquire),
            physical_block_bytes: self.physical_block_bytes,
        }
    }

    /// Sets a new size, rounded down to whole logical blocks.
    pub(crate) fn resize(&self, size_bytes: u64) -> Geometry {
        let whole = size_bytes - size_bytes % u64::from(LOGICAL_BLOCK_BYTES);
        self.size_bytes.store(whole, Ordering::Release);
        self.geometry()
    }

    pub(crate) async fn read(&self, offset: u64, buffer: Buffer) -> Result<Buffer, VolumeError> {
        self.check(offset, buffer.len() as u64)?;
        if buffer.is_empty() {
            return Ok(buffer);
        }
        self.run(Action::Read, offset, buffer).await
    }

    pub(crate) async fn write(
        &self,
        offset: u64,
        buffer: Buffer,
        stability: Stability,
    ) -> Result<(), VolumeError> {
        let written = self.try_write(offset, buffer, stability).await;
        written.map_err(|unwritten| unwritten.error)
    }

    /// Like [`Store::write`], but returns the data after a failure.
    pub(crate) async fn try_write(
        &self,
        offset: u64,
        buffer: Buffer,
        stability: Stability,
    ) -> Result<(), Unwritten> {
        if self.read_only {
            return Err(VolumeError::ReadOnly.into());
        }
        self.check(offset, buffer.len() as u64)?;
        if buffer.is_empty() {
            return Ok(());
        }
        match stability {
            Stability::Stable if !self.page_cache => {
                self.try_run(Action::WriteStable, offset, buffer).await?;
            }
            Stability::Stable | Stability::Cached => {
                // It can be lost from here on, and again at its end: a concurrent flush may have missed it.
                self.written.fetch_add(1, Ordering::AcqRel);
                self.try_run(Action::Write, offset, buffer).await?;
                self.written.fetch_add(1, Ordering::AcqRel);
                if stability == Stability::Stable {
                    self.flush().await?;
                }
            }
        }
        Ok(())
    }

    pub(crate) async fn flush(&self) -> Result<(), VolumeError> {
        let written = self.written.load(Ordering::Acquire);
        if self.read_only || self.is_flushed(written)? {
            return Ok(());
        }
        let _alone = self.flushing.lock().await;
        // A flush that ran in the meantime can have covered these writes.
        if self.is_flushed(written)? {
            return Ok(());
        }
        let written = self.written.load(Ordering::Acquire);
        // Without the page cache, a failed flush loses nothing: the next one covers the same writes.
        let doubt = self.page_cache.then(|| Doubt(self));
        let result = self.run(Action::Synchronize, 0, Buffer::new(0)).await;
        match doubt {
            Some(doubt) => doubt.resolve(result)?,
            None => result?,
        };
        self.flushed.fetch_max(written, Ordering::AcqRel);
        Ok(())
    }

    /// Whether the first `written` cached writes are stable.
    fn is_flushed(&self, written: u64) -> Result<bool, VolumeError> {
        if self.lost.load(Ordering::Acquire) {
            return Err(lost_writes());
        }
        Ok(self.flushed.load(Ordering::Acquire) >= written)
    }

    /// Whether the volume can still be used.
    ///
    /// # Errors
    /// Why it must be closed and opened again.
    pub(crate) fn check_usable(&self) -> Result<(), VolumeError> {
        if self.gone.load(Ordering::Acquire) {
            return Err(VolumeError::Gone(Errno::NXIO.into()));
        }
        if self.lost.load(Ordering::Acquire) {
            return Err(lost_writes());
        }
        Ok(())
    }

    /// Maps an error of the system.
    fn classified(&self, error: io::Error) -> VolumeError {
        let error = classify(error);
        if matches!(error, VolumeError::Gone(_)) {
            self.gone.store(true, Ordering::Release);
        }
        error
    }

    fn note_loss(&self) {
        let unflushed = self.written.load(Ordering::Acquire) > self.flushed.load(Ordering::Acquire);
        if unflushed {
            self.lost.store(true, Ordering::Release);
        }
    }

    /// Changes the file with a call in a thread. It counts as a cached write of the range.
    pub(crate) async fn change<T: Send + 'static>(
        &self,
        offset: u64,
        length: u64,
        work: impl FnOnce(&File) -> io::Result<T> + Send + 'static,
    ) -> Result<T, VolumeError> {
        if self.read_only {
            return Err(VolumeError::ReadOnly);
        }
        self.check(offset, length)?;
        // It can be lost from here on, and again at its end: a concurrent flush may have missed it.
        self.written.fetch_add(1, Ordering::AcqRel);
        let changed = engine::call(&self.backing, move |backing| work(backing.file())).await;
        self.written.fetch_add(1, Ordering::AcqRel);
        changed.map_err(|error| self.classified(error))
    }

    /// Reads properties of the file with a call in a thread.
    pub(crate) async fn inspect<T: Send + 'static>(
        &self,
        offset: u64,
        length: u64,
        work: impl FnOnce(&File) -> io::Result<T> + Send + 'static,
    ) -> Result<T, VolumeError> {
        self.check(offset, length)?;
        let seen = engine::call(&self.backing, move |backing| work(backing.file())).await;
        seen.map_err(|error| self.classified(error))
    }

    async fn run(
        &self,
        action: Action,
        offset: u64,
        buffer: Buffer,
    ) -> Result<Buffer, VolumeError> {
        let run = self.try_run(action, offset, buffer).await;
        run.map_err(|unwritten| unwritten.error)
    }

    async fn try_run(
        &self,
        action: Action,
        offset: u64,
        buffer: Buffer,
    ) -> Result<Buffer, Unwritten> {
        let mut buffer = buffer;
        let mut refusals = Refusals::default();
        loop {
            let failed = match engine::run(self.operation(action, offset, buffer)).await {
                Ok(buffer) => return Ok(buffer),
                Err(failed) => failed,
            };
            buffer = match failed.buffer {
                Some(buffer) if refusals.may_end(&failed.error).await => buffer,
                buffer => {
                    let error = self.classified(failed.error);
                    return Err(Unwritten { error, buffer });
                }
            };
        }
    }

    fn operation(&self, action: Action, offset: u64, buffer: Buffer) -> Operation {
        Operation::new(
            Arc::clone(&self.backing),
            action,
            offset,
            buffer,
            self.in_memory,
        )
    }

    fn check(&self, offset: u64, length: u64) -> Result<(), VolumeError> {
        let size_bytes = self.size_bytes.load(Ordering::Acquire);
        let block = u64::from(LOGICAL_BLOCK_BYTES);
        let fits = offset % block == 0
            && length % block == 0
            && offset
                .checked_add(length)
                .is_some_and(|end| end <= size_bytes);
        if fits {
            return Ok(());
        }
        Err(VolumeError::OutOfRange {
            offset,
            length,
            size_bytes,
        })
    }
}

/// Maps an error number: ENOSPC and EDQUOT are lack of space, EROFS and EPERM are read-only, ENXIO and ENODEV mean that the device no
/// longer exists.
///
/// A zvol can return EIO for lack of space: the kernel turns EDQUOT into EIO, and with `zvol_use_blk_mq=1` ENOSPC too. For EIO,
/// [`crate::growth`] checks the space left.
pub(crate) fn classify(error: io::Error) -> VolumeError {
    if let Some(Errno::NXIO | Errno::NODEV) = Errno::from_io_error(&error) {
        return VolumeError::Gone(error);
    }
    if let Some(Errno::PERM) = Errno::from_io_error(&error) {
        return VolumeError::ReadOnly;
    }
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => VolumeError::OutOfSpace,
        io::ErrorKind::ReadOnlyFilesystem => VolumeError::ReadOnly,
        _ => VolumeError::Device(error),
    }
}

fn lost_writes() -> VolumeError {
    VolumeError::Device(io::Error::other(
        "cached writes were lost when an earlier flush failed; the volume has to be opened again",
    ))
}

/// [`Volume`](crate::Volume) for a backend with a `store` and a `present_size`.
macro_rules! volume_on_store {
    ($backend:ty $(, $more:item)* $(,)?) => {
        impl $crate::Volume for $backend {
            fn geometry(&self) -> $crate::Geometry {
                self.store.geometry()
            }

            fn refresh(&self) -> Result<$crate::Geometry, $crate::VolumeError> {
                self.store.check_usable()?;
                Ok(self.store.resize(self.present_size()?))
            }

            fn read_only(&self) -> bool {
                self.store.read_only()
            }

            fn read(
                &self,
                offset: u64,
                buffer: $crate::Buffer,
            ) -> $crate::LocalBoxFuture<'_, Result<$crate::Buffer, $crate::VolumeError>> {
                Box::pin(self.store.read(offset, buffer))
            }

            fn write(
                &self,
                offset: u64,
                buffer: $crate::Buffer,
                stability: $crate::Stability,
            ) -> $crate::LocalBoxFuture<'_, Result<(), $crate::VolumeError>> {
                Box::pin($crate::growth::write(self, &self.store, offset, buffer, stability))
            }

            fn flush(&self) -> $crate::LocalBoxFuture<'_, Result<(), $crate::VolumeError>> {
                Box::pin(self.store.flush())
            }

            fn unmap_granularity(&self) -> Option<u32> {
                self.store.granularity()
            }

            fn clear(
                &self,
                offset: u64,
                length: u64,
                stability: $crate::Stability,
            ) -> $crate::LocalBoxFuture<'_, Result<(), $crate::VolumeError>> {
                Box::pin($crate::growth::clear(self, &self.store, offset, length, stability))
            }

            fn set_growth(&self, growth: $crate::Growth) {
                self.store.gate.set(growth);
            }

            fn growth(&self) -> $crate::Growth {
                self.store.gate.growth()
            }

            fn set_thick(&self, thick: bool) -> $crate::RunningClones {
                self.store.gate.sharing.set_thick(thick)
            }

            fn share(&self) -> Option<$crate::SharePermit> {
                self.store.gate.sharing.permit()
            }

            $($more)*
        }
    };
}
pub(crate) use volume_on_store;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_number_has_its_meaning() {
        for errno in [Errno::NOSPC, Errno::DQUOT] {
            assert!(matches!(classify(errno.into()), VolumeError::OutOfSpace));
        }
        for errno in [Errno::ROFS, Errno::PERM] {
            assert!(matches!(classify(errno.into()), VolumeError::ReadOnly));
        }
        // The log must still show the device's error.
        for errno in [Errno::IO, Errno::TIMEDOUT] {
            let VolumeError::Device(error) = classify(errno.into()) else {
                panic!("{errno}");
            };
            assert_eq!(error.raw_os_error(), Some(errno.raw_os_error()));
        }
        for errno in [Errno::NXIO, Errno::NODEV] {
            let VolumeError::Gone(error) = classify(errno.into()) else {
                panic!("{errno}");
            };
            assert_eq!(error.raw_os_error(), Some(errno.raw_os_error()));
        }
    }
}
