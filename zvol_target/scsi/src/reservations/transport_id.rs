// SPDX-License-Identifier: Apache-2.0
//! `TransportID` of iSCSI (SPC-5 7.6.4.6): name of an initiator port in parameter data.

/// PROTOCOL IDENTIFIER of iSCSI.
const ISCSI: u8 = 0x5;

/// FORMAT CODE: initiator port.
const PORT_FORMAT: u8 = 0b01;

const HEADER_LENGTH: usize = 4;
const MINIMUM_ADDITIONAL_LENGTH: usize = 20;

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
