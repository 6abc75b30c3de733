// SPDX-License-Identifier: Apache-2.0
//! The send queue: sends the PDUs of one turn with one vectored write. Data segments are not copied.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use scsi::sam::Buffer;
use tokio::io::AsyncWrite as _;
use tokio::net::TcpStream;

use crate::pdu::{Digests, Header, padding, set_data_segment_length};

/// Slices per write.
const SLICES: usize = 64;
/// Size of the header memory that is not freed while the queue is empty.
const STAGING_RETAINED: usize = 16 << 10;

enum Chunk {
    /// Number of bytes of the staging area.
    Staged(usize),
    /// Bytes `start..end` of a command's data.
    Data {
        buffer: Rc<Buffer>,
        start: usize,
        end: usize,
    },
}

/// Queued PDUs.
#[derive(Default)]
pub(crate) struct Outbound {
    /// Headers, short data segments, padding and digests, in order. `chunks` has the positions of other data in between.
    staging: Vec<u8>,
    /// Bytes of `staging` that were sent.
    sent: usize,
    chunks: VecDeque<Chunk>,
    /// Bytes in data chunks.
    data_bytes: usize,
}

impl Outbound {
    /// Bytes of command data queued.
    pub fn data_bytes(&self) -> usize {
        self.data_bytes
    }

    /// Queued bytes that are not command data.
    pub fn staged_bytes(&self) -> usize {
        self.staging.len() - self.sent
    }

    /// Queues a PDU and copies its short data segment.
    pub fn push(&mut self, mut header: Header, data: &[u8], digests: Digests) {
        set_data_segment_length(&mut header, data.len());
        self.stage_header(&header, digests);
        self.stage(data);
        self.stage(&[0; 3][..padding(data.len())]);
        if digests.data && !data.is_empty() {
            self.stage(&data_digest(data).to_le_bytes());
        }
    }

    /// Queues a PDU whose data segment is `start..end` of `buffer`.
    pub fn push_data(
        &mut self,
        mut header: Header,
        buffer: &Rc<Buffer>,
        start: usize,
        end: usize,
        digests: Digests,
    ) {
        let data = &buffer[start..end];
        set_data_segment_length(&mut header, data.len());
        self.stage_header(&header, digests);
        self.data_bytes += data.len();
        self.chunks.push_back(Chunk::Data {
            buffer: Rc::clone(buffer),
            start,
            end,
        });
        self.stage(&[0; 3][..padding(data.len())]);
        if digests.data {
            self.stage(&data_digest(data).to_le_bytes());
        }
    }

    fn stage_header(&mut self, header: &Header, digests: Digests) {
        self.stage(header);
        if digests.header {
            self.stage(&crc32c::crc32c(header).to_le_bytes());
        }
    }

    fn stage(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.staging.extend_from_slice(bytes);
        match self.chunks.back_mut() {
            Some(Chunk::Staged(length)) => *length += bytes.len(),
            _ => self.chunks.push_back(Chunk::Staged(bytes.len())),
        }
    }

    /// Sends until the queue is empty or the socket is full.
    pub fn poll_flush(
        &mut self,
        stream: &mut TcpStream,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while !self.chunks.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let mut staged = self.sent;
            for (slice, chunk) in slices.iter_mut().zip(&self.chunks) {
                *slice = IoSlice::new(match chunk {
                    Chunk::Staged(length) => {
                        staged += length;
                        &self.staging[staged - length..staged]
                    }
                    Chunk::Data { buffer, start, end } => &buffer[*start..*end],
                });
            }
            let count = self.chunks.len().min(SLICES);
            let written =
                ready!(Pin::new(&mut *stream).poll_write_vectored(context, &slices[..count]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.advance(written);
        }
        Poll::Ready(Ok(()))
    }

    fn advance(&mut self, mut written: usize) {
        while written > 0 {
            let Some(chunk) = self.chunks.front_mut() else {
                break;
            };
            let left = match chunk {
                Chunk::Staged(length) => {
                    let taken = written.min(*length);
                    self.sent += taken;
                    *length -= taken;
                    written -= taken;
                    *length
                }
                Chunk::Data { start, end, .. } => {
                    let taken = written.min(*end - *start);
                    self.data_bytes -= taken;
                    *start += taken;
                    written -= taken;
                    *end - *start
                }
            };
            if left == 0 {
                self.chunks.pop_front();
            }
        }
        if self.chunks.is_empty() {
            self.staging.clear();
            self.staging.shrink_to(STAGING_RETAINED);
            self.sent = 0;
        } else if self.sent > STAGING_RETAINED && self.sent > self.staging.len() / 2 {
            self.staging.drain(..self.sent);
            self.sent = 0;
        }
    }
}

/// Digest over data and its padding.
fn data_digest(data: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(data), &[0; 3][..padding(data.len())])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pdu::{self, NopIn};

    fn drain(outbound: &mut Outbound, step: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while let Some(chunk) = outbound.chunks.front() {
            let slice = match chunk {
                Chunk::Staged(length) => &outbound.staging[outbound.sent..outbound.sent + length],
                Chunk::Data { buffer, start, end } => &buffer[*start..*end],
            };
            let taken = slice.len().min(step);
            bytes.extend_from_slice(&slice[..taken]);
            outbound.advance(taken);
        }
        bytes
    }

    proptest! {
        #[test]
        fn sent_bytes_equal_the_encoded_pdus(
            pdus in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..50)), 1..20),
            header: bool, data: bool, step in 1usize..100,
        ) {
            let digests = Digests { header, data };
            let mut outbound = Outbound::default();
            let mut expected = Vec::new();
            let header = NopIn::default().encode();
            for (direct, data) in &pdus {
                if *direct && !data.is_empty() {
                    let buffer = Rc::new(Buffer::from(&data[..]));
                    outbound.push_data(header, &buffer, 0, data.len(), digests);
                } else {
                    outbound.push(header, data, digests);
                }
                expected.extend(pdu::encode(header, &[], data, digests));
            }
            prop_assert_eq!(drain(&mut outbound, step), expected);
            prop_assert_eq!((outbound.data_bytes(), outbound.staged_bytes()), (0, 0));
        }
    }
}
