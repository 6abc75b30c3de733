// SPDX-License-Identifier: Apache-2.0
//! Sense data (SPC-5 4.4).

use crate::additional_sense::AdditionalSense;
use crate::sam::Status;

/// Sense key (SPC-5 4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum SenseKey {
    NoSense = 0x0,
    NotReady = 0x2,
    MediumError = 0x3,
    HardwareError = 0x4,
    IllegalRequest = 0x5,
    UnitAttention = 0x6,
    DataProtect = 0x7,
    CopyAborted = 0xa,
    AbortedCommand = 0xb,
    Miscompare = 0xe,
}

/// Format of sense data, chosen by `D_SENSE` in the Control mode page or DESC in REQUEST SENSE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SenseFormat {
    /// Response code 70h.
    Fixed,
    /// Response code 72h.
    Descriptor,
}

impl SenseFormat {
    pub(crate) fn from_bit(descriptor: bool) -> Self {
        if descriptor {
            Self::Descriptor
        } else {
            Self::Fixed
        }
    }
}

/// Position of an invalid field: the sense-key specific data of ILLEGAL REQUEST (SPC-5 4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FieldPointer {
    in_cdb: bool,
    byte: u16,
    bit: Option<u8>,
}

impl FieldPointer {
    fn to_bytes(self) -> [u8; 3] {
        const SKSV: u8 = 0x80;
        const CDB: u8 = 0x40;
        const BPV: u8 = 0x08;
        let [high, low] = self.byte.to_be_bytes();
        let flags =
            SKSV | if self.in_cdb { CDB } else { 0 } | self.bit.map_or(0, |bit| BPV | (bit & 7));
        [flags, high, low]
    }
}

/// Sense data of a copy that ended at a segment (SPC-4 5.17.7.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentFailure {
    /// Number of the segment descriptor, from zero.
    pub(crate) segment: u16,
    /// Byte in error.
    pub(crate) pointer: SegmentPointer,
    /// Status of a copy source or copy destination.
    pub(crate) forwarded: Option<Forwarded>,
}

/// Position of the byte in error: the sense-key specific data of COPY ABORTED (SPC-4 4.5.2.4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentPointer {
    /// Counted from the beginning of the parameter list.
    ParameterList(u16),
    /// Counted from the beginning of the segment descriptor.
    Segment(u16),
}

impl SegmentPointer {
    fn to_bytes(self) -> [u8; 3] {
        const SKSV: u8 = 0x80;
        const SD: u8 = 0x20;
        let (flags, byte) = match self {
            Self::ParameterList(byte) => (SKSV, byte),
            Self::Segment(byte) => (SKSV | SD, byte),
        };
        let [high, low] = byte.to_be_bytes();
        [flags, high, low]
    }
}

/// Copy source or copy destination, as SOURCE of a forwarded sense data descriptor encodes it (SPC-4 4.5.2.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum CopyEndRole {
    Source = 1,
    Destination = 2,
}

/// Status and sense data of a copy source or copy destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Forwarded {
    pub(crate) from: CopyEndRole,
    pub(crate) status: Status,
    /// Sense key, additional sense code and INFORMATION; for CHECK CONDITION.
    pub(crate) sense: Option<(SenseKey, AdditionalSense, Option<u64>)>,
}

impl Forwarded {
    /// Status byte and sense data of the copy source or destination: in fixed format, or empty.
    fn to_bytes(self) -> Vec<u8> {
        let mut bytes = vec![self.status as u8];
        if let Some((key, additional, information)) = self.sense {
            let sense = Sense {
                information,
                ..Sense::new(key, additional)
            };
            bytes.extend_from_slice(&sense.fixed());
        }
        bytes
    }
}

/// A sense condition, independent of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sense {
    pub(crate) key: SenseKey,
    pub(crate) additional: AdditionalSense,
    pub(crate) information: Option<u64>,
    pub(crate) field: Option<FieldPointer>,
    /// For COPY ABORTED, instead of `field`.
    pub(crate) segment: Option<SegmentFailure>,
}

impl Sense {
    pub(crate) const fn new(key: SenseKey, additional: AdditionalSense) -> Self {
        Self {
            key,
            additional,
            information: None,
            field: None,
            segment: None,
        }
    }

    pub(crate) const fn illegal_request(additional: AdditionalSense) -> Self {
        Self::new(SenseKey::IllegalRequest, additional)
    }

