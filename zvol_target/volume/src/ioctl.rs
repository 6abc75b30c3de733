// SPDX-License-Identifier: Apache-2.0
//! The ioctls that no crate in use offers.
//!
//! `unsafe` is needed because the type of an ioctl's argument follows from its number, which the compiler cannot check.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::ioctl::{Getter, Opcode, Setter, Updater, ioctl, opcode};

/// `BLKDISCARD` of `linux/fs.h`.
const BLKDISCARD: Opcode = opcode::none(0x12, 119);

/// Discards `length` bytes at `offset`; both in whole sectors.
///
/// # Errors
/// EOPNOTSUPP: the device does not support it.
pub(crate) fn discard(device: &File, offset: u64, length: u64) -> io::Result<()> {
    let range = [offset, length];
    // SAFETY: BLKDISCARD reads two `u64` from its argument, and keeps nothing.
    unsafe { ioctl(device, Setter::<BLKDISCARD, [u64; 2]>::new(range)) }.map_err(io::Error::from)
}

/// `ZFS_MAX_DATASET_NAME_LEN` of OpenZFS.
const DATASET_NAME_LENGTH: usize = 256;

/// `BLKZNAME` of OpenZFS' `sys/fs/zfs.h`.
const BLKZNAME: Opcode = opcode::read::<[u8; DATASET_NAME_LENGTH]>(0x12, 125);

/// Name of a zvol's dataset.
///
/// # Errors
/// ENOTTY: the device is not a zvol.
pub(crate) fn zvol_name(device: &File) -> io::Result<String> {
    // SAFETY: BLKZNAME writes this number of bytes to its argument, and reads none.
    let name = unsafe { ioctl(device, Getter::<BLKZNAME, [u8; DATASET_NAME_LENGTH]>::new()) }?;
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8(name.to_vec()).map_err(io::Error::other)
}

/// `struct file_clone_range` of `linux/fs.h`.
#[repr(C)]
struct FileCloneRange {
    source: i64,
    source_offset: u64,
    length: u64,
    destination_offset: u64,
}

/// `FICLONERANGE` of `linux/fs.h`.
const FICLONERANGE: Opcode = opcode::write::<FileCloneRange>(0x94, 13);

/// Makes a range of a file share the blocks of a range of another file.
///
/// # Errors
/// The errors of `ioctl_ficlonerange(2)`; the content of the range is then unknown.
pub(crate) fn clone_file_range(
    file: &File,
    destination_offset: u64,
    source: BorrowedFd<'_>,
    source_offset: u64,
    length: u64,
) -> io::Result<()> {
    let range = FileCloneRange {
        source: source.as_raw_fd().into(),
        source_offset,
        length,
        destination_offset,
    };
    // SAFETY: FICLONERANGE reads a `struct file_clone_range` from its argument, and keeps nothing.
    unsafe { ioctl(file, Setter::<FICLONERANGE, FileCloneRange>::new(range)) }
        .map_err(io::Error::from)
}

/// `ZVOL_CLONE_VERSION` of `zvol_clone.h`.
pub(crate) const ZVOL_CLONE_VERSION: u32 = 2;

/// `struct zvol_clone_range` of `zvol_clone.h`, where each field is explained.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct ZvolCloneRange {
    pub version: u32,
    pub flags: u32,
    pub source_fd: i32,
    pub destination_fd: i32,
    pub source_offset: u64,
    pub destination_offset: u64,
    pub length: u64,
    pub bytes_done: u64,
    pub dirty_length: u64,
    pub stopped: u32,
    pub reserved: u32,
    pub hole_bytes: u64,
}

const ZVOL_CLONE_RANGE: Opcode = opcode::read_write::<ZvolCloneRange>(b'z', 0xc1);

/// Clones a range with the device of `zvol_clone`. Sets the output fields of the request, also after an error.
///
/// # Errors
/// The errors of `zvol_clone.h`.
pub(crate) fn zvol_clone_range(device: &File, request: &mut ZvolCloneRange) -> io::Result<()> {
    // SAFETY: ZVOL_CLONE_RANGE reads and writes a `struct zvol_clone_range`, and keeps nothing.
    unsafe {
        ioctl(
            device,
            Updater::<ZVOL_CLONE_RANGE, ZvolCloneRange>::new(request),
        )
    }
    .map_err(io::Error::from)
}

/// `struct zvol_clone_extent` of `zvol_clone.h`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct ZvolCloneExtent {
    pub length: u64,
    pub kind: u32,
    pub reserved: u32,
}

/// `struct zvol_clone_map` of `zvol_clone.h`.
#[repr(C)]
struct ZvolCloneMap {
    version: u32,
    flags: u32,
    fd: i32,
    most: u32,
    offset: u64,
    length: u64,
    extents: u64,
    bytes_done: u64,
    count: u32,
    stopped: u32,
}

const ZVOL_CLONE_MAP: Opcode = opcode::read_write::<ZvolCloneMap>(b'z', 0xc2);

/// The map of a range: at most `most` extents.
///
/// # Errors
/// The errors of `zvol_clone.h`.
pub(crate) fn zvol_clone_map(
    device: &File,
    volume: &File,
    offset: u64,
    length: u64,
    most: u32,
) -> io::Result<Vec<ZvolCloneExtent>> {
    let mut extents = vec![ZvolCloneExtent::default(); most as usize];
    let mut request = ZvolCloneMap {
        version: ZVOL_CLONE_VERSION,
        flags: 0,
        fd: volume.as_raw_fd(),
        most,
        offset,
        length,
        extents: extents.as_mut_ptr() as u64,
        bytes_done: 0,
        count: 0,
        stopped: 0,
    };
    // SAFETY: ZVOL_CLONE_MAP reads and writes a `struct zvol_clone_map`. It writes at most `most` extents to the memory named
    // there, and `extents` has room for as many. It keeps no pointer.
    unsafe {
        ioctl(
            device,
            Updater::<ZVOL_CLONE_MAP, ZvolCloneMap>::new(&mut request),
        )
    }?;
    extents.truncate(request.count as usize);
    Ok(extents)
}

/// `struct zvol_clone_space` of `zvol_clone.h`, where each field is explained.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct ZvolCloneSpace {
    pub version: u32,
    pub flags: u32,
    pub fd: i32,
    pub stopped: u32,
    pub offset: u64,
    pub length: u64,
    pub budget: u64,
    pub bytes_done: u64,
    pub allocated: u64,
    pub shared: u64,
    pub snapshot: u64,
    pub deduplicated: u64,
    pub txg: u64,
    pub dirty: u32,
    pub reserved: u32,
}

const ZVOL_CLONE_SPACE: Opcode = opcode::read_write::<ZvolCloneSpace>(b'z', 0xc3);

/// Counts what the blocks from the beginning of a range use, for at most `budget` nanoseconds.
///
/// # Errors
/// The errors of `zvol_clone.h`.
pub(crate) fn zvol_clone_space(
    device: &File,
    volume: &File,
    offset: u64,
    length: u64,
    budget: u64,
) -> io::Result<ZvolCloneSpace> {
    let mut request = ZvolCloneSpace {
        version: ZVOL_CLONE_VERSION,
        fd: volume.as_raw_fd(),
        offset,
        length,
        budget,
        ..ZvolCloneSpace::default()
    };
    // SAFETY: ZVOL_CLONE_SPACE reads and writes a `struct zvol_clone_space`, and keeps nothing.
    unsafe {
        ioctl(
            device,
            Updater::<ZVOL_CLONE_SPACE, ZvolCloneSpace>::new(&mut request),
        )
    }?;
    Ok(request)
}
