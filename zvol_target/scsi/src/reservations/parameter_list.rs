// SPDX-License-Identifier: Apache-2.0
//! Parameter lists of PERSISTENT RESERVE OUT (SPC-5 6.17.3, 6.17.4).

use super::transport_id::{self, TransportId};
use crate::additional_sense::AdditionalSense;
use crate::sense::Sense;

/// Length without `TransportIDs`.
pub(super) const BASIC_LENGTH: usize = 24;

/// Longest accepted list: more than [`super::MAXIMUM_REGISTRATIONS`] `TransportIDs` of usual length.
pub(super) const MAXIMUM_LENGTH: u32 = 64 << 10;

pub(super) const LENGTH_ERROR: Sense =
    Sense::illegal_request(AdditionalSense::PARAMETER_LIST_LENGTH_ERROR);

/// APTPL, in byte 20, and in byte 17 of REGISTER AND MOVE.
const APTPL: u8 = 0x01;

/// Byte of APTPL in the basic list.
pub(super) const APTPL_AT: u16 = 20;

/// The list of every service action but REGISTER AND MOVE.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Basic {
    pub(super) key: u64,
    pub(super) service_action_key: u64,
    /// Additional initiator ports to register, each with its position in the list: `SPEC_I_PT`.
    pub(super) initiator_ports: Option<Vec<(TransportId, u16)>>,
    /// `ALL_TG_PT`
    pub(super) all_target_ports: bool,
    /// APTPL
    pub(super) persists: bool,
}

impl Basic {
    /// # Errors
    /// PARAMETER LIST LENGTH ERROR, INVALID FIELD IN PARAMETER LIST.
    pub(super) fn parse(list: &[u8]) -> Result<Self, Sense> {
        const SPEC_I_PT: u8 = 0x08;
        const ALL_TG_PT: u8 = 0x04;
        const TRANSPORT_IDS_LENGTH: usize = 4;
        let (fields, transport_ids) = list.split_at_checked(BASIC_LENGTH).ok_or(LENGTH_ERROR)?;
        let flags = fields[20];
        let initiator_ports = if flags & SPEC_I_PT == 0 {
            if !transport_ids.is_empty() {
                return Err(LENGTH_ERROR);
            }
            None
        } else {
            let (length, ids) = transport_ids
                .split_first_chunk::<TRANSPORT_IDS_LENGTH>()
                .ok_or(LENGTH_ERROR)?;
            if u32::from_be_bytes(*length) as usize != ids.len() {
                return Err(LENGTH_ERROR);
            }
            Some(parse_all(ids, BASIC_LENGTH + TRANSPORT_IDS_LENGTH)?)
        };
        Ok(Self {
            key: key(fields, 0),
            service_action_key: key(fields, 8),
            initiator_ports,
            all_target_ports: flags & ALL_TG_PT != 0,
            persists: flags & APTPL != 0,
        })
    }
}

fn parse_all(ids: &[u8], from: usize) -> Result<Vec<(TransportId, u16)>, Sense> {
    let mut rest = ids;
    let mut transport_ids = Vec::new();
    while !rest.is_empty() {
        // A list has at most 64 KiB; a field pointer cannot point further.
        let at = u16::try_from(from + ids.len() - rest.len()).unwrap_or(u16::MAX);
        let (id, length) = transport_id::parse(rest, at)?;
        transport_ids.push((id, at));
        rest = rest.get(length..).unwrap_or_default();
    }
    Ok(transport_ids)
}

/// The list of REGISTER AND MOVE.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RegisterAndMove {
    pub(super) key: u64,
    pub(super) service_action_key: u64,
    /// UNREG
    pub(super) unregister: bool,
    /// APTPL
    pub(super) persists: bool,
    pub(super) relative_target_port: u16,
    pub(super) initiator_port: String,
}

impl RegisterAndMove {
    /// Byte of APTPL.
    pub(super) const APTPL_AT: u16 = 17;
    pub(super) const RELATIVE_TARGET_PORT_AT: u16 = 18;
    pub(super) const TRANSPORT_ID_AT: u16 = 24;