    /// INVALID FIELD IN CDB; the field is the whole `byte`, or starts at `bit`.
    pub(crate) const fn invalid_field_in_cdb(byte: u16, bit: Option<u8>) -> Self {
        let mut sense = Self::illegal_request(AdditionalSense::INVALID_FIELD_IN_CDB);
        sense.field = Some(FieldPointer {
            in_cdb: true,
            byte,
            bit,
        });
        sense
    }

    /// INVALID FIELD IN PARAMETER LIST, with a pointer into the Data-Out.
    pub(crate) const fn invalid_field_in_parameter_list(byte: u16, bit: Option<u8>) -> Self {
        let mut sense = Self::illegal_request(AdditionalSense::INVALID_FIELD_IN_PARAMETER_LIST);
        sense.field = Some(FieldPointer {
            in_cdb: false,
            byte,
            bit,
        });
        sense
    }

    /// LOGICAL BLOCK ADDRESS OUT OF RANGE; INFORMATION is the first address that does not exist.
    pub(crate) const fn address_out_of_range(first: u64) -> Self {
        let mut sense = Self::illegal_request(AdditionalSense::LOGICAL_BLOCK_ADDRESS_OUT_OF_RANGE);
        sense.information = Some(first);
        sense
    }

    /// Encodes the sense data: at most 72 bytes.
    pub(crate) fn to_bytes(self, format: SenseFormat) -> Vec<u8> {
        match format {
            SenseFormat::Fixed => self.fixed_with_forwarded(),
            SenseFormat::Descriptor => self.descriptors(),
        }
    }

    /// Fixed format with the sense data of a copy source or destination behind it; COMMAND-SPECIFIC INFORMATION has its position
    /// (SPC-4 5.17.7.4).
    fn fixed_with_forwarded(self) -> Vec<u8> {
        let mut data = self.fixed().to_vec();
        let Some(SegmentFailure {
            segment,
            pointer,
            forwarded,
        }) = self.segment
        else {
            return data;
        };
        data[10..12].copy_from_slice(&segment.to_be_bytes());
        data[15..18].copy_from_slice(&pointer.to_bytes());
        if let Some(forwarded) = forwarded {
            let offset_at = match forwarded.from {
                CopyEndRole::Source => 8,
                CopyEndRole::Destination => 9,
            };
            // After 18 bytes.
            data[offset_at] = data.len() as u8;
            data.extend_from_slice(&forwarded.to_bytes());
            data[7] = (data.len() - 8) as u8;
        }
        data
    }

    /// Fixed format (SPC-5 4.4). An INFORMATION of more than four bytes is omitted, with VALID = 0.
    fn fixed(self) -> [u8; 18] {
        const RESPONSE_CODE: u8 = 0x70;
        const VALID: u8 = 0x80;
        let mut data = [0; 18];
        data[0] = RESPONSE_CODE;
        data[2] = self.key as u8;
        if let Some(Ok(information)) = self.information.map(u32::try_from) {
            data[0] |= VALID;
            data[3..7].copy_from_slice(&information.to_be_bytes());
        }
        data[7] = 10;
        data[12] = self.additional.code;
        data[13] = self.additional.qualifier;
        if let Some(field) = self.field {
            data[15..18].copy_from_slice(&field.to_bytes());
        }
        data
    }

