// SPDX-License-Identifier: Apache-2.0
//! Finds the data in a file: `SEEK_DATA` and `SEEK_HOLE` of lseek(2).

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;

use rustix::fs::{SeekFrom, fstatvfs, seek};
use rustix::io::Errno;

use super::{Store, classify};
use crate::engine;
use crate::{Allocation, Extent, LOGICAL_BLOCK_BYTES, Space, VolumeError};

impl Store {
    /// At most `most` extents of a regular file. On ext4 and XFS, a preallocated extent that was never written is a `Hole`,
    /// although it takes space. A file system without holes reports only data. On ZFS, the call waits for a transaction group if
    /// the file was just written.
    pub(crate) async fn holes(
        &self,
        offset: u64,
        length: u64,
        most: usize,
    ) -> Result<Vec<Extent>, VolumeError> {
        let most = most.max(1);
        self.inspect(offset, length, move |file| {
            extents(file, offset, offset + length, most)
        })
        .await
    }

    /// Space of a regular file and its file system.
    pub(crate) async fn file_space(&self) -> Result<Option<Space>, VolumeError> {
        let extents = engine::call(&self.backing, |backing| {
            let blocks = backing.file().metadata()?.blocks();
            let system = fstatvfs(backing.file())?;
            Ok(Space {
                used_bytes: blocks * 512,
                available_bytes: system.f_bavail.saturating_mul(system.f_frsize),
            })
        });
        extents.await.map(Some).map_err(classify)
    }
}

/// At most `most` extents from `offset` to `end`, of whole logical blocks; data is rounded outwards.
fn extents(file: &File, offset: u64, end: u64, most: usize) -> io::Result<Vec<Extent>> {
    let block = u64::from(LOGICAL_BLOCK_BYTES);
    let mut extents: Vec<Extent> = Vec::new();
    let mut at = offset;
    while at < end && extents.len() < most {
        let data = match seek(file, SeekFrom::Data(at)) {
            Ok(data) => (data - data % block).clamp(at, end),
            // No data behind it. It is a hole only up to the end of the file.
            Err(Errno::NXIO) if seek(file, SeekFrom::End(0))? >= end => end,
            Err(Errno::NXIO) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(Errno::INVAL | Errno::OPNOTSUPP) => {
                extents.push(extent(at, end, Allocation::Unknown));
                return Ok(extents);
            }
            Err(error) => return Err(error.into()),
        };
        if data > at {
            extents.push(extent(at, data, Allocation::Hole));
            at = data;
            continue;
        }
        let hole = seek(file, SeekFrom::Hole(at))?.next_multiple_of(block);
        // A hole smaller than a block, or filled in the meantime, counts as data.
        let hole = hole.clamp(at + block, end);
        match extents.last_mut() {
            Some(last) if last.allocation == Allocation::Allocated => last.length += hole - at,
            _ => extents.push(extent(at, hole, Allocation::Allocated)),
        }
        at = hole;
    }
    Ok(extents)
}

fn extent(from: u64, to: u64, allocation: Allocation) -> Extent {
    Extent {
        offset: from,
        length: to - from,
        allocation,
    }
}
