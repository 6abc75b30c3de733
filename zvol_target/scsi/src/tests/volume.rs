// SPDX-License-Identifier: Apache-2.0
//! A volume in memory whose operations can be suspended and made to fail.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::AsFd as _;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use tokio::sync::Semaphore;
use volume::copy::CloneEnd;
use volume::{
    Allocation, Buffer, Extent, Geometry, LocalBoxFuture, RunningClones, SharePermit, Stability,
    Volume, VolumeError,
};

/// An operation that reached the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Read {
        offset: u64,
        length: usize,
    },
    Write {
        offset: u64,
        length: usize,
        stability: Stability,
    },
    Clear {
        offset: u64,
        length: u64,
        stability: Stability,
    },
    Flush,
}

#[derive(Debug)]
struct State {
    /// The written beginning; the rest reads as zeroes.
    bytes: Vec<u8>,
    geometry: Geometry,
    read_only: bool,
    fault: Option<fn() -> VolumeError>,
    /// Value of [`Volume::unmap_granularity`]; 0: `None`.
    granule: u32,
    /// Allocated granules.
    allocated: BTreeSet<u64>,
    atomic_write_bytes: Option<u32>,
    thick: bool,
    events: Vec<Event>,
}

/// Each operation takes effect at its end: a suspended write has changed nothing.
#[derive(Debug)]
pub(crate) struct RamVolume {
    state: Mutex<State>,
    /// Each operation consumes one permit.
    permits: Semaphore,
    /// One permit for each operation that has begun.
    begun: Semaphore,
    /// Any file; with it the volume seems to be able to clone blocks.
    clone_end: OnceLock<File>,
}

impl RamVolume {
    /// 512-byte blocks, physical blocks of 16 KiB, zeroes.
    pub(crate) fn new(blocks: u64) -> Arc<Self> {
        Self::with_geometry(Geometry {
            size_bytes: blocks * 512,
            physical_block_bytes: 16384,
        })
    }

    pub(crate) fn with_geometry(geometry: Geometry) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                bytes: Vec::new(),
                geometry,
                read_only: false,
                fault: None,
                granule: 0,
                allocated: BTreeSet::new(),
                atomic_write_bytes: None,
                thick: false,
                events: Vec::new(),
            }),
            permits: Semaphore::new(Semaphore::MAX_PERMITS),
            begun: Semaphore::new(0),
            clone_end: OnceLock::new(),
        })
    }

    /// As [`RamVolume::new`], and unmaps physical blocks.
    pub(crate) fn thin(blocks: u64) -> Arc<Self> {
        let volume = Self::new(blocks);
        volume.state().granule = 16384;
        volume
    }

    pub(crate) fn set_atomic_write_bytes(&self, bytes: u32) {
        self.state().atomic_write_bytes = Some(bytes);
    }

    /// Allocated granules, in ascending order.
    pub(crate) fn allocated(&self) -> Vec<u64> {
        self.state().allocated.iter().copied().collect()
    }

    pub(crate) fn seem_to_clone(&self) {
        self.clone_end
            .get_or_init(|| File::open("/dev/null").unwrap());
    }

    pub(crate) fn resize(&self, blocks: u64) {
        self.state().geometry.size_bytes = blocks * 512;
    }

    pub(crate) fn set_read_only(&self) {
        self.state().read_only = true;
    }

    pub(crate) fn fail(&self, fault: fn() -> VolumeError) {
        self.state().fault = Some(fault);
    }

    pub(crate) fn mend(&self) {
        self.state().fault = None;
    }

    /// Number of operations that began and were not waited for.
    pub(crate) fn begun(&self) -> usize {
        self.begun.available_permits()
    }

    /// Undoes [`RamVolume::hold`]; forgets the operations that have begun so far.
    pub(crate) fn unhold(&self) {
        self.begun.forget_permits(Semaphore::MAX_PERMITS);
        let missing = Semaphore::MAX_PERMITS - self.permits.available_permits();
        self.permits.add_permits(missing);
    }

    /// Suspends operations until [`RamVolume::release`].
    pub(crate) fn hold(&self) {
        self.permits.forget_permits(Semaphore::MAX_PERMITS);
    }

    pub(crate) fn release(&self, operations: usize) {
        self.permits.add_permits(operations);
    }

    /// Waits for the begin of the next operation.
    pub(crate) async fn wait_for_operation(&self) {
        self.begun.acquire().await.unwrap().forget();
    }

    /// Operations that ended since the last call.
    pub(crate) fn events(&self) -> Vec<Event> {
        std::mem::take(&mut self.state().events)
    }

    pub(crate) fn bytes(&self, offset: usize, length: usize) -> Vec<u8> {
        self.state()
            .bytes
            .iter()
            .copied()
            .chain(std::iter::repeat(0))
            .skip(offset)
            .take(length)
            .collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    async fn begin(&self) -> Result<(), VolumeError> {
        self.begun.add_permits(1);
        self.permits.acquire().await.unwrap().forget();
        self.state().fault.map_or(Ok(()), |fault| Err(fault()))
    }

    fn range(&self, offset: u64, length: usize) -> Result<std::ops::Range<usize>, VolumeError> {
        let size_bytes = self.state().geometry.size_bytes;
        let length = length as u64;
        match offset.checked_add(length) {
            Some(end) if end <= size_bytes => Ok(offset as usize..end as usize),
            _ => Err(VolumeError::OutOfRange {
                offset,
                length,
                size_bytes,
            }),
        }
    }
}

