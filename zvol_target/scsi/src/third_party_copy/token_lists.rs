// SPDX-License-Identifier: Apache-2.0
//! Parameter lists of POPULATE TOKEN and WRITE USING TOKEN (SBC-4 5.12, 5.59).

use super::{MAXIMUM_RANGES, MAXIMUM_TOKEN_TIMEOUT};
use crate::additional_sense::AdditionalSense;
use crate::sense::Sense;

/// Bytes of a ROD token, including its header.
pub(super) const TOKEN_BYTES: usize = 512;

/// Bytes before the range descriptors of POPULATE TOKEN.
const POPULATE_HEADER_BYTES: usize = 16;
/// Bytes before the range descriptors of WRITE USING TOKEN.
const WRITE_HEADER_BYTES: usize = 536;
const RANGE_DESCRIPTOR_BYTES: usize = 16;

/// Longest parameter list of both commands.
pub(super) const MAXIMUM_LIST_BYTES: usize =
    WRITE_HEADER_BYTES + MAXIMUM_RANGES * RANGE_DESCRIPTOR_BYTES;

/// Byte of the ROD token in the list of WRITE USING TOKEN.
const TOKEN_AT: usize = 16;
/// Byte of OFFSET INTO ROD.
pub(super) const OFFSET_AT: u16 = 8;

/// ROD TYPE: point in time copy - change vulnerable, the only type that is created.
pub(super) const CHANGE_VULNERABLE: u32 = 0x0080_0001;
/// ROD TYPE of the well-known token for any number of zeroes (SBC-4 4.28.4).
pub(super) const BLOCK_DEVICE_ZERO: u32 = 0xffff_0001;
/// ROD TYPE: point in time copy - any.
const ANY_POINT_IN_TIME: u32 = 0x0080_ffff;

const LENGTH_ERROR: Sense = Sense::illegal_request(AdditionalSense::PARAMETER_LIST_LENGTH_ERROR);

/// Block device range descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockRange {
    pub(super) address: u64,
    pub(super) blocks: u32,
}

/// Parameter list of POPULATE TOKEN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PopulateToken {
    /// INACTIVITY TIMEOUT in seconds; `None` for the default.
    pub(super) inactivity_timeout: Option<u32>,
    /// In the order of the ROD; no overlaps, no empty ranges.
    pub(super) ranges: Vec<BlockRange>,
}

/// Parameter list of WRITE USING TOKEN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WriteUsingToken {
    /// `DEL_TKN`
    pub(super) delete: bool,
    /// OFFSET INTO ROD, in blocks of the destination.
    pub(super) offset: u64,
    pub(super) token: Box<[u8; TOKEN_BYTES]>,
    /// In the order of writing; no overlaps, no empty ranges.
    pub(super) ranges: Vec<BlockRange>,
}

/// IMMED is not checked: the request is completed before the status, like a very fast background operation.
///
/// # Errors
/// PARAMETER LIST LENGTH ERROR, INVALID FIELD IN PARAMETER LIST, TOO MANY SEGMENT DESCRIPTORS.
pub(super) fn parse_populate_token(list: &[u8]) -> Result<PopulateToken, Sense> {
    const RTV: u8 = 0x02;
    let (header, _) = list
        .split_first_chunk::<POPULATE_HEADER_BYTES>()
        .ok_or(LENGTH_ERROR)?;
    let ranges = parse_ranges(list, POPULATE_HEADER_BYTES)?;
    let inactivity_timeout = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
    if inactivity_timeout > MAXIMUM_TOKEN_TIMEOUT {
        return Err(Sense::invalid_field_in_parameter_list(4, None));
    }
    let rod_type = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
    if header[2] & RTV != 0 && !matches!(rod_type, CHANGE_VULNERABLE | ANY_POINT_IN_TIME) {
        return Err(Sense::invalid_field_in_parameter_list(8, None));
    }
    Ok(PopulateToken {
        inactivity_timeout: (inactivity_timeout != 0).then_some(inactivity_timeout),
        ranges,
    })
}

/// # Errors
/// The errors of [`parse_populate_token`].
pub(super) fn parse_write_using_token(list: &[u8]) -> Result<WriteUsingToken, Sense> {
    const DEL_TKN: u8 = 0x02;
    let (header, _) = list
        .split_first_chunk::<WRITE_HEADER_BYTES>()
        .ok_or(LENGTH_ERROR)?;
    let ranges = parse_ranges(list, WRITE_HEADER_BYTES)?;
    let (offset, token) = (&header[8..TOKEN_AT], &header[TOKEN_AT..]);
    let token = token.first_chunk::<TOKEN_BYTES>().ok_or(LENGTH_ERROR)?;
    Ok(WriteUsingToken {
        delete: header[2] & DEL_TKN != 0,
        offset: offset.try_into().map_or(0, u64::from_be_bytes),
        token: Box::new(*token),
        ranges,
    })
}

