// SPDX-License-Identifier: Apache-2.0
//! Names that a logical unit retains from another target, such as LIO or SCST.
//!
//! Hosts identify a disk by its names. `ESXi` treats a VMFS datastore on a disk with other names as a copy, and does not mount
//! it.

use std::fmt;
use std::str::FromStr;

use crate::identity::IdentityError;

/// CODE SET (SPC-5 table 591).
pub(crate) const BINARY: u8 = 1;
/// CODE SET.
pub(crate) const ASCII: u8 = 2;

/// DESIGNATOR TYPE (SPC-5 table 594).
pub(crate) const T10_VENDOR_ID: u8 = 1;
/// DESIGNATOR TYPE.
pub(crate) const EUI_64: u8 = 2;
/// DESIGNATOR TYPE.
pub(crate) const NAA: u8 = 3;

/// Limit of [`Designation::designators`]. Other targets have at most three.
pub const DESIGNATORS_MAX: usize = 8;

/// Longest unit serial number and designator, bytes, so that all of them fit into a page.
pub const NAME_BYTES_MAX: usize = 252;

/// Why a name was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DesignationError {
    /// Unknown prefix.
    #[error(
        "a designator is \"naa.\" or \"eui.\" with hexadecimal digits, or \"t10.\" with a text"
    )]
    Kind,
    /// Not hexadecimal.
    #[error("after \"naa.\" and \"eui.\" come hexadecimal digits only")]
    Hexadecimal,
    /// Wrong length or first digit of an NAA designator.
    #[error(
        "an NAA name begins with 2, 3 or 5 and has 16 hexadecimal digits, or with 6 and has 32 (SPC-5 7.7.6.6)"
    )]
    Naa,
    /// Wrong length of an EUI-64 based designator.
    #[error("an EUI-64 based name has 16, 24 or 32 hexadecimal digits (SPC-5 7.7.6.5)")]
    Eui,
    /// Wrong T10 vendor ID based designator.
    #[error(
        "after \"t10.\" come the vendor, padded with spaces to 8 characters, and an identifier: printable ASCII, at \
         most {NAME_BYTES_MAX} characters (SPC-5 7.7.6.4); one zero may end it"
    )]
    T10,
    /// Wrong unit serial number.
    #[error(
        "a serial number has 1 to {NAME_BYTES_MAX} characters of printable ASCII (SPC-5 7.7.18); one zero may end it"
    )]
    SerialNumber,
    /// Too many designators, or none.
    #[error("has 1 to {DESIGNATORS_MAX} designators")]
    Count,
    /// Wrong vendor.
    #[error(transparent)]
    Vendor(#[from] IdentityError),
}

/// A designator with association 0, the logical unit (SPC-5 7.7.6).
///
/// Text form: `naa.` or `eui.` with lower-case hexadecimal digits, or `t10.` with the vendor padded to eight characters and the
/// identifier.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Designator {
    code_set: u8,
    kind: u8,
    bytes: Vec<u8>,
}

impl Designator {
    /// NAA IEEE Registered Extended.
    pub(crate) fn naa(bytes: [u8; 16]) -> Self {
        Self {
            code_set: BINARY,
            kind: NAA,
            bytes: bytes.to_vec(),
        }
    }

    /// T10 vendor ID based.
    pub(crate) fn t10(vendor: [u8; 8], rest: &[u8]) -> Self {
        Self {
            code_set: ASCII,
            kind: T10_VENDOR_ID,
            bytes: [&vendor[..], rest].concat(),
        }
    }

    /// CODE SET.
    pub(crate) fn code_set(&self) -> u8 {
        self.code_set
    }

    /// DESIGNATOR TYPE.
    pub(crate) fn kind(&self) -> u8 {
        self.kind
    }

    /// DESIGNATOR.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether it is an NAA name.
    pub fn is_naa(&self) -> bool {
        self.kind == NAA
    }
}

impl FromStr for Designator {
    type Err = DesignationError;

    fn from_str(text: &str) -> Result<Self, DesignationError> {
        let (kind, rest) = text.split_once('.').ok_or(DesignationError::Kind)?;
        match kind {
            "naa" => {
                let bytes = hexadecimal(rest)?;
                let length = match rest.as_bytes().first() {
                    Some(b'2' | b'3' | b'5') => 8,
                    Some(b'6') => 16,
                    _ => return Err(DesignationError::Naa),
                };
                if bytes.len() != length {
                    return Err(DesignationError::Naa);
                }
                Ok(Self {
                    code_set: BINARY,
                    kind: NAA,
                    bytes,
                })
            }
            "eui" => {
                let bytes = hexadecimal(rest)?;
                if !matches!(bytes.len(), 8 | 12 | 16) {
                    return Err(DesignationError::Eui);
                }
                Ok(Self {
                    code_set: BINARY,
                    kind: EUI_64,
                    bytes,
                })
            }
            "t10" => {
                const VENDOR_BYTES: usize = 8;
                if rest.len() <= VENDOR_BYTES || !is_text(rest) {
                    return Err(DesignationError::T10);
                }
                Ok(Self {
                    code_set: ASCII,
                    kind: T10_VENDOR_ID,
                    bytes: rest.as_bytes().to_vec(),
                })
            }
            _ => Err(DesignationError::Kind),
        }
    }
}

