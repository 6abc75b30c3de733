// SPDX-License-Identifier: Apache-2.0
//! Bytes from a socket, in pieces of any size: headers, additional header segments, data segments, digests.
//!
//! Input: digests and kind (bit 0 header digest, bit 1 data digest, bit 2 valid PDUs), the longest data segment in units of 256
//! bytes, three lengths of pieces, and the stream. Valid PDUs consist of header, length of the additional headers, length of the
//! data segment, and both.

use iscsi::pdu::{self, Digests, FrameError, Header, InitiatorPdu, TargetPdu, decode, encode};

use crate::input::Input;

/// Header, additional headers and data of a PDU.
type Parts = (Header, Vec<u8>, Vec<u8>);

/// The PDUs at the front of a stream, and the error behind them.
type Decoded = (Vec<Parts>, Option<FrameError>);

/// Checks that the pieces do not affect the result, that encoded PDUs are decoded equally, and that a header that is encoded
/// again has the same meaning.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let kind = input.byte();
    let digests = Digests {
        header: kind & 1 != 0,
        data: kind & 2 != 0,
    };
    let limit = usize::from(input.byte()) << 8;
    let pieces = input.array::<3>();
    if kind & 4 == 0 {
        let stream = input.rest();
        let whole = take_all(stream, digests, limit);
        assert_eq!(in_pieces(stream, digests, limit, pieces), whole);
        whole.0.iter().for_each(check_parts);
        return;
    }
    let (mut sent, mut stream) = (Vec::new(), Vec::new());
    while !input.is_empty() {
        let mut header: Header = input.array();
        let words = usize::from(input.byte());
        let length = usize::from(input.half());
        let additional = whole_words(input.take(words * 4));
        let data = input.take(length.min(limit)).to_vec();
        stream.extend(encode(header, &additional, &data, digests));
        header[4] = (additional.len() / 4) as u8;
        pdu::set_data_segment_length(&mut header, data.len());
        sent.push((header, additional, data));
    }
    sent.iter().for_each(check_parts);
    assert_eq!(in_pieces(&stream, digests, limit, pieces), (sent, None));
}

pub(super) fn whole_words(bytes: &[u8]) -> Vec<u8> {
    bytes[..bytes.len() / 4 * 4].to_vec()
}

/// Decodes the PDUs from the front of `stream`.
fn take_all(stream: &[u8], digests: Digests, limit: usize) -> Decoded {
    let (mut taken, mut at) = (Vec::new(), 0);
    loop {
        match decode(&stream[at..], digests, limit) {
            Ok(Some(frame)) => {
                assert!(frame.data.len() <= limit && at + frame.length <= stream.len());
                at += frame.length;
                taken.push((
                    frame.header,
                    frame.additional_headers.to_vec(),
                    frame.data.to_vec(),
                ));
            }
            Ok(None) => return (taken, None),
            Err(error) => return (taken, Some(error)),
        }
    }
}

/// The same, with a stream that grows piece by piece.
fn in_pieces(stream: &[u8], digests: Digests, limit: usize, pieces: [u8; 3]) -> Decoded {
    let (mut taken, mut start, mut end) = (Vec::new(), 0, 0);
    let mut lengths = pieces.iter().cycle();
    loop {
        let (more, error) = take_all(&stream[start..end], digests, limit);
        for part in more {
            start += encode(part.0, &part.1, &part.2, digests).len();
            taken.push(part);
        }
        if error.is_some() || end == stream.len() {
            return (taken, error);
        }
        let piece = lengths.next().map_or(1, |&length| usize::from(length) + 1);
        end = stream.len().min(end + piece);
    }
}

fn check_parts((header, ..): &Parts) {
    if let Some(pdu) = InitiatorPdu::decode(header) {
        let encoded = match pdu {
            InitiatorPdu::NopOut(pdu) => pdu.encode(),
            InitiatorPdu::ScsiCommand(pdu) => pdu.encode(),
            InitiatorPdu::TaskManagementRequest(pdu) => pdu.encode(),
            InitiatorPdu::LoginRequest(pdu) => pdu.encode(),
            InitiatorPdu::TextRequest(pdu) => pdu.encode(),
            InitiatorPdu::DataOut(pdu) => pdu.encode(),
            InitiatorPdu::LogoutRequest(pdu) => pdu.encode(),
            InitiatorPdu::SnackRequest(pdu) => pdu.encode(),
        };
        assert_eq!(InitiatorPdu::decode(&encoded), Some(pdu));
    }
    if let Some(pdu) = TargetPdu::decode(header) {
        let encoded = match pdu {
            TargetPdu::NopIn(pdu) => pdu.encode(),
            TargetPdu::ScsiResponse(pdu) => pdu.encode(),
            TargetPdu::TaskManagementResponse(pdu) => pdu.encode(),
            TargetPdu::LoginResponse(pdu) => pdu.encode(),
            TargetPdu::TextResponse(pdu) => pdu.encode(),
            TargetPdu::DataIn(pdu) => pdu.encode(),
            TargetPdu::LogoutResponse(pdu) => pdu.encode(),
            TargetPdu::ReadyToTransfer(pdu) => pdu.encode(),
            TargetPdu::AsynchronousMessage(pdu) => pdu.encode(),
            TargetPdu::Reject(pdu) => pdu.encode(),
        };
        assert_eq!(TargetPdu::decode(&encoded), Some(pdu));
    }
}
