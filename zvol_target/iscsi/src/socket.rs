// SPDX-License-Identifier: Apache-2.0
//! The socket option that no library in use supports.
#![allow(unsafe_code)]

use std::io;
use std::mem::size_of;
use std::os::fd::AsRawFd;

/// Bytes that the socket accepts before it has sent them. More would only delay later responses.
static NOT_SENT_MOST: libc::c_int = 256 << 10;

/// Sets `TCP_NOTSENT_LOWAT` (tcp(7)): writing stops when this many bytes are unsent, for any size of the send buffer.
///
/// # Errors
/// The errors of setsockopt(2).
pub(crate) fn limit_not_sent(socket: &impl AsRawFd) -> io::Result<()> {
    // SAFETY: the descriptor is open while `socket` is borrowed; the kernel reads `size_of::<c_int>()` bytes of a static value.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_NOTSENT_LOWAT,
            (&raw const NOT_SENT_MOST).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