    /// Descriptor format (SPC-5 4.4).
    fn descriptors(self) -> Vec<u8> {
        const RESPONSE_CODE: u8 = 0x72;
        const INFORMATION: u8 = 0x00;
        const COMMAND_SPECIFIC_INFORMATION: u8 = 0x01;
        const SENSE_KEY_SPECIFIC: u8 = 0x02;
        const FORWARDED_SENSE_DATA: u8 = 0x0c;
        const VALID: u8 = 0x80;
        let mut data = vec![
            RESPONSE_CODE,
            self.key as u8,
            self.additional.code,
            self.additional.qualifier,
            0,
            0,
            0,
            0,
        ];
        if let Some(information) = self.information {
            data.extend_from_slice(&[INFORMATION, 0x0a, VALID, 0]);
            data.extend_from_slice(&information.to_be_bytes());
        }
        if let Some(field) = self.field {
            let [flags, high, low] = field.to_bytes();
            data.extend_from_slice(&[SENSE_KEY_SPECIFIC, 0x06, 0, 0, flags, high, low, 0]);
        }
        if let Some(failure) = self.segment {
            let [high, low] = failure.segment.to_be_bytes();
            let information = [COMMAND_SPECIFIC_INFORMATION, 0x0a, 0, 0];
            data.extend_from_slice(&information);
            data.extend_from_slice(&[0, 0, high, low, 0, 0, 0, 0]);
            let [flags, high, low] = failure.pointer.to_bytes();
            data.extend_from_slice(&[SENSE_KEY_SPECIFIC, 0x06, 0, 0, flags, high, low, 0]);
            if let Some(forwarded) = failure.forwarded {
                let mut bytes = forwarded.to_bytes();
                // Pad the descriptor to a multiple of four.
                bytes.resize((bytes.len() + 3).next_multiple_of(4) - 3, 0);
                let length = bytes.len() as u8 + 1;
                data.extend_from_slice(&[FORWARDED_SENSE_DATA, length, forwarded.from as u8]);
                data.extend_from_slice(&bytes);
            }
        }
        data[7] = (data.len() - 8) as u8;
        data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_format_carries_key_code_and_field_pointer() {
        let data = Sense::invalid_field_in_cdb(0x102, Some(4)).to_bytes(SenseFormat::Fixed);
        assert_eq!(
            data,
            [
                0x70, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x24, 0, 0, 0xcc, 1, 2
            ]
        );
    }

    #[test]
    fn descriptor_format_carries_information_and_field_pointer() {
        let data = Sense::address_out_of_range(0x1_2345_6789).to_bytes(SenseFormat::Descriptor);
        assert_eq!(
            data,
            [
                0x72, 5, 0x21, 0, 0, 0, 0, 12, 0, 0x0a, 0x80, 0, 0, 0, 0, 1, 0x23, 0x45, 0x67, 0x89
            ]
        );
        let data =
            Sense::invalid_field_in_parameter_list(7, None).to_bytes(SenseFormat::Descriptor);
        assert_eq!(
            data,
            [0x72, 5, 0x26, 0, 0, 0, 0, 8, 2, 6, 0, 0, 0x80, 0, 7, 0]
        );
    }

    #[test]
    fn a_failed_segment_reports_its_number_byte_and_forwarded_sense() {
        let mut sense = Sense::new(
            SenseKey::CopyAborted,
            AdditionalSense::THIRD_PARTY_DEVICE_FAILURE,
        );
        sense.information = Some(5);
        sense.segment = Some(SegmentFailure {
            segment: 0x102,
            pointer: SegmentPointer::ParameterList(0x30),
            forwarded: Some(Forwarded {
                from: CopyEndRole::Destination,
                status: Status::CheckCondition,
                sense: Some((
                    SenseKey::DataProtect,
                    AdditionalSense::WRITE_PROTECTED,
                    None,
                )),
            }),
        });
        let forwarded = [0x70, 0, 7, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x27, 0, 0, 0, 0, 0];
        let data = sense.to_bytes(SenseFormat::Fixed);
        assert_eq!(
            data[..19],
            [
                0xf0, 0, 0xa, 0, 0, 0, 5, 29, 0, 18, 1, 2, 0x0d, 1, 0, 0x80, 0, 0x30, 2
            ]
        );
        assert_eq!(data[19..], forwarded);
        let data = sense.to_bytes(SenseFormat::Descriptor);
        assert_eq!(data[..8], [0x72, 0xa, 0x0d, 1, 0, 0, 0, 56]);
        assert_eq!(data[20..32], [1, 0x0a, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0]);
        assert_eq!(data[32..40], [2, 6, 0, 0, 0x80, 0, 0x30, 0]);
        assert_eq!(data[40..44], [0x0c, 22, 2, 2]);
        assert_eq!((&data[44..62], &data[62..]), (&forwarded[..], &[0, 0][..]));
    }

    #[test]
    fn a_segment_may_fail_with_no_word_of_its_ends() {
        let mut sense = Sense::new(
            SenseKey::CopyAborted,
            AdditionalSense::NO_ADDITIONAL_SENSE_INFORMATION,
        );
        sense.segment = Some(SegmentFailure {
            segment: 3,
            pointer: SegmentPointer::Segment(10),
            forwarded: None,
        });
        let data = sense.to_bytes(SenseFormat::Fixed);
        assert_eq!(
            data,
            [
                0x70, 0, 0xa, 0, 0, 0, 0, 10, 0, 0, 0, 3, 0, 0, 0, 0xa0, 0, 10
            ]
        );
    }

    #[test]
    fn information_that_does_not_fit_is_not_valid_in_fixed_format() {
        let fits = Sense::address_out_of_range(0xffff_ffff).to_bytes(SenseFormat::Fixed);
        assert_eq!((fits[0], &fits[3..7]), (0xf0, &[0xff; 4][..]));
        let too_large = Sense::address_out_of_range(0x1_0000_0000).to_bytes(SenseFormat::Fixed);
        assert_eq!((too_large[0], &too_large[3..7]), (0x70, &[0; 4][..]));
    }
}
