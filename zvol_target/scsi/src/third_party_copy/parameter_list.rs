// SPDX-License-Identifier: Apache-2.0
//! The parameter list of EXTENDED COPY(LID1) (SPC-4 6.4.3 to 6.4.5, 6.5).

use super::segment_descriptors::{self, SEGMENT_DESCRIPTOR_BYTES, Segment};
use super::{MAXIMUM_CSCD_DESCRIPTORS, MAXIMUM_SEGMENT_DESCRIPTORS};
use crate::additional_sense::AdditionalSense;
use crate::sense::Sense;

/// Bytes before the first CSCD descriptor.
const HEADER_BYTES: usize = 16;
/// Bytes of an Identification Descriptor CSCD descriptor.
pub(super) const CSCD_DESCRIPTOR_BYTES: usize = 32;

/// MAXIMUM DESCRIPTOR LIST LENGTH: all descriptors of a list.
pub(super) const MAXIMUM_DESCRIPTOR_LIST_BYTES: usize = MAXIMUM_CSCD_DESCRIPTORS
    * CSCD_DESCRIPTOR_BYTES
    + MAXIMUM_SEGMENT_DESCRIPTORS * SEGMENT_DESCRIPTOR_BYTES;

/// Longest parameter list.
pub(super) const MAXIMUM_LIST_BYTES: usize = HEADER_BYTES + MAXIMUM_DESCRIPTOR_LIST_BYTES;

/// DESCRIPTOR TYPE CODE of the only supported CSCD descriptor.
pub(super) const IDENTIFICATION_DESCRIPTOR: u8 = 0xe4;

pub(super) const LENGTH_ERROR: Sense =
    Sense::illegal_request(AdditionalSense::PARAMETER_LIST_LENGTH_ERROR);

/// A parameter list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ParameterList {
    /// LIST IDENTIFIER; `None` with LIST ID USAGE 11b.
    pub(super) list_identifier: Option<u8>,
    /// By CSCD descriptor ID.
    pub(super) cscds: Vec<Cscd>,
    /// In the order of copying.
    pub(super) segments: Vec<Segment>,
}

/// A copy source or copy destination: an Identification Descriptor CSCD descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cscd {
    /// First byte of the descriptor in the list, for field pointers.
    pub(super) at: u16,
    /// PERIPHERAL DEVICE TYPE.
    pub(super) peripheral_device_type: u8,
    /// CODE SET, of a designation descriptor.
    pub(super) code_set: u8,
    /// DESIGNATOR TYPE.
    pub(super) designator_type: u8,
    /// DESIGNATOR, at most 20 bytes.
    pub(super) designator: Vec<u8>,
    /// DISK BLOCK LENGTH; `None` if the copy manager must determine it.
    pub(super) block_bytes: Option<u32>,
}

/// Parses a list. Does not check reserved and obsolete fields, the hints STR and PRIORITY, and the relative initiator port, as
/// every unit is in the device of the copy manager.
///
/// # Errors
/// PARAMETER LIST LENGTH ERROR, TOO MANY TARGET DESCRIPTORS, TOO MANY SEGMENT DESCRIPTORS, UNSUPPORTED TARGET DESCRIPTOR TYPE
/// CODE, UNSUPPORTED SEGMENT DESCRIPTOR TYPE CODE, INVALID FIELD IN PARAMETER LIST; with a pointer to the field, if there is one.
pub(super) fn parse(list: &[u8]) -> Result<ParameterList, Sense> {
    let (header, rest) = list
        .split_first_chunk::<HEADER_BYTES>()
        .ok_or(LENGTH_ERROR)?;
    let cscd_bytes = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let segment_bytes = be_u32(&header[8..12]) as usize;
    let inline_bytes = be_u32(&header[12..]);
    // Only unsupported segment descriptors use inline data: its limit is zero bytes.
    if segment_bytes > MAXIMUM_DESCRIPTOR_LIST_BYTES
        || cscd_bytes + segment_bytes > MAXIMUM_DESCRIPTOR_LIST_BYTES
        || inline_bytes != 0
    {
        return Err(LENGTH_ERROR);
    }
    let list_identifier = match (header[1] >> 3) & 0b11 {
        0b00 | 0b10 => Some(header[0]),
        0b11 if header[0] == 0 => None,
        0b11 => return Err(invalid(0, None)),
        _ => return Err(invalid(1, Some(4))),
    };
    let cscds = rest.get(..cscd_bytes).ok_or(LENGTH_ERROR)?;
    let segments = rest
        .get(cscd_bytes..cscd_bytes + segment_bytes)
        .ok_or(LENGTH_ERROR)?;
    Ok(ParameterList {
        list_identifier,
        cscds: parse_cscds(cscds)?,
        segments: segment_descriptors::parse(segments, HEADER_BYTES + cscd_bytes)?,
    })
}

