// SPDX-License-Identifier: Apache-2.0
//! The one socket option no library has a call for.
#![allow(unsafe_code)]

use std::io;
use std::mem::size_of;
use std::os::fd::AsRawFd;

/// Bytes the socket takes that it can't send yet. More would only wait there, in front of all that is ready later.
static NOT_SENT_MOST: libc::c_int = 256 << 10;

/// Sets `TCP_NOTSENT_LOWAT` (tcp(7)): writing stops when so much is not sent, whatever the size of the send buffer.
///
/// # Errors
/// Those of setsockopt(2).
pub(crate) fn limit_not_sent(socket: &impl AsRawFd) -> io::Result<()> {
    // SAFETY: the descriptor is open for as long as `socket` is borrowed; the kernel reads `size_of::<c_int>()` bytes of a
    // value that lives for ever.
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
