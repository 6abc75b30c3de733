// SPDX-License-Identifier: Apache-2.0
//! Receives PDUs from the socket. Data segments of commands are received directly into their memory.

use std::rc::Rc;
use std::task::{Context, Poll, ready};

use super::connection::{Connection, End};
use super::transfer::Transfer;
use crate::pdu::{
    self, DIGEST_LENGTH, FrameError, InitiatorPdu, Lengths, RESERVED_TAG, padding, reject,
};
use crate::registry::Counters;

/// Data segments of this length or more are received directly to their destination.
const BULK_SEGMENT: usize = 32 << 10;

/// Destination of a data segment.
pub(super) enum Destination {
    /// A request with text or ping data, processed when complete.
    Request(InitiatorPdu, Vec<u8>),
    /// A command's data.
    Data {
        transfer: Rc<Transfer>,
        /// Initiator Task Tag.
        tag: u32,
        unsolicited: bool,
        /// Whether the sequence ends with this PDU.
        last: bool,
    },
    /// Discarded.
    Nobody,
}

/// The PDU that is being received.
pub(super) enum Incoming {
    /// Its headers are not complete.
    Headers,
    /// Its data segment is not complete.
    Segment {
        header: pdu::Header,
        destination: Destination,
        lengths: Lengths,
        /// Bytes still to receive, without padding and digest.
        left: usize,
        /// Digest of the received bytes.
        digest: u32,
    },
}

impl Connection {
    /// Receives once and processes every complete PDU.
    pub(super) fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<Result<(), End>> {
        if self.is_receiving_paused() {
            return Poll::Pending;
        }
        let received = match &mut self.incoming {
            Incoming::Segment {
                destination: Destination::Data { transfer, .. },
                left,
                digest,
                ..
            } if *left >= BULK_SEGMENT / 4 && self.inbound.available().is_empty() => {
                let (inbound, stream) = (&mut self.inbound, &self.stream);
                let polled = transfer.fill_segment(|memory| {
                    let Some(memory) = memory else {
                        return (0, None);
                    };
                    match inbound.poll_receive_into(stream, context, memory) {
                        Poll::Ready(Ok((direct, received))) => {
                            if self.digests.data {
                                *digest = crc32c::crc32c_append(*digest, &memory[..direct]);
                            }
                            *left -= direct;
                            (direct, Some(Poll::Ready(Ok(received))))
                        }
                        Poll::Ready(Err(error)) => (0, Some(Poll::Ready(Err(error)))),
                        Poll::Pending => (0, Some(Poll::Pending)),
                    }
                });
                match polled {
                    Some(polled) => ready!(polled)?,
                    None => ready!(self.inbound.poll_receive(&mut self.stream, context, false))?,
                }
            }
            _ => ready!(
                self.inbound
                    .poll_receive(&mut self.stream, context, self.bulk)
            )?,
        };
        if received == 0 {
            return Poll::Ready(Err(End::Closed));
        }
        Poll::Ready(self.parse(context))
    }

    fn parse(&mut self, context: &mut Context<'_>) -> Result<(), End> {
        // Nothing is processed after a Logout Request.
        while self.logout.is_none() {
            let progress = match &self.incoming {
                Incoming::Headers => self.parse_headers(context)?,
                Incoming::Segment { .. } => self.parse_segment()?,
            };
            if !progress {
                break;
            }
        }
        Ok(())
    }