fn parse_cscds(descriptors: &[u8]) -> Result<Vec<Cscd>, Sense> {
    if descriptors.len() > MAXIMUM_CSCD_DESCRIPTORS * CSCD_DESCRIPTOR_BYTES {
        return Err(unsupported(AdditionalSense::TOO_MANY_TARGET_DESCRIPTORS, 2));
    }
    let chunks = descriptors.chunks(CSCD_DESCRIPTOR_BYTES);
    chunks
        .enumerate()
        .map(|(index, descriptor)| {
            parse_cscd(descriptor, HEADER_BYTES + index * CSCD_DESCRIPTOR_BYTES)
        })
        .collect()
}

fn parse_cscd(descriptor: &[u8], begin: usize) -> Result<Cscd, Sense> {
    const LOGICAL_UNIT: u8 = 0;
    // A list has a few thousand bytes.
    let begin = begin as u16;
    if descriptor.first() != Some(&IDENTIFICATION_DESCRIPTOR) {
        let code = AdditionalSense::UNSUPPORTED_TARGET_DESCRIPTOR_TYPE_CODE;
        return Err(unsupported(code, begin));
    }
    // CSCD descriptors have a multiple of 32 bytes: CSCD DESCRIPTOR LIST LENGTH is wrong.
    let descriptor: &[u8; CSCD_DESCRIPTOR_BYTES] =
        descriptor.try_into().map_err(|_| invalid(2, None))?;
    let length = usize::from(descriptor[7]);
    if (descriptor[5] >> 4) & 0b11 != LOGICAL_UNIT {
        return Err(invalid(begin + 5, Some(5)));
    }
    let designator = descriptor[8..28]
        .get(..length)
        .filter(|designator| !designator.is_empty())
        .ok_or(invalid(begin + 7, None))?;
    let block_bytes = be_u32(&[0, descriptor[29], descriptor[30], descriptor[31]]);
    Ok(Cscd {
        at: begin,
        peripheral_device_type: descriptor[1] & 0x1f,
        code_set: descriptor[4] & 0x0f,
        designator_type: descriptor[5] & 0x0f,
        designator: designator.to_vec(),
        block_bytes: (block_bytes != 0).then_some(block_bytes),
    })
}

pub(super) fn invalid(byte: u16, bit: Option<u8>) -> Sense {
    Sense::invalid_field_in_parameter_list(byte, bit)
}

/// Sense data for another error in the field that begins at `byte`.
pub(super) fn unsupported(additional: AdditionalSense, byte: u16) -> Sense {
    Sense {
        additional,
        ..invalid(byte, None)
    }
}

pub(super) fn be_u32(bytes: &[u8]) -> u32 {
    bytes.try_into().map_or(0, u32::from_be_bytes)
}

