// SPDX-License-Identifier: Apache-2.0
//! Segment descriptors of EXTENDED COPY(LID1) for copies between block devices (SPC-4 6.4.6).

use super::MAXIMUM_SEGMENT_DESCRIPTORS;
use super::parameter_list::{be_u32, be_u64, invalid, unsupported};
use crate::additional_sense::AdditionalSense;
use crate::sense::Sense;

/// DESCRIPTOR TYPE CODE: whole blocks.
pub(super) const BLOCK_TO_BLOCK: u8 = 0x02;
/// DESCRIPTOR TYPE CODE: bytes, with offsets in the first blocks.
pub(super) const BLOCK_TO_BLOCK_WITH_OFFSET: u8 = 0x0a;

pub(super) const LONGEST_SEGMENT_DESCRIPTOR_BYTES: usize = 32;

// Bytes of a segment descriptor, for field pointers.
pub(super) const SOURCE_ID_AT: u16 = 4;
pub(super) const DESTINATION_ID_AT: u16 = 6;
pub(super) const SOURCE_ADDRESS_AT: u16 = 12;
pub(super) const DESTINATION_ADDRESS_AT: u16 = 20;

/// A copy from block device to block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// SOURCE CSCD DESCRIPTOR ID.
    pub(super) source: u16,
    /// DESTINATION CSCD DESCRIPTOR ID.
    pub(super) destination: u16,
    pub(super) amount: Amount,
    /// SOURCE BLOCK DEVICE LOGICAL BLOCK ADDRESS.
    pub(super) source_address: u64,
    /// DESTINATION BLOCK DEVICE LOGICAL BLOCK ADDRESS.
    pub(super) destination_address: u64,
}

/// Length of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Amount {
    /// Of [`BLOCK_TO_BLOCK`].
    Blocks {
        /// BLOCK DEVICE NUMBER OF BLOCKS.
        blocks: u16,
        /// DC: the number counts blocks of the destination.
        of_destination: bool,
    },
    /// Of [`BLOCK_TO_BLOCK_WITH_OFFSET`].
    Bytes {
        /// NUMBER OF BYTES.
        bytes: u32,
        /// SOURCE BLOCK DEVICE BYTE OFFSET in the block at the address.
        source_offset: u16,
        /// DESTINATION BLOCK DEVICE BYTE OFFSET in the block at the address.
        destination_offset: u16,
    },
}

impl Amount {
    /// Byte of the number in the segment descriptor.
    pub(super) const fn at(self) -> u16 {
        match self {
            Self::Blocks { .. } => 10,
            Self::Bytes { .. } => 8,
        }
    }
}

/// Parses the descriptors of a list; the first one is at byte `begin`. Does not check reserved fields and CAT, which concerns
/// residual data that does not occur here.
///
/// # Errors
/// TOO MANY SEGMENT DESCRIPTORS, UNSUPPORTED SEGMENT DESCRIPTOR TYPE CODE, INVALID FIELD IN PARAMETER LIST, with a pointer to the field.
pub(super) fn parse(mut descriptors: &[u8], mut begin: usize) -> Result<Vec<Segment>, Sense> {
    let mut segments = Vec::new();
    while let Some(&code) = descriptors.first() {
        // A list has a few thousand bytes.
        let here = begin as u16;
        if segments.len() == MAXIMUM_SEGMENT_DESCRIPTORS {
            let code = AdditionalSense::TOO_MANY_SEGMENT_DESCRIPTORS;
            return Err(unsupported(code, here));
        }
        let length = match code {
            BLOCK_TO_BLOCK => 28,
            BLOCK_TO_BLOCK_WITH_OFFSET => 32,
            _ => {
                let code = AdditionalSense::UNSUPPORTED_SEGMENT_DESCRIPTOR_TYPE_CODE;
                return Err(unsupported(code, here));
            }
        };
        // DESCRIPTOR LENGTH: bytes after this field.
        let said = descriptors
            .get(2..4)
            .map(|field| be_u16(field, 0) as usize + 4);
        if said != Some(length) {
            return Err(invalid(here + 2, None));
        }
        // SEGMENT DESCRIPTOR LIST LENGTH ends inside a descriptor.
        let (descriptor, rest) = descriptors
            .split_at_checked(length)
            .ok_or(invalid(8, None))?;
        segments.push(segment(code, descriptor));
        descriptors = rest;
        begin += length;
    }
    Ok(segments)
}