impl fmt::Display for Designator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            T10_VENDOR_ID => {
                write!(formatter, "t10.{}", String::from_utf8_lossy(&self.bytes))
            }
            kind => {
                formatter.write_str(if kind == NAA { "naa." } else { "eui." })?;
                self.bytes
                    .iter()
                    .try_for_each(|byte| write!(formatter, "{byte:02x}"))
            }
        }
    }
}

fn hexadecimal(text: &str) -> Result<Vec<u8>, DesignationError> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .map(|digit| digit.to_digit(16).map(|digit| digit as u8))
        .collect();
    let digits = digits.ok_or(DesignationError::Hexadecimal)?;
    if digits.len() % 2 != 0 {
        return Err(DesignationError::Hexadecimal);
    }
    Ok(digits
        .chunks_exact(2)
        .map(|pair| (pair[0] << 4) | pair[1])
        .collect())
}

/// Printable ASCII. LIO ends its serial number and T10 designator with a zero that belongs to the name for hosts.
fn is_text(text: &str) -> bool {
    let printable = text.strip_suffix('\0').unwrap_or(text);
    text.len() <= NAME_BYTES_MAX
        && !printable.is_empty()
        && printable.bytes().all(|byte| (0x20..=0x7e).contains(&byte))
}

/// Retained names of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Designation {
    serial_number: String,
    designators: Vec<Designator>,
}

impl Designation {
    /// Unit serial number and designators, in the order for hosts.
    ///
    /// # Errors
    /// [`DesignationError`].
    pub fn new(
        serial_number: &str,
        designators: Vec<Designator>,
    ) -> Result<Self, DesignationError> {
        if !is_text(serial_number) {
            return Err(DesignationError::SerialNumber);
        }
        if designators.is_empty() || designators.len() > DESIGNATORS_MAX {
            return Err(DesignationError::Count);
        }
        Ok(Self {
            serial_number: serial_number.to_owned(),
            designators,
        })
    }

    /// Unit serial number.
    pub fn serial_number(&self) -> &str {
        &self.serial_number
    }

    /// Designators with association 0.
    pub fn designators(&self) -> &[Designator] {
        &self.designators
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_accepted_in_the_forms_of_spc_and_reported_unchanged() {
        for (text, code_set, kind, length) in [
            ("naa.6001405aabbccddeeff0011223344556", 1, 3, 16),
            ("naa.5000c50012345678", 1, 3, 8),
            ("naa.3000000000000001", 1, 3, 8),
            ("naa.2000000000000001", 1, 3, 8),
            ("eui.6332633936616432", 1, 2, 8),
            ("eui.0123456789abcdef01234567", 1, 2, 12),
            ("eui.0123456789abcdef0123456789abcdef", 1, 2, 16),
            ("t10.LIO-ORG first:aabb\0", 2, 1, 19),
            ("t10.SCST_BIOc2c96ad2-disk", 2, 1, 21),
        ] {
            let designator: Designator = text.parse().unwrap();
            assert_eq!((designator.code_set(), designator.kind()), (code_set, kind));
            assert_eq!(designator.bytes().len(), length, "{text}");
            assert_eq!(designator.to_string(), text);
        }
    }

    #[test]
    fn other_forms_are_refused() {
        use DesignationError as E;
        let long = format!("t10.{}", "a".repeat(NAME_BYTES_MAX + 1));
        for (text, error) in [
            ("", E::Kind),
            ("naa", E::Kind),
            ("nqn.2026", E::Kind),
            ("naa.", E::Naa),
            ("naa.6001405", E::Hexadecimal),
            ("naa.6001405aabbccddeeff00112233445566", E::Hexadecimal),
            ("naa.600140500112233445566778899aabbg", E::Hexadecimal),
            ("naa.4000c50012345678", E::Naa),
            ("naa.6000c50012345678", E::Naa),
            ("naa.50014050aabbccddeeff001122334455", E::Naa),
            ("eui.00", E::Eui),
            ("eui.0123456789abcdef0123", E::Eui),
            ("t10.LIO-ORG ", E::T10),
            ("t10.LIO-ORG \u{f6}", E::T10),
            ("t10.LIO-ORG a\0b", E::T10),
            ("t10.LIO-ORG a\0\0", E::T10),
            (&long, E::T10),
        ] {
            assert_eq!(text.parse::<Designator>(), Err(error), "{text:?}");
        }
        let designator: Designator = "naa.5000c50012345678".parse().unwrap();
        for serial in ["", "\0", "a\nb", &"a".repeat(253)] {
            let result = Designation::new(serial, vec![designator.clone()]);
            assert_eq!(result, Err(E::SerialNumber), "{serial:?}");
        }
        assert_eq!(Designation::new("a", Vec::new()), Err(E::Count));
        assert_eq!(Designation::new("a", vec![designator; 9]), Err(E::Count));
    }

    proptest! {
        #[test]
        fn accepted_names_are_reported_in_lower_case(text in "(naa|eui|t10)\\.[ -~]{0,40}") {
            if let Ok(designator) = text.parse::<Designator>() {
                let reported = designator.to_string();
                prop_assert!(reported == text || reported == text.to_lowercase());
                prop_assert_eq!(reported.parse::<Designator>(), Ok(designator));
            }
        }
    }
}
