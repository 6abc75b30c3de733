// SPDX-License-Identifier: Apache-2.0
//! Sense data of transport errors (RFC 7143 11.4.7.2), in fixed format (SPC-5 4.4.3).

use super::transfer::Failure;

/// ABORTED COMMAND
const SENSE_KEY_ABORTED_COMMAND: u8 = 0x0b;

/// Sense data for a failed transfer.
pub(crate) fn of_failure(failure: Failure) -> [u8; 18] {
    let (code, qualifier) = match failure {
        // WRITE ERROR - UNEXPECTED UNSOLICITED DATA
        Failure::UnexpectedUnsolicitedData => (0x0c, 0x0c),
        // WRITE ERROR - NOT ENOUGH UNSOLICITED DATA, "Incorrect amount of data" in RFC 7143.
        Failure::IncorrectAmountOfData => (0x0c, 0x0d),
        // PROTOCOL SERVICE CRC ERROR
        Failure::ProtocolServiceCrcError => (0x47, 0x05),
    };
    let mut sense = [0; 18];
    sense[0] = 0x70;
    sense[2] = SENSE_KEY_ABORTED_COMMAND;
    sense[7] = 10;
    sense[12] = code;
    sense[13] = qualifier;
    sense
}
