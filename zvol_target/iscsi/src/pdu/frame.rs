// SPDX-License-Identifier: Apache-2.0
//! Encodes and decodes PDUs: lengths, padding, digests (RFC 7143 11.2).

use super::layout::{BHS_LENGTH, Header};

/// Length of a header or data digest (11.2.3).
pub const DIGEST_LENGTH: usize = 4;

/// Most bytes in front of a data segment: BHS, all AHSs (`TotalAHSLength` is one byte, in words), header digest.
pub const HEADERS_LENGTH_MAX: usize = BHS_LENGTH + 255 * 4 + DIGEST_LENGTH;

/// Which digests a connection uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digests {
    /// CRC32C over BHS and AHSs.
    pub header: bool,
    /// CRC32C over data segment and padding.
    pub data: bool,
}

/// The length fields of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// All Additional Header Segments, bytes.
    pub additional_headers: usize,
    /// Data segment without padding, bytes.
    pub data_segment: usize,
}

/// Why bytes are not a valid PDU. The connection must be closed: the begin of the next PDU is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// `DataSegmentLength` is above what the receiver declared.
    #[error("data segment of {length} bytes, at most {limit} were allowed")]
    DataSegmentTooLong {
        /// `DataSegmentLength`.
        length: usize,
        /// `MaxRecvDataSegmentLength`.
        limit: usize,
    },
    /// The header digest is wrong.
    #[error("header digest error")]
    HeaderDigest,
    /// The data digest is wrong.
    #[error("data digest error")]
    DataDigest,
}

/// Padding after a data segment of `length` bytes (11.2.4).
pub const fn padding(length: usize) -> usize {
    length.wrapping_neg() & 3
}

impl Lengths {
    /// Parses the length fields.
    pub fn of(header: &Header) -> Self {
        Self {
            additional_headers: usize::from(header[4]) * 4,
            data_segment: u32::from_be_bytes([0, header[5], header[6], header[7]]) as usize,
        }
    }

    /// BHS, AHSs and header digest, bytes.
    pub fn headers(self, digests: Digests) -> usize {
        BHS_LENGTH + self.additional_headers + if digests.header { DIGEST_LENGTH } else { 0 }
    }

    /// Padding and data digest, bytes.
    pub fn trailer(self, digests: Digests) -> usize {
        let digest = digests.data && self.data_segment > 0;
        padding(self.data_segment) + if digest { DIGEST_LENGTH } else { 0 }
    }
}

/// Sets `DataSegmentLength` in a header. Our PDUs have at most 16 MiB - 1.
pub fn set_data_segment_length(header: &mut Header, length: usize) {
    let [_, high, middle, low] = (length as u32).to_be_bytes();
    header[5..8].copy_from_slice(&[high, middle, low]);
}

/// Encodes a PDU: `header` with its length fields, AHSs, data segment, padding, digests.
///
/// `additional_headers` is cut to whole words.
pub fn encode(
    mut header: Header,
    additional_headers: &[u8],
    data: &[u8],
    digests: Digests,
) -> Vec<u8> {
    let words = (additional_headers.len() / 4).min(255);
    header[4] = words as u8;
    set_data_segment_length(&mut header, data.len());
    let mut bytes = Vec::with_capacity(HEADERS_LENGTH_MAX + data.len() + 8);
    bytes.extend_from_slice(&header);
    bytes.extend_from_slice(&additional_headers[..words * 4]);
    if digests.header {
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    }
    let start = bytes.len();
    bytes.extend_from_slice(data);
    bytes.resize(bytes.len() + padding(data.len()), 0);
    if digests.data && !data.is_empty() {
        bytes.extend_from_slice(&crc32c::crc32c(&bytes[start..]).to_le_bytes());
    }
    bytes
}

/// A whole PDU in a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Basic Header Segment.
    pub header: Header,
    /// Additional Header Segments, not parsed.
    pub additional_headers: &'a [u8],
    /// Data segment without padding.
    pub data: &'a [u8],
    /// Length of the PDU in the buffer, bytes.
    pub length: usize,
}

/// Basic Header Segment, Additional Header Segments, and their length fields.
pub type Headers<'a> = (Header, &'a [u8], Lengths);

/// Splits the headers off `bytes` and checks them; `None` if the bytes do not suffice yet.
///
/// # Errors
/// [`FrameError`]. It checks the length of the data segment against `data_segment_limit`, before memory is allocated for it.
pub fn decode_headers(
    bytes: &[u8],
    digests: Digests,
    data_segment_limit: usize,
) -> Result<Option<Headers<'_>>, FrameError> {
    let Some(header) = bytes.first_chunk::<BHS_LENGTH>() else {
        return Ok(None);
    };
    let lengths = Lengths::of(header);
    let covered = BHS_LENGTH + lengths.additional_headers;
    let Some(headers) = bytes.get(..lengths.headers(digests)) else {
        return Ok(None);
    };
    let (covered, digest) = headers.split_at(covered);
    if digests.header && digest != crc32c::crc32c(covered).to_le_bytes() {
        return Err(FrameError::HeaderDigest);
    }
    if lengths.data_segment > data_segment_limit {
        return Err(FrameError::DataSegmentTooLong {
            length: lengths.data_segment,
            limit: data_segment_limit,
        });
    }
    Ok(Some((*header, &covered[BHS_LENGTH..], lengths)))
}

/// Splits one whole PDU off `bytes`; `None` if it is not complete yet.
///
/// # Errors
/// [`FrameError`].
pub fn decode(
    bytes: &[u8],
    digests: Digests,
    data_segment_limit: usize,
) -> Result<Option<Frame<'_>>, FrameError> {
    let Some((header, additional_headers, lengths)) =
        decode_headers(bytes, digests, data_segment_limit)?
    else {
        return Ok(None);
    };
    let start = lengths.headers(digests);
    let covered = lengths.data_segment + padding(lengths.data_segment);
    let length = start + lengths.data_segment + lengths.trailer(digests);
    let Some(segment) = bytes.get(start..length) else {
        return Ok(None);
    };
    let (covered, digest) = segment.split_at(covered);
    if !digest.is_empty() && digest != crc32c::crc32c(covered).to_le_bytes() {
        return Err(FrameError::DataDigest);
    }
    Ok(Some(Frame {
        header,
        additional_headers,
        data: &covered[..lengths.data_segment],
        length,
    }))
}
