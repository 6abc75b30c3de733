// SPDX-License-Identifier: Apache-2.0
//! `TransportID` of iSCSI (SPC-5 7.6.4.6): name of an initiator port in parameter data.

use crate::additional_sense::AdditionalSense;
use crate::sense::Sense;

/// PROTOCOL IDENTIFIER of iSCSI.
const ISCSI: u8 = 0x5;

/// FORMAT CODE: initiator device, and initiator port.
const DEVICE_FORMAT: u8 = 0b00;
const PORT_FORMAT: u8 = 0b01;

const HEADER_LENGTH: usize = 4;
const MINIMUM_ADDITIONAL_LENGTH: usize = 20;

/// Longest iSCSI name, bytes (RFC 7143 4.2.7.1).
const MAXIMUM_NAME_LENGTH: usize = 223;

/// Separator of name and ISID (RFC 7143 4.4.2).
const SEPARATOR: &str = ",i,0x";

/// Hexadecimal digits of an ISID.
const ISID_DIGITS: usize = 12;

/// Content of a `TransportID`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TransportId {
    /// All initiator ports of the device with this name.
    Device(String),
    /// One port, as in [`crate::sam::Nexus::initiator_port`].
    Port(String),
}

/// Parses the `TransportID` at the start of `list`. Returns it with its length. `at` is its position in the parameter list.
///
/// # Errors
/// PARAMETER LIST LENGTH ERROR if it is cut; INVALID FIELD IN PARAMETER LIST for another protocol or format, or an invalid name.
pub(super) fn parse(list: &[u8], at: u16) -> Result<(TransportId, usize), Sense> {
    const CUT: Sense = Sense::illegal_request(AdditionalSense::PARAMETER_LIST_LENGTH_ERROR);
    let invalid = |byte: u16| Sense::invalid_field_in_parameter_list(at.saturating_add(byte), None);
    let &[first, _, high, low, ref rest @ ..] = list else {
        return Err(CUT);
    };
    if first & 0x0f != ISCSI {
        return Err(invalid(0));
    }
    let length = usize::from(u16::from_be_bytes([high, low]));
    if length < MINIMUM_ADDITIONAL_LENGTH || length % 4 != 0 {
        return Err(invalid(2));
    }
    let text = rest.get(..length).ok_or(CUT)?;
    // Terminated by a zero; padding follows.
    let end = text.iter().position(|&byte| byte == 0);
    let text = end.and_then(|end| std::str::from_utf8(text.get(..end)?).ok());
    let text = text.ok_or(invalid(4))?;
    let named = match first >> 6 {
        DEVICE_FORMAT => device_name(text).map(TransportId::Device),
        PORT_FORMAT => port_name(text).map(TransportId::Port),
        _ => return Err(invalid(0)),
    };
    Ok((named.ok_or(invalid(4))?, HEADER_LENGTH + length))
}

/// An iSCSI name in the form for comparisons.
fn device_name(text: &str) -> Option<String> {
    let is_name = (1..=MAXIMUM_NAME_LENGTH).contains(&text.len())
        && !text.contains(',')
        && !text.contains(|c: char| c.is_control() || c.is_whitespace());
    is_name.then(|| text.to_lowercase())
}

fn port_name(text: &str) -> Option<String> {
    let (device, isid) = text.split_once(SEPARATOR)?;
    let device = device_name(device)?;
    let is_isid = (1..=ISID_DIGITS).contains(&isid.len())
        && isid.bytes().all(|byte| byte.is_ascii_hexdigit());
    let isid = u64::from_str_radix(isid, 16).ok().filter(|_| is_isid)?;
    Some(format!("{device}{SEPARATOR}{isid:0ISID_DIGITS$x}"))
}

/// The `TransportID` of an initiator port.
pub(super) fn of_port(initiator_port: &str) -> Vec<u8> {
    // With the terminating zero.
    let length = (initiator_port.len() + 1)
        .next_multiple_of(4)
        .max(MINIMUM_ADDITIONAL_LENGTH);
    // A name and an ISID: at most a few hundred bytes.
    let [high, low] = (length as u16).to_be_bytes();
    let mut id = vec![(PORT_FORMAT << 6) | ISCSI, 0, high, low];
    id.extend_from_slice(initiator_port.as_bytes());
    id.resize(HEADER_LENGTH + length, 0);
    id
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn device(name: &str) -> Vec<u8> {
        let mut id = of_port(name);
        id[0] = ISCSI;
        id
    }

    #[test]
    fn both_formats_are_read_and_names_compared_as_iscsi_compares_them() {
        let port = of_port("IQN.2024-01.org.Example:a,i,0x23D000001");
        let (id, length) = parse(&port, 28).unwrap();
        let name = "iqn.2024-01.org.example:a,i,0x00023d000001";
        assert_eq!((id, length), (TransportId::Port(name.into()), port.len()));
        assert_eq!(
            parse(&device("iqn.2024-01.org.example:A"), 28).unwrap().0,
            TransportId::Device("iqn.2024-01.org.example:a".into())
        );
        // The shortest one: 24 bytes.
        assert_eq!(device("eui.1").len(), 24);
    }

    #[test]
    fn an_id_without_a_port_is_refused() {
        let refused = |id: &[u8]| parse(id, 0).unwrap_err().additional;
        let invalid = AdditionalSense::INVALID_FIELD_IN_PARAMETER_LIST;
        for port in [
            "iqn.a",
            "iqn.a,i,0x",
            "iqn.a,i,0x1234567890123",
            "iqn.a,i,0x+1",
            "iqn.a,i,0xg",
            ",i,0x1",
            "iqn.a b,i,0x1",
            "iqn.a,t,0x1",
        ] {
            assert_eq!(refused(&of_port(port)), invalid, "{port}");
        }
        let long = format!("iqn.{}", "a".repeat(MAXIMUM_NAME_LENGTH));
        assert_eq!(refused(&device(&long)), invalid);
        let good = of_port("iqn.2024-01.org.example:a,i,0x00023d000001");
        for (at, byte) in [(0, 0x80), (0, 0x46), (3, 0x12), (3, 0x10)] {
            let mut bad = good.clone();
            bad[at] = byte;
            assert_eq!(refused(&bad), invalid, "{at}: {byte:x}");
        }
        let mut unended = good.clone();
        unended.truncate(4 + 40);
        unended[3] = 40;
        assert_eq!(refused(&unended), invalid);
        let cut = AdditionalSense::PARAMETER_LIST_LENGTH_ERROR;
        assert_eq!(refused(&good[..good.len() - 1]), cut);
        assert_eq!(refused(&good[..3]), cut);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(list in prop::collection::vec(any::<u8>(), 0..64), id in 0..4_u8) {
            let mut list = list;
            if let Some(first) = list.first_mut() {
                *first = (id << 6) | ISCSI;
            }
            if let Ok((_, length)) = parse(&list, 0) {
                prop_assert!(length <= list.len());
            }
        }

        #[test]
        fn reported_transport_ids_are_parsed(name in "iqn\\.[a-z0-9.:-]{1,219}", isid in 0..1_u64 << 48) {
            let port = format!("{name},i,0x{isid:012x}");
            let id = of_port(&port);
            prop_assert_eq!(parse(&id, 0).unwrap(), (TransportId::Port(port), id.len()));
        }
    }
}
