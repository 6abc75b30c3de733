// SPDX-License-Identifier: Apache-2.0
//! Parameter list of PERSISTENT RESERVE OUT (SPC-5 6.17.3).

use crate::additional_sense::AdditionalSense;
use crate::sense::Sense;

/// Length of the list without `TransportIDs`, which are not supported.
pub(super) const LENGTH: u32 = 24;

pub(super) const LENGTH_ERROR: Sense =
    Sense::illegal_request(AdditionalSense::PARAMETER_LIST_LENGTH_ERROR);

/// Byte of the flags.
const FLAGS_AT: u16 = 20;

/// APTPL where it is not supported.
pub(super) const NOT_PERSISTENT: Sense = Sense::invalid_field_in_parameter_list(FLAGS_AT, Some(0));

/// The list of every service action.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ParameterList {
    pub(super) key: u64,
    pub(super) service_action_key: u64,
    /// `ALL_TG_PT`
    pub(super) all_target_ports: bool,
    /// APTPL
    pub(super) persists: bool,
}

impl ParameterList {
    /// Parses the first bytes of a list of `length` bytes.
    ///
    /// # Errors
    /// PARAMETER LIST LENGTH ERROR; INVALID FIELD IN PARAMETER LIST for `SPEC_I_PT`.
    pub(super) fn parse(list: &[u8], length: u32) -> Result<Self, Sense> {
        const SPEC_I_PT: u8 = 0x08;
        const ALL_TG_PT: u8 = 0x04;
        const APTPL: u8 = 0x01;
        let fields: &[u8; LENGTH as usize] = list.first_chunk().ok_or(LENGTH_ERROR)?;
        let flags = fields[usize::from(FLAGS_AT)];
        if flags & SPEC_I_PT != 0 {
            return Err(Sense::invalid_field_in_parameter_list(FLAGS_AT, Some(3)));
        }
        if length != LENGTH {
            return Err(LENGTH_ERROR);
        }
        Ok(Self {
            key: key(fields, 0),
            service_action_key: key(fields, 8),
            all_target_ports: flags & ALL_TG_PT != 0,
            persists: flags & APTPL != 0,
        })
    }
}

fn key(fields: &[u8], at: usize) -> u64 {
    let bytes = fields.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(flags: u8) -> [u8; 24] {
        let mut list = [0; 24];
        list[7] = 1;
        list[15] = 2;
        list[20] = flags;
        list
    }

    #[test]
    fn fields_stand_where_the_standard_has_them() {
        let expected = ParameterList {
            key: 1,
            service_action_key: 2,
            all_target_ports: true,
            persists: true,
        };
        assert_eq!(ParameterList::parse(&list(0x05), LENGTH), Ok(expected));
    }

    #[test]
    fn other_lengths_and_initiator_ports_are_refused() {
        let refused = |list: &[u8], length| ParameterList::parse(list, length).unwrap_err();
        assert_eq!(refused(&list(0)[..23], LENGTH), LENGTH_ERROR);
        assert_eq!(refused(&list(0), LENGTH + 4), LENGTH_ERROR);
        let invalid = AdditionalSense::INVALID_FIELD_IN_PARAMETER_LIST;
        assert_eq!(refused(&list(0x08), LENGTH + 28).additional, invalid);
    }
}
