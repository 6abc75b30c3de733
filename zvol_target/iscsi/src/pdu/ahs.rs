// SPDX-License-Identifier: Apache-2.0
//! Additional Header Segments of a SCSI Command (RFC 7143 11.2.2).

/// Extended CDB (11.2.2.3).
const TYPE_EXTENDED_CDB: u8 = 1;
/// Bidirectional Read Expected Data Transfer Length (11.2.2.4).
const TYPE_BIDIRECTIONAL_READ_LENGTH: u8 = 2;
/// Longest CDB: 16 bytes in the BHS and an AHS of the largest size that SPC allows.
pub const CDB_LENGTH_MAX: usize = 260;

/// Content of the AHSs of a SCSI Command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdditionalHeaders<'a> {
    /// Bytes of the CDB after its first 16.
    pub extended_cdb: &'a [u8],
    /// Bytes that the initiator expects from the read part of a bidirectional command.
    pub bidirectional_read_length: Option<u32>,
}

/// The AHSs violate RFC 7143 11.2.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed additional header segment")]
pub struct MalformedAdditionalHeader;

impl<'a> AdditionalHeaders<'a> {
    /// Parses the AHSs of one PDU.
    ///
    /// # Errors
    /// [`MalformedAdditionalHeader`] for a length that does not fit, an unknown type, or one type twice.
    pub fn decode(mut bytes: &'a [u8]) -> Result<Self, MalformedAdditionalHeader> {
        let mut headers = Self::default();
        while let Some((&[high, low, kind, _], rest)) = bytes.split_first_chunk::<4>() {
            // AHSLength counts from the reserved byte after the type.
            let length = usize::from(u16::from_be_bytes([high, low]));
            let content = length.checked_sub(1).ok_or(MalformedAdditionalHeader)?;
            let value = rest.get(..content).ok_or(MalformedAdditionalHeader)?;
            match kind & 0x3f {
                TYPE_EXTENDED_CDB
                    if headers.extended_cdb.is_empty()
                        && !value.is_empty()
                        && value.len() <= CDB_LENGTH_MAX - 16 =>
                {
                    headers.extended_cdb = value;
                }
                TYPE_BIDIRECTIONAL_READ_LENGTH if headers.bidirectional_read_length.is_none() => {
                    let value = value.try_into().map_err(|_| MalformedAdditionalHeader)?;
                    headers.bidirectional_read_length = Some(u32::from_be_bytes(value));
                }
                _ => return Err(MalformedAdditionalHeader),
            }
            bytes = rest
                .get(content.next_multiple_of(4)..)
                .ok_or(MalformedAdditionalHeader)?;
        }
        if bytes.is_empty() {
            Ok(headers)
        } else {
            Err(MalformedAdditionalHeader)
        }
    }

    /// Encodes the AHSs.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut push = |kind: u8, value: &[u8]| {
            bytes.extend_from_slice(&(value.len() as u16 + 1).to_be_bytes());
            bytes.extend_from_slice(&[kind, 0]);
            bytes.extend_from_slice(value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        };
        if !self.extended_cdb.is_empty() {
            push(TYPE_EXTENDED_CDB, self.extended_cdb);
        }
        if let Some(length) = self.bidirectional_read_length {
            push(TYPE_BIDIRECTIONAL_READ_LENGTH, &length.to_be_bytes());
        }
        bytes
    }
}