    /// Processes the headers of the next PDU; false if they are not complete.
    fn parse_headers(&mut self, context: &mut Context<'_>) -> Result<bool, End> {
        let limit = self.parameters.target_max_recv_data_segment_length as usize;
        let decoded = pdu::decode_headers(self.inbound.available(), self.digests, limit);
        let Some((header, additional, lengths)) = decoded? else {
            return Ok(false);
        };
        let consumed = lengths.headers(self.digests);
        let Some(request) = InitiatorPdu::decode(&header) else {
            self.inbound.consume(consumed);
            self.push_reject(reject::COMMAND_NOT_SUPPORTED, &header);
            self.begin_segment(header, Destination::Nobody, lengths);
            return Ok(true);
        };
        let length = lengths.data_segment as u32;
        let destination = match request {
            InitiatorPdu::ScsiCommand(command) => {
                // No supported command has an additional header segment: one of a longer CDB, or bidirectional.
                self.inbound.consume(consumed);
                let destination = self.receive_command(&header, &command, length)?;
                if length > 0 {
                    // The command requests its data now. Then it is received directly into its memory.
                    self.poll_running(context);
                }
                destination
            }
            _ if !additional.is_empty() => {
                return Err(End::Protocol("additional header segment out of place"));
            }
            InitiatorPdu::DataOut(data) => {
                self.inbound.consume(consumed);
                self.receive_data_out(&header, &data, length)
            }
            InitiatorPdu::LoginRequest(_) => {
                return Err(End::Protocol("Login Request in full feature phase"));
            }
            _ => {
                self.inbound.consume(consumed);
                Destination::Request(request, Vec::new())
            }
        };
        self.begin_segment(header, destination, lengths);
        if length == 0 {
            return self.parse_segment();
        }
        Ok(true)
    }

    fn begin_segment(&mut self, header: pdu::Header, destination: Destination, lengths: Lengths) {
        self.bulk = lengths.data_segment >= BULK_SEGMENT;
        if let Destination::Data { transfer, .. } = &destination {
            transfer.begin_segment(lengths.data_segment);
        }
        self.incoming = Incoming::Segment {
            header,
            destination,
            lengths,
            left: lengths.data_segment,
            digest: 0,
        };
    }

    /// Processes the available bytes of a data segment; false if it is not complete.
    fn parse_segment(&mut self) -> Result<bool, End> {
        let Incoming::Segment {
            destination,
            lengths,
            left,
            digest,
            ..
        } = &mut self.incoming
        else {
            return Ok(true);
        };
        let available = self.inbound.available();
        let count = available.len().min(*left);
        if count > 0 {
            let bytes = &available[..count];
            match destination {
                Destination::Request(_, data) => data.extend_from_slice(bytes),
                Destination::Data { transfer, .. } => transfer.fill_segment(|memory| {
                    if let Some(memory) = memory {
                        memory[..count].copy_from_slice(bytes);
                    }
                    (count, ())
                }),
                Destination::Nobody => {}
            }
            if self.digests.data {
                *digest = crc32c::crc32c_append(*digest, bytes);
            }
            *left -= count;
            self.inbound.consume(count);
        }
        let trailer = lengths.trailer(self.digests);
        if *left > 0 || self.inbound.available().len() < trailer {
            return Ok(false);
        }
        let (pad, expected) =
            self.inbound.available()[..trailer].split_at(padding(lengths.data_segment));
        let digest = crc32c::crc32c_append(*digest, pad);
        let intact = expected.len() != DIGEST_LENGTH || expected == digest.to_le_bytes();
        self.inbound.consume(trailer);
        let Incoming::Segment {
            header,
            destination,
            lengths,
            ..
        } = std::mem::replace(&mut self.incoming, Incoming::Headers)
        else {
            return Ok(true);
        };
        if !intact {
            // 7.8: send a Reject. At ErrorRecoveryLevel 0, recovery is a new session (7.1.5).
            self.push_reject(reject::DATA_DIGEST_ERROR, &header);
            return Err(End::Frame(FrameError::DataDigest));
        }
        match destination {
            Destination::Request(request, data) => self.receive_request(&header, request, data)?,
            Destination::Data {
                transfer,
                tag,
                unsolicited,
                last,
            } => {
                let length = lengths.data_segment as u32;
                Counters::add(
                    &self.registration.record.counters.data_out_bytes,
                    u64::from(length),
                );
                transfer.end_segment(length, unsolicited, last);
                if last {
                    let data = pdu::DataOut::decode(&header);
                    if !unsolicited && data.target_transfer_tag != RESERVED_TAG {
                        self.solicited.forget(data.target_transfer_tag);
                    }
                    self.end_sequence(tag);
                }
            }
            Destination::Nobody => {}
        }
        Ok(true)
    }
}