/// Parses the range descriptors at `begin`, after their length. A partial last one is ignored, as the standard requires.
fn parse_ranges(list: &[u8], begin: usize) -> Result<Vec<BlockRange>, Sense> {
    let invalid = |byte: usize| Sense::invalid_field_in_parameter_list(byte as u16, None);
    let data_length = usize::from(u16::from_be_bytes([list[0], list[1]]));
    if data_length < begin - 2 + RANGE_DESCRIPTOR_BYTES {
        return Err(invalid(0));
    }
    let length = usize::from(u16::from_be_bytes([list[begin - 2], list[begin - 1]]));
    if length < RANGE_DESCRIPTOR_BYTES {
        return Err(invalid(begin - 2));
    }
    let (descriptors, _) = list[begin..].as_chunks_of(length);
    if descriptors.len() > MAXIMUM_RANGES {
        let code = AdditionalSense::TOO_MANY_SEGMENT_DESCRIPTORS;
        return Err(Sense {
            additional: code,
            ..invalid(begin)
        });
    }
    let ranges: Vec<_> = descriptors
        .iter()
        .map(|descriptor| BlockRange {
            address: descriptor[..8].try_into().map_or(0, u64::from_be_bytes),
            blocks: descriptor[8..12].try_into().map_or(0, u32::from_be_bytes),
        })
        .filter(|range| range.blocks > 0)
        .collect();
    let mut sorted = ranges.clone();
    sorted.sort_unstable_by_key(|range| range.address);
    let overlap = sorted
        .windows(2)
        .any(|pair| pair[1].address - pair[0].address < u64::from(pair[0].blocks));
    if overlap {
        return Err(invalid(begin));
    }
    Ok(ranges)
}

trait Chunks {
    /// Whole descriptors in the first `length` bytes, as far as available, and the rest.
    fn as_chunks_of(&self, length: usize) -> (Vec<&[u8]>, &[u8]);
}

impl Chunks for [u8] {
    fn as_chunks_of(&self, length: usize) -> (Vec<&[u8]>, &[u8]) {
        let present = self.get(..length).unwrap_or(self);
        let chunks = present.chunks_exact(RANGE_DESCRIPTOR_BYTES);
        let rest = chunks.remainder();
        (chunks.collect(), rest)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn populate(ranges: &[(u64, u32)]) -> Vec<u8> {
        let mut list = vec![0; POPULATE_HEADER_BYTES];
        for (address, blocks) in ranges {
            list.extend_from_slice(&address.to_be_bytes());
            list.extend_from_slice(&blocks.to_be_bytes());
            list.extend_from_slice(&[0; 4]);
        }
        let length = (list.len() - 2) as u16;
        list[..2].copy_from_slice(&length.to_be_bytes());
        let ranges = (list.len() - POPULATE_HEADER_BYTES) as u16;
        list[14..16].copy_from_slice(&ranges.to_be_bytes());
        list
    }

    fn code(list: &[u8]) -> (u8, u8) {
        let additional = parse_populate_token(list).unwrap_err().additional;
        (additional.code, additional.qualifier)
    }

    #[test]
    fn partial_and_empty_ranges_are_ignored() {
        let list = populate(&[(7, 8), (0, 0), (100, 1)]);
        let expected = [(7, 8), (100, 1)].map(|(address, blocks)| BlockRange { address, blocks });
        assert_eq!(parse_populate_token(&list).unwrap().ranges, expected);
        let cut = parse_populate_token(&list[..list.len() - 1]).unwrap();
        assert_eq!(cut.ranges, expected[..1]);
    }

    #[test]
    fn lists_that_the_standard_forbids_are_refused() {
        assert_eq!(code(&populate(&[(7, 8)])[..15]), (0x1a, 0));
        assert_eq!(code(&populate(&[])), (0x26, 0));
        assert_eq!(code(&populate(&[(7, 8), (14, 1)])), (0x26, 0));
        assert_eq!(code(&populate(&[(7, 8), (6, 2)])), (0x26, 0));
        let many: Vec<_> = (0..=MAXIMUM_RANGES as u64).map(|at| (at, 1)).collect();
        assert_eq!(code(&populate(&many)), (0x26, 0x08));
        let mut timeout = populate(&[(7, 8)]);
        timeout[4..8].copy_from_slice(&(MAXIMUM_TOKEN_TIMEOUT + 1).to_be_bytes());
        assert_eq!(code(&timeout), (0x26, 0));
        let mut rod_type = populate(&[(7, 8)]);
        rod_type[2] = 0x02;
        assert_eq!(code(&rod_type), (0x26, 0));
        rod_type[8..12].copy_from_slice(&CHANGE_VULNERABLE.to_be_bytes());
        parse_populate_token(&rod_type).unwrap();
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_bytes_are_lists_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..1700), plausible in any::<bool>()) {
            if plausible && bytes.len() > WRITE_HEADER_BYTES {
                bytes[0] = 0xff;
                bytes[14] = 1;
                bytes[534] = 1;
            }
            if let Ok(parsed) = parse_populate_token(&bytes) {
                prop_assert!(parsed.ranges.len() <= MAXIMUM_RANGES);
            }
            if let Ok(parsed) = parse_write_using_token(&bytes) {
                prop_assert!(parsed.ranges.len() <= MAXIMUM_RANGES);
            }
        }
    }
}