impl Volume for RamVolume {
    fn geometry(&self) -> Geometry {
        self.state().geometry
    }

    fn read_only(&self) -> bool {
        self.state().read_only
    }

    fn read(
        &self,
        offset: u64,
        mut buffer: Buffer,
    ) -> LocalBoxFuture<'_, Result<Buffer, VolumeError>> {
        Box::pin(async move {
            self.begin().await?;
            let range = self.range(offset, buffer.len())?;
            let mut state = self.state();
            let stored = state.bytes.len().min(range.end).saturating_sub(range.start);
            buffer[stored..].fill(0);
            if stored > 0 {
                buffer[..stored].copy_from_slice(&state.bytes[range.start..][..stored]);
            }
            state.events.push(Event::Read {
                offset,
                length: buffer.len(),
            });
            Ok(buffer)
        })
    }

    fn write(
        &self,
        offset: u64,
        buffer: Buffer,
        stability: Stability,
    ) -> LocalBoxFuture<'_, Result<(), VolumeError>> {
        Box::pin(async move {
            self.begin().await?;
            let range = self.range(offset, buffer.len())?;
            let mut state = self.state();
            if state.bytes.len() < range.end {
                state.bytes.resize(range.end, 0);
            }
            state.bytes[range].copy_from_slice(&buffer);
            if let Some(granule) = u64::from(state.granule).checked_ilog2() {
                let last = (offset + buffer.len() as u64 - 1) >> granule;
                state.allocated.extend((offset >> granule)..=last);
            }
            state.events.push(Event::Write {
                offset,
                length: buffer.len(),
                stability,
            });
            Ok(())
        })
    }

    fn flush(&self) -> LocalBoxFuture<'_, Result<(), VolumeError>> {
        Box::pin(async move {
            self.begin().await?;
            self.state().events.push(Event::Flush);
            Ok(())
        })
    }

    fn unmap_granularity(&self) -> Option<u32> {
        Some(self.state().granule).filter(|&granule| granule > 0)
    }

    fn set_thick(&self, thick: bool) -> RunningClones {
        self.state().thick = thick;
        RunningClones::default()
    }

    fn share(&self) -> Option<SharePermit> {
        (!self.state().thick).then(SharePermit::default)
    }

    fn clone_end(&self) -> Option<CloneEnd<'_>> {
        self.clone_end
            .get()
            .map(|file| CloneEnd::File(file.as_fd()))
    }

    fn atomic_write_bytes(&self) -> Option<u32> {
        self.state().atomic_write_bytes
    }

    fn clear(
        &self,
        offset: u64,
        length: u64,
        stability: Stability,
    ) -> LocalBoxFuture<'_, Result<(), VolumeError>> {
        Box::pin(async move {
            self.begin().await?;
            let range = self.range(offset, length as usize)?;
            let mut state = self.state();
            let (start, end) = (
                range.start.min(state.bytes.len()),
                range.end.min(state.bytes.len()),
            );
            state.bytes[start..end].fill(0);
            let granule = u64::from(state.granule);
            if granule > 0 {
                let whole = offset.div_ceil(granule)..(offset + length) / granule;
                state.allocated.retain(|granule| !whole.contains(granule));
            }
            state.events.push(Event::Clear {
                offset,
                length,
                stability,
            });
            Ok(())
        })
    }

    fn allocation(
        &self,
        offset: u64,
        length: u64,
        most: usize,
    ) -> LocalBoxFuture<'_, Result<Vec<Extent>, VolumeError>> {
        Box::pin(async move {
            self.begin().await?;
            self.range(offset, length as usize)?;
            let state = self.state();
            let granule = u64::from(state.granule.max(512));
            let mut extents: Vec<Extent> = Vec::new();
            let mut at = offset;
            while at < offset + length {
                let end = ((at / granule + 1) * granule).min(offset + length);
                let allocation = if state.allocated.contains(&(at / granule)) {
                    Allocation::Allocated
                } else {
                    Allocation::Hole
                };
                let is_full = extents.len() == most;
                match extents.last_mut() {
                    Some(last) if last.allocation == allocation => last.length += end - at,
                    _ if is_full => break,
                    _ => extents.push(Extent {
                        offset: at,
                        length: end - at,
                        allocation,
                    }),
                }
                at = end;
            }
            Ok(extents)
        })
    }
}
