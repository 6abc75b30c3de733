// SPDX-License-Identifier: Apache-2.0
//! Logical unit numbers (SAM-5 4.7).

use crate::sam::LogicalUnitNumber;

/// Largest number in flat space addressing (SAM-5 4.7: 14 bits).
pub const MAXIMUM_LOGICAL_UNIT_NUMBER: u16 = 0x3fff;

/// REPORT LUNS well-known logical unit, encoded (SPC-5, W-LUN 01h).
pub(crate) const REPORT_LUNS_WELL_KNOWN: LogicalUnitNumber =
    LogicalUnitNumber([0xc1, 0x01, 0, 0, 0, 0, 0, 0]);

/// What an eight-byte logical unit number addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// A logical unit of this device by its number.
    Number(u16),
    /// The REPORT LUNS well-known logical unit.
    ReportLuns,
    /// A form or level without logical units of this device.
    Elsewhere,
}

impl From<LogicalUnitNumber> for Address {
    fn from(LogicalUnitNumber(bytes): LogicalUnitNumber) -> Self {
        const METHOD: u8 = 0xc0;
        const PERIPHERAL_DEVICE: u8 = 0x00;
        const FLAT_SPACE: u8 = 0x40;
        let [first, second, lower_levels @ ..] = bytes;
        if LogicalUnitNumber(bytes) == REPORT_LUNS_WELL_KNOWN {
            return Self::ReportLuns;
        }
        if lower_levels != [0; 6] {
            return Self::Elsewhere;
        }
        match first & METHOD {
            // A bus identifier other than zero would mean another bus (SAM-5 4.7).
            PERIPHERAL_DEVICE if first == 0 => Self::Number(u16::from(second)),
            FLAT_SPACE => Self::Number(u16::from_be_bytes([first & !METHOD, second])),
            _ => Self::Elsewhere,
        }
    }
}

/// Encodes a number for REPORT LUNS: peripheral device addressing below 256, else flat space addressing.
pub(crate) fn logical_unit_number(number: u16) -> LogicalUnitNumber {
    const FLAT_SPACE: u16 = 0x4000;
    let form = if number < 256 {
        number
    } else {
        FLAT_SPACE | (number & MAXIMUM_LOGICAL_UNIT_NUMBER)
    };
    let [first, second] = form.to_be_bytes();
    LogicalUnitNumber([first, second, 0, 0, 0, 0, 0, 0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_survives_the_round_trip() {
        for number in 0..=MAXIMUM_LOGICAL_UNIT_NUMBER {
            assert_eq!(
                Address::from(logical_unit_number(number)),
                Address::Number(number)
            );
        }
    }

    #[test]
    fn both_forms_address_a_small_number() {
        assert_eq!(
            Address::from(LogicalUnitNumber([0, 7, 0, 0, 0, 0, 0, 0])),
            Address::Number(7)
        );
        assert_eq!(
            Address::from(LogicalUnitNumber([0x40, 7, 0, 0, 0, 0, 0, 0])),
            Address::Number(7)
        );
    }

    #[test]
    fn other_levels_and_methods_are_elsewhere() {
        for bytes in [
            [0, 7, 0, 1, 0, 0, 0, 0],
            [1, 7, 0, 0, 0, 0, 0, 0],
            [0x80, 7, 0, 0, 0, 0, 0, 0],
            [0xc1, 2, 0, 0, 0, 0, 0, 0],
        ] {
            assert_eq!(Address::from(LogicalUnitNumber(bytes)), Address::Elsewhere);
        }
        assert_eq!(Address::from(REPORT_LUNS_WELL_KNOWN), Address::ReportLuns);
    }
}
