// SPDX-License-Identifier: Apache-2.0
//! Names of a logical unit, for INQUIRY and the Device Identification page.

use sha2::{Digest, Sha256};

/// IEEE company identifier in the NAA designator.
///
/// The project has no identifier from the IEEE. 02-5A-56 has the bit for local administration set, so it differs from those of
/// all vendors. The 100 bits after it make a designator unique.
const COMPANY_IDENTIFIER: u32 = 0x02_5a56;

/// Why a product identification was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// Longer than its field.
    #[error("{field} {text:?} is longer than {maximum} characters")]
    TooLong {
        /// Name of the field.
        field: &'static str,
        /// The refused text.
        text: String,
        /// Width of the field.
        maximum: usize,
    },
    /// A character other than ASCII 20h to 7Eh (SPC-5).
    #[error("{field} {text:?} has a character that is not printable ASCII")]
    NotPrintable {
        /// Name of the field.
        field: &'static str,
        /// The refused text.
        text: String,
    },
}

/// T10 VENDOR IDENTIFICATION, PRODUCT IDENTIFICATION and PRODUCT REVISION LEVEL (SPC-5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProductIdentification {
    vendor: [u8; 8],
    product: [u8; 16],
    revision: [u8; 4],
}

impl ProductIdentification {
    /// Left-aligned, and padded with spaces to 8, 16 and 4 bytes.
    ///
    /// # Errors
    /// [`IdentityError`] if a text is too long or not printable ASCII.
    pub fn new(vendor: &str, product: &str, revision: &str) -> Result<Self, IdentityError> {
        Ok(Self {
            vendor: padded("vendor", vendor)?,
            product: padded("product", product)?,
            revision: padded("revision", revision)?,
        })
    }

    /// The 28 bytes of standard INQUIRY data from byte 8 on.
    pub(crate) fn inquiry_bytes(&self) -> [u8; 28] {
        let mut bytes = [0; 28];
        bytes[..8].copy_from_slice(&self.vendor);
        bytes[8..24].copy_from_slice(&self.product);
        bytes[24..].copy_from_slice(&self.revision);
        bytes
    }

    /// T10 vendor identification, also for a T10 vendor ID based designator.
    pub(crate) fn vendor(&self) -> &[u8; 8] {
        &self.vendor
    }
}

fn padded<const N: usize>(field: &'static str, text: &str) -> Result<[u8; N], IdentityError> {
    if !text.bytes().all(|byte| (0x20..=0x7e).contains(&byte)) {
        return Err(IdentityError::NotPrintable {
            field,
            text: text.to_owned(),
        });
    }
    let mut bytes = [b' '; N];
    bytes
        .get_mut(..text.len())
        .ok_or_else(|| IdentityError::TooLong {
            field,
            text: text.to_owned(),
            maximum: N,
        })?
        .copy_from_slice(text.as_bytes());
    Ok(bytes)
}

/// NAA IEEE Registered Extended designator (SPC-5 7.7): NAA 6, the company identifier, and the first 100 bits of the SHA-256 of
/// the UUID as vendor specific identifier and extension.
///
/// Hashed because a UUID has 128 bits, and some versions have equal leading or trailing bits.
pub fn naa(uuid: [u8; 16]) -> [u8; 16] {
    const NAA_IEEE_REGISTERED_EXTENDED: u32 = 6;
    let hash = Sha256::digest(uuid);
    let mut name = [0; 16];
    let head =
        (NAA_IEEE_REGISTERED_EXTENDED << 28) | (COMPANY_IDENTIFIER << 4) | u32::from(hash[0] >> 4);
    name[..4].copy_from_slice(&head.to_be_bytes());
    for (to, pair) in name[4..].iter_mut().zip(hash.windows(2)) {
        *to = (pair[0] << 4) | (pair[1] >> 4);
    }
    name
}

/// Unit serial number: the UUID as 32 lower-case hexadecimal digits.
pub(crate) fn serial_number(uuid: [u8; 16]) -> String {
    use std::fmt::Write;
    uuid.iter()
        .fold(String::with_capacity(32), |mut text, byte| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: [u8; 16] = [
        0x4f, 0x1c, 0x6d, 0x2e, 0x90, 0x3b, 0x4a, 0x57, 0x8c, 0x01, 0x22, 0x33, 0x44, 0x55, 0x66,
        0x77,
    ];

    #[test]
    fn naa_never_changes() {
        // If this value changed, every datastore of an installation would be treated as a copy.
        let name = [
            0x60, 0x25, 0xa5, 0x63, 0x2a, 0xb1, 0x37, 0x08, 0x70, 0x7b, 0x10, 0x4a, 0x70, 0x30,
            0x7e, 0x07,
        ];
        assert_eq!(naa(UUID), name);
    }

    #[test]
    fn uuids_that_differ_in_one_bit_have_different_names() {
        let names: std::collections::HashSet<_> = (0..128)
            .map(|bit| {
                let mut uuid = UUID;
                uuid[bit / 8] ^= 1 << (bit % 8);
                naa(uuid)
            })
            .chain([naa(UUID)])
            .collect();
        assert_eq!(names.len(), 129);
    }

    #[test]
    fn serial_number_is_the_uuid() {
        assert_eq!(serial_number(UUID), "4f1c6d2e903b4a578c01223344556677");
    }

    #[test]
    fn product_identification_is_padded_or_refused() {
        let product = ProductIdentification::new("ZVAAI", "zvol", "0.1").unwrap();
        assert_eq!(&product.inquiry_bytes(), b"ZVAAI   zvol            0.1 ");
        assert!(matches!(
            ProductIdentification::new("NINE CHAR", "", ""),
            Err(IdentityError::TooLong {
                field: "vendor",
                maximum: 8,
                ..
            })
        ));
        assert!(matches!(
            ProductIdentification::new("ZVAAI", "z\u{f6}l", ""),
            Err(IdentityError::NotPrintable {
                field: "product",
                ..
            })
        ));
    }
}
