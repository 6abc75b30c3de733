// SPDX-License-Identifier: Apache-2.0
//! The receive buffer: bytes that were received and not processed yet.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead as _, ReadBuf};
use tokio::net::TcpStream;

use crate::pdu::HEADERS_LENGTH_MAX;

/// Size of the buffer: many small PDUs in one receive.
const CAPACITY: usize = 64 << 10;
const _: () = assert!(CAPACITY > 2 * HEADERS_LENGTH_MAX);
/// Length of a receive while long data segments arrive. They are received directly to their destination; only the start of each
/// is copied from this buffer.
const BULK_RECEIVE: usize = 4 << 10;

/// Bytes received and not yet consumed.
pub(crate) struct Inbound {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Inbound {
    pub fn new() -> Self {
        Self {
            bytes: vec![0; CAPACITY].into(),
            start: 0,
            end: 0,
        }
    }

    /// The bytes to process.
    pub fn available(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Drops `count` bytes from the front; at most the available ones.
    pub fn consume(&mut self, count: usize) {
        self.start += count.min(self.end - self.start);
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    /// Receives once. Returns 0 at the end of the stream. `bulk`: long data segments are expected.
    pub fn poll_receive(
        &mut self,
        stream: &mut TcpStream,
        context: &mut Context<'_>,
        bulk: bool,
    ) -> Poll<io::Result<usize>> {
        // The rest is shorter than the headers of one PDU, as complete ones were processed.
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        let limit = if bulk {
            self.end + BULK_RECEIVE
        } else {
            CAPACITY
        };
        let mut space = ReadBuf::new(&mut self.bytes[self.end..limit.min(CAPACITY)]);
        ready!(Pin::new(stream).poll_read(context, &mut space))?;
        let received = space.filled().len();
        self.end += received;
        Poll::Ready(Ok(received))
    }

    /// Receives once, first into `destination`, then into the buffer, which must be empty.
    ///
    /// Returns the bytes in `destination`, and all received bytes; 0 of 0 at the end of the stream.
    pub fn poll_receive_into(
        &mut self,
        stream: &TcpStream,
        context: &mut Context<'_>,
        destination: &mut [u8],
    ) -> Poll<io::Result<(usize, usize)>> {
        debug_assert_eq!(self.start, self.end);
        loop {
            ready!(stream.poll_read_ready(context))?;
            let mut slices = [
                io::IoSliceMut::new(destination),
                io::IoSliceMut::new(&mut self.bytes[..BULK_RECEIVE]),
            ];
            match stream.try_read_vectored(&mut slices) {
                Ok(received) => {
                    let direct = received.min(destination.len());
                    self.start = 0;
                    self.end = received - direct;
                    return Poll::Ready(Ok((direct, received)));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}