    /// # Errors
    /// PARAMETER LIST LENGTH ERROR, INVALID FIELD IN PARAMETER LIST.
    pub(super) fn parse(list: &[u8]) -> Result<Self, Sense> {
        const UNREG: u8 = 0x02;
        let (fields, id) = list.split_at_checked(BASIC_LENGTH).ok_or(LENGTH_ERROR)?;
        let length = u32::from_be_bytes([fields[20], fields[21], fields[22], fields[23]]);
        if length as usize != id.len() {
            return Err(LENGTH_ERROR);
        }
        let (initiator_port, used) = match transport_id::parse(id, Self::TRANSPORT_ID_AT)? {
            (TransportId::Port(port), used) => (port, used),
            // A reservation can only move to one port.
            (TransportId::Device(_), _) => {
                let at = Self::TRANSPORT_ID_AT;
                return Err(Sense::invalid_field_in_parameter_list(at, Some(7)));
            }
        };
        if used != id.len() {
            return Err(LENGTH_ERROR);
        }
        Ok(Self {
            key: key(fields, 0),
            service_action_key: key(fields, 8),
            unregister: fields[17] & UNREG != 0,
            persists: fields[17] & APTPL != 0,
            relative_target_port: u16::from_be_bytes([fields[18], fields[19]]),
            initiator_port,
        })
    }
}

fn key(fields: &[u8], at: usize) -> u64 {
    let bytes = fields.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn basic(flags: u8, ids: &[&str]) -> Vec<u8> {
        let mut list = vec![0; BASIC_LENGTH];
        list[7] = 1;
        list[15] = 2;
        list[20] = flags;
        if flags & 0x08 != 0 {
            let ids: Vec<_> = ids
                .iter()
                .flat_map(|id| transport_id::of_port(id))
                .collect();
            list.extend_from_slice(&(ids.len() as u32).to_be_bytes());
            list.extend_from_slice(&ids);
        }
        list
    }

    #[test]
    fn fields_stand_where_the_standard_has_them() {
        let parsed = Basic::parse(&basic(0x05, &[])).unwrap();
        let expected = Basic {
            key: 1,
            service_action_key: 2,
            initiator_ports: None,
            all_target_ports: true,
            persists: true,
        };
        assert_eq!(parsed, expected);
        let ports = ["iqn.a,i,0x000000000001", "iqn.a,i,0x000000000002"];
        let parsed = Basic::parse(&basic(0x08, &ports)).unwrap();
        let named = parsed.initiator_ports.unwrap();
        let named: Vec<_> = named
            .into_iter()
            .map(|(id, at)| (id, usize::from(at)))
            .collect();
        let expected = ports.map(|port| TransportId::Port(port.to_owned()));
        let [first, second] = expected;
        assert_eq!(named, [(first, 28), (second, 28 + 28)]);
    }

    #[test]
    fn inconsistent_lengths_are_refused() {
        let with_id = basic(0x08, &["iqn.a,i,0x000000000001"]);
        for list in [
            &basic(0, &[])[..23],
            &[basic(0, &[]), vec![0; 4]].concat(),
            &with_id[..27],
            &with_id[..with_id.len() - 4],
            &[with_id.clone(), vec![0; 4]].concat(),
        ] {
            assert_eq!(Basic::parse(list), Err(LENGTH_ERROR), "{list:x?}");
        }
        assert_eq!(RegisterAndMove::parse(&[0; 24]), Err(LENGTH_ERROR));
    }

    #[test]
    fn a_move_names_one_port() {
        let id = transport_id::of_port("iqn.a,i,0x000000000001");
        let mut list = vec![0; BASIC_LENGTH];
        list[15] = 9;
        list[17] = 0x03;
        list[19] = 7;
        list[23] = id.len() as u8;
        let list = [list, id].concat();
        let expected = RegisterAndMove {
            key: 0,
            service_action_key: 9,
            unregister: true,
            persists: true,
            relative_target_port: 7,
            initiator_port: "iqn.a,i,0x000000000001".to_owned(),
        };
        assert_eq!(RegisterAndMove::parse(&list), Ok(expected));
        let mut device = list.clone();
        device[24] = 0x05;
        assert_eq!(
            RegisterAndMove::parse(&device).unwrap_err().additional,
            AdditionalSense::INVALID_FIELD_IN_PARAMETER_LIST
        );
    }

    proptest! {
        #[test]
        fn any_list_is_read_or_refused(list in prop::collection::vec(any::<u8>(), 0..256)) {
            let _ = Basic::parse(&list);
            let _ = RegisterAndMove::parse(&list);
        }
    }
}
