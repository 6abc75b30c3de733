// SPDX-License-Identifier: Apache-2.0
//! Comparing a range with what is expected there, and writing it if it is the same: one job for a volume past the page cache.

use std::fs::File;
use std::io;

use rustix::io::{Errno, ReadWriteFlags, preadv2, pwritev2};

use crate::{Buffer, Stability, Volume, VolumeError};

/// What [`Volume::compare_and_write`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The range was as expected, and is written.
    Written,
    /// The first byte, counted from the beginning of the range, that is not as expected. Nothing is written.
    Differs(usize),
}

/// Why [`Volume::compare_and_write`] failed.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// The range could not be read. Nothing is written.
    #[error(transparent)]
    Read(VolumeError),
    /// It could not be written: a part of it may be.
    #[error(transparent)]
    Write(VolumeError),
}

/// Where `stored` differs from the first half of `data` first.
fn difference(stored: &[u8], data: &[u8]) -> Option<usize> {
    let expected = data.get(..stored.len())?;
    if stored == expected {
        return None;
    }
    stored
        .iter()
        .zip(expected)
        .position(|(is, expected)| is != expected)
}

/// [`Volume::compare_and_write`] by the volume's own reads and writes.
///
/// # Errors
/// [`CompareError`].
pub(crate) async fn by_read_and_write<V: Volume + ?Sized>(
    volume: &V,
    offset: u64,
    data: Buffer,
    stability: Stability,
) -> Result<Comparison, CompareError> {
    let half = data.len() / 2;
    let stored = volume.read(offset, Buffer::new(half)).await;
    let stored = stored.map_err(CompareError::Read)?;
    if let Some(at) = difference(&stored, &data) {
        return Ok(Comparison::Differs(at));
    }
    let written = volume.write(offset, Buffer::from(&data[half..]), stability);
    written.await.map_err(CompareError::Write)?;
    Ok(Comparison::Written)
}

/// How a job failed.
#[derive(Debug)]
pub(crate) enum Failed {
    Reading(io::Error),
    Writing(io::Error),
}

/// Compares and writes in the calling thread. `stored` is memory for what is read, half as long as `data`. On a device without the page
/// cache, stable means `RWF_DSYNC`.
pub(crate) fn run(
    file: &File,
    offset: u64,
    stored: &mut Buffer,
    data: &Buffer,
    stability: Stability,
) -> Result<Comparison, Failed> {
    let flags = match stability {
        Stability::Stable => ReadWriteFlags::DSYNC,
        Stability::Cached => ReadWriteFlags::empty(),
    };
    let half = stored.len();
    complete(half, io::ErrorKind::UnexpectedEof, |done| {
        let rest = io::IoSliceMut::new(&mut stored[done..]);
        preadv2(
            file,
            &mut [rest],
            offset + done as u64,
            ReadWriteFlags::empty(),
        )
    })
    .map_err(Failed::Reading)?;
    if let Some(at) = difference(stored, data) {
        return Ok(Comparison::Differs(at));
    }
    complete(half, io::ErrorKind::WriteZero, |done| {
        let rest = io::IoSlice::new(&data[half + done..]);
        pwritev2(file, &[rest], offset + done as u64, flags)
    })
    .map_err(Failed::Writing)?;
    Ok(Comparison::Written)
}

/// Calls until `length` bytes are done; `call` is given how many are.
fn complete(
    length: usize,
    at_end: io::ErrorKind,
    mut call: impl FnMut(usize) -> Result<usize, Errno>,
) -> io::Result<()> {
    let mut done = 0;
    while done < length {
        match call(done) {
            Ok(0) => return Err(at_end.into()),
            Ok(moved) => done += moved,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn it_writes_only_where_all_is_as_expected() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 1024]).unwrap();
        let data = |expected: &[u8]| Buffer::from(&[expected, &[8; 512]].concat()[..]);
        let mut stored = Buffer::new(512);
        let mut compare = |offset, expected: &[u8]| {
            run(
                &file,
                offset,
                &mut stored,
                &data(expected),
                Stability::Stable,
            )
        };
        let mut other = [7; 512];
        other[300] = 9;
        assert_eq!(compare(512, &other).unwrap(), Comparison::Differs(300));
        assert_eq!(compare(512, &[7; 512]).unwrap(), Comparison::Written);
        assert_eq!(compare(512, &[7; 512]).unwrap(), Comparison::Differs(0));
        assert_eq!(compare(0, &[7; 512]).unwrap(), Comparison::Written);
        assert!(matches!(compare(1024, &[7; 512]), Err(Failed::Reading(_))));
    }
}
