//! The ioctls of block devices that no crate of ours has.
//!
//! `unsafe` is here because an ioctl's number says what its argument is, and the compiler can't check that.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;

use rustix::ioctl::{Getter, Opcode, Setter, ioctl, opcode};

/// `BLKDISCARD` of `linux/fs.h`.
const BLKDISCARD: Opcode = opcode::none(0x12, 119);

/// The device may forget the range: `length` bytes at `offset`, whole sectors.
///
/// # Errors
/// EOPNOTSUPP: the device can't.
pub(crate) fn discard(device: &File, offset: u64, length: u64) -> io::Result<()> {
    let range = [offset, length];
    // SAFETY: BLKDISCARD reads two `u64` from its argument, and keeps nothing.
    unsafe { ioctl(device, Setter::<BLKDISCARD, [u64; 2]>::new(range)) }.map_err(io::Error::from)
}

/// `ZFS_MAX_DATASET_NAME_LEN` of OpenZFS.
const DATASET_NAME_LENGTH: usize = 256;

/// `BLKZNAME` of OpenZFS' `sys/fs/zfs.h`.
const BLKZNAME: Opcode = opcode::read::<[u8; DATASET_NAME_LENGTH]>(0x12, 125);

/// Name of the dataset that a zvol is.
///
/// # Errors
/// ENOTTY: the device is no zvol.
pub(crate) fn zvol_name(device: &File) -> io::Result<String> {
    // SAFETY: BLKZNAME writes that many bytes to its argument, and reads none.
    let name = unsafe { ioctl(device, Getter::<BLKZNAME, [u8; DATASET_NAME_LENGTH]>::new()) }?;
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8(name.to_vec()).map_err(io::Error::other)
}
