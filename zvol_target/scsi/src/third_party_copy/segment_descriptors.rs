// SPDX-License-Identifier: Apache-2.0
//! Segment descriptors of EXTENDED COPY(LID1): block device to block device (SPC-4 6.4.6.3), which is all that hosts send.

use super::MAXIMUM_SEGMENT_DESCRIPTORS;
use super::parameter_list::{be_u64, invalid, unsupported};
use crate::additional_sense::AdditionalSense;
use crate::sense::Sense;

/// DESCRIPTOR TYPE CODE.
pub(super) const BLOCK_TO_BLOCK: u8 = 0x02;

pub(super) const SEGMENT_DESCRIPTOR_BYTES: usize = 28;

// Bytes of a segment descriptor, for field pointers.
pub(super) const SOURCE_ID_AT: u16 = 4;
pub(super) const DESTINATION_ID_AT: u16 = 6;
pub(super) const NUMBER_OF_BLOCKS_AT: u16 = 10;
pub(super) const SOURCE_ADDRESS_AT: u16 = 12;
pub(super) const DESTINATION_ADDRESS_AT: u16 = 20;

/// A copy from block device to block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// SOURCE CSCD DESCRIPTOR ID.
    pub(super) source: u16,
    /// DESTINATION CSCD DESCRIPTOR ID.
    pub(super) destination: u16,
    /// BLOCK DEVICE NUMBER OF BLOCKS.
    pub(super) blocks: u16,
    /// SOURCE BLOCK DEVICE LOGICAL BLOCK ADDRESS.
    pub(super) source_address: u64,
    /// DESTINATION BLOCK DEVICE LOGICAL BLOCK ADDRESS.
    pub(super) destination_address: u64,
}

/// Parses the descriptors of a list; the first one is at byte `begin`. Does not check reserved fields, CAT (residual data
/// does not occur here) and DC (all logical blocks are equally long).
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
        if code != BLOCK_TO_BLOCK {
            let code = AdditionalSense::UNSUPPORTED_SEGMENT_DESCRIPTOR_TYPE_CODE;
            return Err(unsupported(code, here));
        }
        // DESCRIPTOR LENGTH: bytes after this field.
        let said = descriptors
            .get(2..4)
            .map(|field| be_u16(field, 0) as usize + 4);
        if said != Some(SEGMENT_DESCRIPTOR_BYTES) {
            return Err(invalid(here + 2, None));
        }
        // SEGMENT DESCRIPTOR LIST LENGTH ends inside a descriptor.
        let (descriptor, rest) = descriptors
            .split_at_checked(SEGMENT_DESCRIPTOR_BYTES)
            .ok_or(invalid(8, None))?;
        segments.push(segment(descriptor));
        descriptors = rest;
        begin += SEGMENT_DESCRIPTOR_BYTES;
    }
    Ok(segments)
}

/// Parses a whole descriptor.
fn segment(descriptor: &[u8]) -> Segment {
    Segment {
        source: be_u16(descriptor, 4),
        destination: be_u16(descriptor, 6),
        blocks: be_u16(descriptor, 10),
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

    fn code(descriptors: &[u8]) -> (u8, u8) {
        let additional = parse(descriptors, 48).unwrap_err().additional;
        (additional.code, additional.qualifier)
    }

    #[test]
    fn a_list_is_parsed_in_order() {
        let segments = parse(&[blocks(9, 10, 11), blocks(0, 0, 0)].concat(), 48).unwrap();
        let first = Segment {
            source: 0,
            destination: 1,
            blocks: 9,
            source_address: 10,
            destination_address: 11,
        };
        assert_eq!((segments.len(), segments[0]), (2, first));
    }

    #[test]
    fn other_types_lengths_and_ends_are_refused_where_they_stand() {
        let whole = blocks(1, 0, 0);
        for (byte, value, expected) in [
            (0, 0x03, (0x26, 0x09, 48)),
            // Of bytes.
            (0, 0x0a, (0x26, 0x09, 48)),
            (3, 0x1c, (0x26, 0, 50)),
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

    #[test]
    fn more_than_the_operating_parameters_say_are_refused() {
        let most = vec![blocks(1, 0, 0); MAXIMUM_SEGMENT_DESCRIPTORS];
        parse(&most.concat(), 48).unwrap();
        let more = [most, vec![blocks(1, 0, 0)]].concat();
        assert_eq!(code(&more.concat()), (0x26, 0x08));
    }
}
