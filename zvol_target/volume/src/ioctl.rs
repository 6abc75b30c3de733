//! The ioctls of block devices that no crate of ours has.
//!
//! `unsafe` is here because an ioctl's number says what its argument is, and the compiler can't check that.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;

use rustix::ioctl::{Opcode, Setter, ioctl, opcode};

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
