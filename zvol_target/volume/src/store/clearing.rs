// SPDX-License-Identifier: Apache-2.0
//! Makes a range read as zeroes, with the cheapest method that the backend supports.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{Errno, retry_on_intr};

use super::refusal::Refusals;
use super::{Store, classify};
use crate::engine;
use crate::ioctl;
use crate::{Buffer, Stability, VolumeError};

/// Longest step, bytes; steps end at its multiples. A discard holds the range lock of a zvol, and from Linux 6.15 on blocks all I/O
/// of the device.
const STEP: u64 = 16 << 20;
/// Most zeroes written at once, bytes.
const ZEROES: u64 = 1 << 20;

/// A method to make a range read as zeroes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// fallocate(2) with `FALLOC_FL_PUNCH_HOLE`. A file system frees whole blocks and writes zeroes to the rest.
    PunchHole,
    /// fallocate(2) with `FALLOC_FL_ZERO_RANGE`: zeroes without a data transfer, where the file system supports it. May take space.
    ZeroRange,
    /// `BLKDISCARD` of whole granules, for zvols: they return zeroes for discarded ranges. Twice: `zvol_discard()` of OpenZFS 2.3
    /// and 2.4 logs a discard in one transaction and frees the blocks in a later one. If only the transaction group of the first
    /// is on disk, replay skips the record and the data is back. The record of the second discard is not older than the free.
    Discard,
}

impl Way {
    /// Clears `length` bytes at `offset`.
    pub(crate) fn clear(self, file: &File, offset: u64, length: u64) -> io::Result<()> {
        let mode = match self {
            Self::PunchHole => FallocateFlags::PUNCH_HOLE,
            Self::ZeroRange => FallocateFlags::ZERO_RANGE,
            Self::Discard => {
                ioctl::discard(file, offset, length)?;
                return ioctl::discard(file, offset, length);
            }
        };
        let mode = mode | FallocateFlags::KEEP_SIZE;
        retry_on_intr(|| fallocate(file, mode, offset, length)).map_err(io::Error::from)
    }
}

/// Whether the operation is not supported, now and later.
fn is_unsupported(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOTTY)
    )
}

/// The methods that a volume supports.
#[derive(Debug)]
pub(crate) struct Clearing {
    /// Best first. After the last one, zeroes are written.
    ways: &'static [Way],
    /// Number of methods that turned out to be unsupported.
    refused: AtomicUsize,
    /// Unit in which the first method frees space, bytes, if it does.
    granularity: Option<u32>,
}

impl Clearing {
    pub(crate) fn new(ways: &'static [Way], granularity: Option<u32>) -> Self {
        Self {
            ways,
            refused: AtomicUsize::new(0),
            granularity,
        }
    }

    /// The best method that is not known to be unsupported.
    pub(crate) fn way(&self) -> Option<Way> {
        self.ways.get(self.refused.load(Ordering::Acquire)).copied()
    }

    /// Records the error of `way`. `None`: it is not supported, and is not tried again.
    pub(crate) fn refuse(&self, way: Way, error: io::Error) -> Option<io::Error> {
        if !is_unsupported(&error) {
            return Some(error);
        }
        let at = self.ways.iter().position(|&known| known == way)?;
        let first = self
            .refused
            .compare_exchange(at, at + 1, Ordering::AcqRel, Ordering::Acquire);
        if first.is_ok() {
            let instead = self.way();
            tracing::info!(?way, ?instead, %error, "a volume does not support this method of clearing; the next one is used, or else zeroes are written");
        }
        None
    }

    /// Unit in which clearing frees space, bytes.
    pub(crate) fn granularity(&self) -> Option<u32> {
        self.granularity
            .filter(|_| self.refused.load(Ordering::Acquire) == 0)
    }
}

impl Store {
    /// Unit in which [`Store::clear`] frees space, bytes.
    pub(crate) fn granularity(&self) -> Option<u32> {
        self.clearing.granularity().filter(|_| !self.read_only)
    }