/// Parses a descriptor with the length of its code.
fn segment(code: u8, descriptor: &[u8]) -> Segment {
    const DC: u8 = 0x02;
    let amount = if code == BLOCK_TO_BLOCK {
        Amount::Blocks {
            blocks: be_u16(descriptor, 10),
            of_destination: descriptor[1] & DC != 0,
        }
    } else {
        Amount::Bytes {
            bytes: be_u32(&descriptor[8..12]),
            source_offset: be_u16(descriptor, 28),
            destination_offset: be_u16(descriptor, 30),
        }
    };
    Segment {
        source: be_u16(descriptor, 4),
        destination: be_u16(descriptor, 6),
        amount,
        source_address: be_u64(&descriptor[12..20]),
        destination_address: be_u64(&descriptor[20..28]),
    }
}

fn be_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A descriptor of [`BLOCK_TO_BLOCK`].
    pub(crate) fn blocks(blocks: u16, from: u64, to: u64) -> Vec<u8> {
        let mut bytes = vec![0x02, 0x02, 0, 0x18, 0, 0, 0, 1, 0, 0];
        bytes.extend_from_slice(&blocks.to_be_bytes());
        bytes.extend_from_slice(&from.to_be_bytes());
        bytes.extend_from_slice(&to.to_be_bytes());
        bytes
    }

    /// A descriptor of [`BLOCK_TO_BLOCK_WITH_OFFSET`].
    pub(crate) fn bytes(number: u32, from: (u64, u16), to: (u64, u16)) -> Vec<u8> {
        let mut bytes = vec![0x0a, 0, 0, 0x1c, 0, 0, 0, 1];
        bytes.extend_from_slice(&number.to_be_bytes());
        bytes.extend_from_slice(&from.0.to_be_bytes());
        bytes.extend_from_slice(&to.0.to_be_bytes());
        bytes.extend_from_slice(&from.1.to_be_bytes());
        bytes.extend_from_slice(&to.1.to_be_bytes());
        bytes
    }

    fn code(descriptors: &[u8]) -> (u8, u8) {
        let additional = parse(descriptors, 48).unwrap_err().additional;
        (additional.code, additional.qualifier)
    }

    #[test]
    fn both_types_stand_side_by_side() {
        let list = [
            bytes(0x0102_0304, (5, 6), (7, 8)),
            blocks(9, 10, 11),
            bytes(0, (0, 0), (0, 0)),
        ];
        let segments = parse(&list.concat(), 48).unwrap();
        assert_eq!(segments.len(), 3);
        assert_eq!(
            segments[0],
            Segment {
                source: 0,
                destination: 1,
                amount: Amount::Bytes {
                    bytes: 0x0102_0304,
                    source_offset: 6,
                    destination_offset: 8,
                },
                source_address: 5,
                destination_address: 7,
            }
        );
        let whole = Amount::Blocks {
            blocks: 9,
            of_destination: true,
        };
        assert_eq!(segments[1].amount, whole);
    }

    #[test]
    fn other_types_lengths_and_ends_are_refused_where_they_stand() {
        for (whole, length) in [(blocks(1, 0, 0), 0x18), (bytes(1, (0, 0), (0, 0)), 0x1c_u8)] {
            for (byte, value, expected) in [
                (0, 0x03, (0x26, 0x09, 48)),
                (0, 0x09, (0x26, 0x09, 48)),
                (3, length ^ 4, (0x26, 0, 50)),
                (2, 1, (0x26, 0, 50)),
            ] {
                let mut changed = whole.clone();
                changed[byte] = value;
                let sense = parse(&changed, 48).unwrap_err();
                assert_eq!(code(&changed), (expected.0, expected.1));
                assert_eq!(sense.field, invalid(expected.2, None).field);
            }
            let cut = &whole[..whole.len() - 1];
            assert_eq!(parse(cut, 48).unwrap_err(), invalid(8, None));
        }
    }

    #[test]
    fn more_than_the_operating_parameters_say_are_refused() {
        let most = vec![bytes(1, (0, 0), (0, 0)); MAXIMUM_SEGMENT_DESCRIPTORS];
        parse(&most.concat(), 48).unwrap();
        let more = [most, vec![blocks(1, 0, 0)]].concat();
        assert_eq!(code(&more.concat()), (0x26, 0x08));
    }
}