pub(super) fn be_u64(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::segment_descriptors::tests::blocks as segment_bytes;
    use super::*;

    const NAA: [u8; 16] = *b"\x60\x25\xa5\x63\x2a\xb1\x37\x08\x70\x7b\x10\x4a\x70\x30\x7e\x07";

    fn cscd_bytes(block_bytes: u32) -> Vec<u8> {
        let [_, high, middle, low] = block_bytes.to_be_bytes();
        let mut bytes = vec![0xe4, 0, 0, 0, 1, 3, 0, 16];
        bytes.extend_from_slice(&NAA);
        bytes.extend_from_slice(&[0, 0, 0, 0, 0, high, middle, low]);
        bytes
    }

    fn list(identifier: u8, usage: u8, cscds: &[Vec<u8>], segments: &[Vec<u8>]) -> Vec<u8> {
        let (cscds, segments) = (cscds.concat(), segments.concat());
        let mut bytes = vec![identifier, usage << 3];
        bytes.extend_from_slice(&(cscds.len() as u16).to_be_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&(segments.len() as u32).to_be_bytes());
        bytes.extend_from_slice(&[0; 4]);
        [bytes, cscds, segments].concat()
    }

    fn code(list: &[u8]) -> (u8, u8) {
        let additional = parse(list).unwrap_err().additional;
        (additional.code, additional.qualifier)
    }

    #[test]
    fn list_of_qemu() {
        let cscds = [cscd_bytes(512), cscd_bytes(512)];
        let parsed = parse(&list(1, 0b10, &cscds, &[segment_bytes(65535, 7, 9)])).unwrap();
        assert_eq!(parsed.list_identifier, Some(1));
        assert_eq!(parsed.cscds.len(), 2);
        assert_eq!(
            (parsed.cscds[1].at, &parsed.cscds[1].designator[..]),
            (48, &NAA[..])
        );
        assert_eq!(
            parsed.segments,
            [Segment {
                source: 0,
                destination: 1,
                blocks: 65535,
                source_address: 7,
                destination_address: 9
            }]
        );
    }

    #[test]
    fn list_of_esxi_has_no_identifier() {
        let cscds = [cscd_bytes(0)];
        let parsed = parse(&list(0, 0b11, &cscds, &[])).unwrap();
        assert_eq!(
            (parsed.list_identifier, parsed.cscds[0].block_bytes),
            (None, None)
        );
        assert_eq!(
            parse(&list(1, 0b11, &cscds, &[])).unwrap_err(),
            invalid(0, None)
        );
        assert_eq!(
            parse(&list(0, 0b01, &cscds, &[])).unwrap_err(),
            invalid(1, Some(4))
        );
    }

    #[test]
    fn more_than_the_operating_parameters_say_is_refused() {
        let most_cscds = vec![cscd_bytes(512); MAXIMUM_CSCD_DESCRIPTORS];
        let most_segments = vec![segment_bytes(1, 0, 0); MAXIMUM_SEGMENT_DESCRIPTORS];
        let largest = list(1, 0, &most_cscds, &most_segments);
        assert_eq!(largest.len(), MAXIMUM_LIST_BYTES);
        parse(&largest).unwrap();
        let cscds = vec![cscd_bytes(512); MAXIMUM_CSCD_DESCRIPTORS + 1];
        let segments = vec![segment_bytes(1, 0, 0); MAXIMUM_SEGMENT_DESCRIPTORS + 1];
        assert_eq!(code(&list(1, 0, &cscds, &most_segments[..1])), (0x26, 0x06));
        assert_eq!(code(&list(1, 0, &most_cscds[..1], &segments)), (0x26, 0x08));
        assert_eq!(code(&list(1, 0, &cscds, &segments)), (0x1a, 0));
        let mut inline = largest;
        inline[15] = 1;
        assert_eq!(code(&inline), (0x1a, 0));
    }

    #[test]
    fn descriptors_of_other_types_and_forms_are_refused_where_they_stand() {
        let (cscd, segment) = (cscd_bytes(512), segment_bytes(1, 0, 0));
        let with = |cscd: &[u8], segment: &[u8]| {
            parse(&list(1, 0, &[cscd.to_vec()], &[segment.to_vec()])).unwrap_err()
        };
        for (byte, value, expected) in [
            (0, 0xe0, (0x26, 0x07, 16)),
            (5, 0x13, (0x26, 0, 21)),
            (7, 0, (0x26, 0, 23)),
            (7, 21, (0x26, 0, 23)),
        ] {
            let mut changed = cscd.clone();
            changed[byte] = value;
            let Sense { additional, .. } = with(&changed, &segment);
            assert_eq!(
                (additional.code, additional.qualifier),
                (expected.0, expected.1)
            );
            let pointer = invalid(expected.2, (byte == 5).then_some(5));
            assert_eq!(with(&changed, &segment).field, pointer.field);
        }
        assert_eq!(with(&cscd[..31], &segment), invalid(2, None));
        assert_eq!(with(&cscd, &segment[..27]), invalid(8, None));
    }

    #[test]
    fn a_truncated_list_is_too_short_at_every_length() {
        let whole = list(1, 0, &[cscd_bytes(512)], &[segment_bytes(1, 0, 0)]);
        for length in 0..whole.len() {
            assert_eq!(code(&whole[..length]), (0x1a, 0), "{length}");
        }
        parse(&whole).unwrap();
        parse(&[whole, vec![0; 9]].concat()).unwrap();
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_bytes_are_a_list_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn a_list_with_noise_stays_within_its_bounds(
            cscds in 0_usize..20,
            segments in 0_usize..70,
            usage in 0_u8..4,
            noise in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        ) {
            let segments = vec![segment_bytes(9, 1, 2); segments];
            let mut bytes = list(0, usage, &vec![cscd_bytes(512); cscds], &segments);
            for (at, value) in noise {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            if let Ok(parsed) = parse(&bytes) {
                prop_assert!(parsed.cscds.len() <= MAXIMUM_CSCD_DESCRIPTORS);
                prop_assert!(parsed.segments.len() <= MAXIMUM_SEGMENT_DESCRIPTORS);
                prop_assert!(parsed.cscds.iter().all(|cscd| (1..=20).contains(&cscd.designator.len())));
            }
        }
    }
}
