// SPDX-License-Identifier: Apache-2.0
//! Content of the file with a logical unit's reservations: JSON, version 1.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;

use scsi::{PersistentReservation, PersistentReservations, RegisteredNexus, ReservationType};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

const VERSION: u32 = 1;

/// The file. The checksum is that of the exact text of `content`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    version: u32,
    /// SHA-256, hexadecimal.
    checksum: String,
    content: Box<RawValue>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    /// NAA name of the logical unit.
    naa: String,
    registrations: Vec<Registration>,
    reservation: Option<Reservation>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Registration {
    initiator_port: String,
    relative_target_port: u16,
    key: Key,
}

/// Hexadecimal: numbers in JSON are exact only up to 53 bits.
#[derive(Clone, Serialize, Deserialize)]
struct Key(String);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reservation {
    #[serde(rename = "type")]
    kind: Kind,
    /// Index in `registrations`; null if all of them hold it.
    holder: Option<usize>,
}

/// [`ReservationType`] by name.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    WriteExclusive,
    ExclusiveAccess,
    WriteExclusiveRegistrantsOnly,
    ExclusiveAccessRegistrantsOnly,
    WriteExclusiveAllRegistrants,
    ExclusiveAccessAllRegistrants,
}

impl From<ReservationType> for Kind {
    fn from(kind: ReservationType) -> Self {
        match kind {
            ReservationType::WriteExclusive => Self::WriteExclusive,
            ReservationType::ExclusiveAccess => Self::ExclusiveAccess,
            ReservationType::WriteExclusiveRegistrantsOnly => Self::WriteExclusiveRegistrantsOnly,
            ReservationType::ExclusiveAccessRegistrantsOnly => Self::ExclusiveAccessRegistrantsOnly,
            ReservationType::WriteExclusiveAllRegistrants => Self::WriteExclusiveAllRegistrants,
            ReservationType::ExclusiveAccessAllRegistrants => Self::ExclusiveAccessAllRegistrants,
        }
    }
}

impl From<Kind> for ReservationType {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::WriteExclusive => Self::WriteExclusive,
            Kind::ExclusiveAccess => Self::ExclusiveAccess,
            Kind::WriteExclusiveRegistrantsOnly => Self::WriteExclusiveRegistrantsOnly,
            Kind::ExclusiveAccessRegistrantsOnly => Self::ExclusiveAccessRegistrantsOnly,
            Kind::WriteExclusiveAllRegistrants => Self::WriteExclusiveAllRegistrants,
            Kind::ExclusiveAccessAllRegistrants => Self::ExclusiveAccessAllRegistrants,
        }
    }
}

/// "naa." and 32 hexadecimal digits.
pub(crate) fn naa_name(naa: [u8; 16]) -> String {
    format!("naa.{:032x}", u128::from_be_bytes(naa))
}

/// Text form of a reservation key.
pub(crate) fn key_name(key: u64) -> String {
    format!("0x{key:016x}")
}

fn parse_key(Key(text): &Key) -> Option<u64> {
    let digits = text.strip_prefix("0x").filter(|rest| rest.len() == 16)?;
    let key = u64::from_str_radix(digits, 16).ok()?;
    (key_name(key) == *text).then_some(key)
}

fn checksum(content: &str) -> String {
    let hash = Sha256::digest(content);
    hash.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

pub(super) fn format(
    reservations: &PersistentReservations,
    naa: [u8; 16],
) -> Result<String, io::Error> {
    let holder = |holder: &RegisteredNexus| {
        let mut nexuses = reservations.registrations.keys();
        nexuses.position(|nexus| nexus == holder)
    };
    let registrations = reservations.registrations.iter();
    let content = Content {
        naa: naa_name(naa),
        registrations: registrations
            .map(|(nexus, &key)| Registration {
                initiator_port: nexus.initiator_port.clone(),
                relative_target_port: nexus.relative_target_port,
                key: Key(key_name(key)),
            })
            .collect(),
        reservation: reservations.reservation.as_ref().map(|held| Reservation {
            kind: held.kind.into(),
            holder: held.holder.as_ref().and_then(holder),
        }),
    };
    let content = RawValue::from_string(serde_json::to_string_pretty(&content)?)?;
    let document = Document {
        version: VERSION,
        checksum: checksum(content.get()),
        content,
    };
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

/// # Errors
/// Why the text is invalid.
pub(super) fn parse(text: &str, naa: [u8; 16]) -> Result<PersistentReservations, String> {
    let document: Document = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if document.version != VERSION {
        let version = document.version;
        return Err(format!(
            "version {version} is not supported, only {VERSION}"
        ));
    }
    if document.checksum != checksum(document.content.get()) {
        return Err("its checksum is wrong".to_owned());
    }
    let content: Content =
        serde_json::from_str(document.content.get()).map_err(|error| error.to_string())?;
    if content.naa != naa_name(naa) {
        return Err(format!("it belongs to {}", content.naa));
    }
    let mut nexuses = Vec::new();
    let mut registrations = BTreeMap::new();
    for registration in content.registrations {
        let key = parse_key(&registration.key).ok_or("a key is invalid")?;
        let nexus = RegisteredNexus {
            initiator_port: registration.initiator_port,
            relative_target_port: registration.relative_target_port,
        };
        nexuses.push(nexus.clone());
        if registrations.insert(nexus, key).is_some() {
            return Err("a nexus is registered twice".to_owned());
        }
    }
    let reservation = match content.reservation {
        None => None,
        Some(Reservation { kind, holder }) => Some(PersistentReservation {
            kind: kind.into(),
            holder: match holder {
                None => None,
                Some(at) => Some(
                    nexuses
                        .get(at)
                        .cloned()
                        .ok_or("its holder is not registered")?,
                ),
            },
        }),
    };
    let reservations = PersistentReservations {
        registrations,
        reservation,
    };
    reservations.check().map_err(|error| error.to_string())?;
    Ok(reservations)
}