    /// Makes the range read as zeroes, with as little space as the backend can. Works in steps: if the future is dropped, it ends
    /// after the current step.
    pub(crate) async fn clear(
        &self,
        offset: u64,
        length: u64,
        stability: Stability,
    ) -> Result<(), VolumeError> {
        if self.read_only {
            return Err(VolumeError::ReadOnly);
        }
        self.check(offset, length)?;
        if length == 0 {
            return Ok(());
        }
        // As for a cached write: it can be lost from here on, and again at its end.
        self.written.fetch_add(1, Ordering::AcqRel);
        self.clear_range(offset..offset + length).await?;
        self.written.fetch_add(1, Ordering::AcqRel);
        match stability {
            Stability::Stable => self.flush().await,
            Stability::Cached => Ok(()),
        }
    }

    async fn clear_range(&self, range: Range<u64>) -> Result<(), VolumeError> {
        let mut rest = range;
        while let Some(way) = self.clearing.way() {
            let unit = match way {
                Way::Discard => u64::from(self.clearing.granularity().unwrap_or(1)),
                Way::PunchHole | Way::ZeroRange => 1,
            };
            let middle = rest.start.next_multiple_of(unit)..rest.end - rest.end % unit;
            if middle.is_empty() {
                break;
            }
            let edge = rest.start..middle.start;
            self.clear_edge(edge).await?;
            rest.start = middle.start;
            match self.clear_middle(way, middle).await {
                Ok(end) => rest.start = end,
                Err((end, error)) => {
                    rest.start = end;
                    match self.clearing.refuse(way, error) {
                        Some(error) => return Err(classify(error)),
                        None => continue,
                    }
                }
            }
            return self.clear_edge(rest).await;
        }
        match self.clearing.way() {
            Some(_) => self.clear_edge(rest).await,
            None => self.write_zeroes(rest).await,
        }
    }

    /// Clears with one method, step by step. Returns where it ended, with the error if there was one.
    async fn clear_middle(&self, way: Way, range: Range<u64>) -> Result<u64, (u64, io::Error)> {
        let mut at = range.start;
        let mut refusals = Refusals::default();
        while at < range.end {
            let length = (range.end - at).min(STEP - at % STEP);
            let cleared = engine::call(&self.backing, move |backing| {
                way.clear(backing.file(), at, length)
            });
            match cleared.await {
                Ok(()) => at += length,
                Err(error) if refusals.may_end(&error).await => {}
                Err(error) => return Err((at, error)),
            }
        }
        Ok(at)
    }

    /// Clears a part that is not a whole granule. Skips ranges that read as zeroes, as they may take no space yet.
    async fn clear_edge(&self, range: Range<u64>) -> Result<(), VolumeError> {
        let mut at = range.start;
        while at < range.end {
            let length = (range.end - at).min(ZEROES);
            let read = self.read(at, Buffer::new(length as usize)).await;
            if !read.is_ok_and(|data| data.is_zero()) {
                self.write_zeroes(at..at + length).await?;
            }
            at += length;
        }
        Ok(())
    }

    async fn write_zeroes(&self, range: Range<u64>) -> Result<(), VolumeError> {
        let mut at = range.start;
        while at < range.end {
            let length = (range.end - at).min(ZEROES);
            let zeroes = Buffer::zeroed(length as usize);
            self.write(at, zeroes, Stability::Cached).await?;
            at += length;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unsupported_method_is_not_retried_but_a_failed_one_is() {
        let clearing = Clearing::new(&[Way::PunchHole, Way::ZeroRange], Some(4096));
        assert_eq!(clearing.granularity(), Some(4096));
        let error = clearing.refuse(Way::PunchHole, Errno::NOSPC.into());
        assert_eq!(error.unwrap().kind(), io::ErrorKind::StorageFull);
        assert_eq!(clearing.way(), Some(Way::PunchHole));
        for _ in 0..3 {
            assert!(
                clearing
                    .refuse(Way::PunchHole, Errno::OPNOTSUPP.into())
                    .is_none()
            );
            assert_eq!(clearing.way(), Some(Way::ZeroRange));
        }
        assert_eq!(clearing.granularity(), None, "no space is freed");
        assert!(
            clearing
                .refuse(Way::ZeroRange, Errno::NOTTY.into())
                .is_none()
        );
        assert_eq!(clearing.way(), None);
    }
}
