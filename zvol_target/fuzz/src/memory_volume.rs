// SPDX-License-Identifier: Apache-2.0
//! A volume in memory that delays and fails operations by a plan, and checks that its contract is observed.

use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use volume::{
    Buffer, Geometry, LOGICAL_BLOCK_BYTES, LocalBoxFuture, Stability, Volume, VolumeError,
};

const PAGE_BYTES: usize = 4096;

/// Limit of one operation of a volume: what the SCSI layer guarantees.
const MOST_OPERATION_BYTES: usize = 16 << 20;

/// Written pages; the rest is zero.
type Pages = HashMap<u64, Box<[u8; PAGE_BYTES]>>;

pub(crate) struct MemoryVolume {
    size_bytes: AtomicU64,
    read_only: bool,
    pages: Mutex<Pages>,
    /// One byte per operation, repeated: bits 0 to 2 are the number of polls that return pending, bits 5 to 7 the failure.
    plan: Vec<u8>,
    operations: AtomicUsize,
}

impl MemoryVolume {
    pub(crate) fn new(size_bytes: u64, read_only: bool, plan: &[u8]) -> Arc<Self> {
        Arc::new(Self {
            size_bytes: AtomicU64::new(size_bytes),
            read_only,
            pages: Mutex::default(),
            plan: plan.to_vec(),
            operations: AtomicUsize::new(0),
        })
    }

    /// Its content, without the plan.
    pub(crate) fn content(&self) -> Vec<u8> {
        let size = self.size_bytes.load(Ordering::Relaxed) as usize;
        let mut content = vec![0; size];
        let pages = self.pages.lock().expect("nothing panics inside");
        for (page, place, part) in parts(0, size) {
            if let Some(bytes) = pages.get(&page) {
                content[part].copy_from_slice(&bytes[place]);
            }
        }
        content
    }

    pub(crate) fn set(&self, offset: u64, data: &[u8]) {
        let mut pages = self.pages.lock().expect("nothing panics inside");
        for (page, place, part) in parts(offset, data.len()) {
            let bytes = pages
                .entry(page)
                .or_insert_with(|| Box::new([0; PAGE_BYTES]));
            bytes[place].copy_from_slice(&data[part]);
        }
    }

    /// Adds blocks; volumes only grow.
    pub(crate) fn grow(&self, blocks: u64) {
        let bytes = blocks * u64::from(LOGICAL_BLOCK_BYTES);
        self.size_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Delay and failure of the next operation.
    async fn begin(&self) -> Result<(), VolumeError> {
        let number = self.operations.fetch_add(1, Ordering::Relaxed);
        let planned = match self.plan.len() {
            0 => 0,
            length => self.plan[number % length],
        };
        let mut left = planned & 7;
        poll_fn(|context| {
            if left == 0 {
                return Poll::Ready(());
            }
            left -= 1;
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        match planned >> 5 {
            1 => Err(VolumeError::OutOfSpace),
            2 => Err(VolumeError::Device(io::ErrorKind::Other.into())),
            3 => Err(VolumeError::ReadOnly),
            _ => Ok(()),
        }
    }

    fn check(&self, offset: u64, length: usize) {
        let block = u64::from(LOGICAL_BLOCK_BYTES);
        let length_bytes = length as u64;
        assert!(
            length <= MOST_OPERATION_BYTES
                && offset % block == 0
                && length_bytes % block == 0
                && offset
                    .checked_add(length_bytes)
                    .is_some_and(|end| end <= self.size_bytes.load(Ordering::Relaxed)),
            "operation of {length} bytes at {offset}"
        );
    }
}

/// Splits `length` bytes at `offset` into pages: page, range in the page, range in the buffer.
fn parts(offset: u64, length: usize) -> impl Iterator<Item = (u64, Range<usize>, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        (done < length).then(|| {
            let at = offset + done as u64;
            let start = (at % PAGE_BYTES as u64) as usize;
            let count = (PAGE_BYTES - start).min(length - done);
            let part = (
                at / PAGE_BYTES as u64,
                start..start + count,
                done..done + count,
            );
            done += count;
            part
        })
    })
}

impl Volume for MemoryVolume {
    fn geometry(&self) -> Geometry {
        Geometry {
            size_bytes: self.size_bytes.load(Ordering::Relaxed),
            physical_block_bytes: 16384,
        }
    }

    fn read_only(&self) -> bool {
        self.read_only
    }

    fn read(
        &self,
        offset: u64,
        mut buffer: Buffer,
    ) -> LocalBoxFuture<'_, Result<Buffer, VolumeError>> {
        self.check(offset, buffer.len());
        Box::pin(async move {
            self.begin().await?;
            let pages = self.pages.lock().expect("nothing panics inside");
            for (page, place, part) in parts(offset, buffer.len()) {
                match pages.get(&page) {
                    Some(bytes) => buffer[part].copy_from_slice(&bytes[place]),
                    None => buffer[part].fill(0),
                }
            }
            Ok(buffer)
        })
    }

    fn write(
        &self,
        offset: u64,
        buffer: Buffer,
        _stability: Stability,
    ) -> LocalBoxFuture<'_, Result<(), VolumeError>> {
        assert!(!self.read_only, "a write to a read-only volume");
        self.check(offset, buffer.len());
        Box::pin(async move {
            self.begin().await?;
            let mut pages = self.pages.lock().expect("nothing panics inside");
            for (page, place, part) in parts(offset, buffer.len()) {
                let bytes = pages
                    .entry(page)
                    .or_insert_with(|| Box::new([0; PAGE_BYTES]));
                bytes[place].copy_from_slice(&buffer[part]);
            }
            Ok(())
        })
    }

    fn flush(&self) -> LocalBoxFuture<'_, Result<(), VolumeError>> {
        Box::pin(self.begin())
    }

    fn unmap_granularity(&self) -> Option<u32> {
        (!self.read_only).then_some(16384)
    }

    fn atomic_write_bytes(&self) -> Option<u32> {
        Some(PAGE_BYTES as u32)
    }

    fn clear(
        &self,
        offset: u64,
        length: u64,
        _stability: Stability,
    ) -> LocalBoxFuture<'_, Result<(), VolumeError>> {
        assert!(!self.read_only, "zeroes written to a read-only volume");
        let length = usize::try_from(length).expect("steps of the SCSI layer");
        self.check(offset, length);
        Box::pin(async move {
            self.begin().await?;
            let mut pages = self.pages.lock().expect("nothing panics inside");
            for (page, place, _) in parts(offset, length) {
                if place.len() == PAGE_BYTES {
                    pages.remove(&page);
                } else if let Some(bytes) = pages.get_mut(&page) {
                    bytes[place].fill(0);
                }
            }
            Ok(())
        })
    }
}
