//! Vital product data pages (SPC-5 7.7, SBC-4).

use crate::commands::inquiry::DIRECT_ACCESS;
use crate::execution::{CHUNK_BYTES, MAXIMUM_TRANSFER_BYTES};
use crate::logical_unit::LogicalUnit;
use crate::sam::Nexus;

const SUPPORTED_PAGES: u8 = 0x00;
const UNIT_SERIAL_NUMBER: u8 = 0x80;
const DEVICE_IDENTIFICATION: u8 = 0x83;
const EXTENDED_INQUIRY_DATA: u8 = 0x86;
const BLOCK_LIMITS: u8 = 0xb0;
const BLOCK_DEVICE_CHARACTERISTICS: u8 = 0xb1;
const LOGICAL_BLOCK_PROVISIONING: u8 = 0xb2;

/// In ascending order, as SPC-5 7.7 wants them.
const PAGES: [u8; 7] = [
    SUPPORTED_PAGES,
    UNIT_SERIAL_NUMBER,
    DEVICE_IDENTIFICATION,
    EXTENDED_INQUIRY_DATA,
    BLOCK_LIMITS,
    BLOCK_DEVICE_CHARACTERISTICS,
    LOGICAL_BLOCK_PROVISIONING,
];

/// The one target port group (SPC-5): every port reaches every unit alike.
const TARGET_PORT_GROUP: u16 = 1;

/// A page of a logical unit, as seen through a nexus; `None` when there is no such page.
pub(crate) fn page(unit: &LogicalUnit, nexus: &Nexus, code: u8) -> Option<Vec<u8>> {
    let body = match code {
        SUPPORTED_PAGES => PAGES.to_vec(),
        UNIT_SERIAL_NUMBER => unit.serial_number().into_bytes(),
        DEVICE_IDENTIFICATION => device_identification(unit, nexus),
        EXTENDED_INQUIRY_DATA => extended_inquiry_data(unit),
        BLOCK_LIMITS => block_limits(unit),
        BLOCK_DEVICE_CHARACTERISTICS => block_device_characteristics(),
        // Everything zero: no unmapping, no thresholds, PROVISIONING TYPE not reported.
        LOGICAL_BLOCK_PROVISIONING => vec![0; 4],
        _ => return None,
    };
    Some(with_header(DIRECT_ACCESS, code, &body))
}

/// A page where no direct-access unit is addressed: only the list of pages, with itself.
pub(crate) fn page_without_unit(peripheral: u8, code: u8) -> Option<Vec<u8>> {
    (code == SUPPORTED_PAGES).then(|| with_header(peripheral, code, &[SUPPORTED_PAGES]))
}

fn with_header(peripheral: u8, code: u8, body: &[u8]) -> Vec<u8> {
    // The largest body is that of Device Identification, below 256 bytes.
    let [high, low] = (body.len() as u16).to_be_bytes();
    [&[peripheral, code, high, low], body].concat()
}

/// Device Identification: two names of the unit, and the port it is seen through.
fn device_identification(unit: &LogicalUnit, nexus: &Nexus) -> Vec<u8> {
    const BINARY: u8 = 1;
    const ASCII: u8 = 2;
    const LOGICAL_UNIT: u8 = 0x00;
    const TARGET_PORT: u8 = 0x10;
    const T10_VENDOR_ID: u8 = 1;
    const NAA: u8 = 3;
    const RELATIVE_TARGET_PORT: u8 = 4;
    const TARGET_PORT_GROUP_TYPE: u8 = 5;
    let mut page = Vec::with_capacity(128);
    let mut designator = |code_set: u8, association_and_type: u8, value: &[u8]| {
        // Values are at most 40 bytes.
        page.extend_from_slice(&[code_set, association_and_type, 0, value.len() as u8]);
        page.extend_from_slice(value);
    };
    designator(BINARY, LOGICAL_UNIT | NAA, &unit.naa());
    let vendor_and_serial = [
        unit.options.product.vendor(),
        unit.serial_number().as_bytes(),
    ]
    .concat();
    designator(ASCII, LOGICAL_UNIT | T10_VENDOR_ID, &vendor_and_serial);
    let [high, low] = nexus.relative_target_port.to_be_bytes();
    designator(
        BINARY,
        TARGET_PORT | RELATIVE_TARGET_PORT,
        &[0, 0, high, low],
    );
    let [high, low] = TARGET_PORT_GROUP.to_be_bytes();
    designator(
        BINARY,
        TARGET_PORT | TARGET_PORT_GROUP_TYPE,
        &[0, 0, high, low],
    );
    page
}

/// Extended INQUIRY Data.
fn extended_inquiry_data(unit: &LogicalUnit) -> Vec<u8> {
    const HEADSUP_ORDSUP_SIMPSUP: u8 = 0x07;
    const V_SUP: u8 = 0x01;
    const LUICLR: u8 = 0x01;
    let mut page = vec![0; 60];
    page[1] = HEADSUP_ORDSUP_SIMPSUP;
    page[2] = if unit.options.write_cache { V_SUP } else { 0 };
    page[3] = LUICLR;
    page
}

/// Block Limits. Limits of commands that are not there are zero.
fn block_limits(unit: &LogicalUnit) -> Vec<u8> {
    let capacity = unit.capacity();
    let maximum = MAXIMUM_TRANSFER_BYTES / capacity.block_bytes();
    let granularity = capacity.blocks_per_physical_block();
    // What is moved at once, and never less than the volume writes without reading first.
    let optimal = (CHUNK_BYTES / capacity.block_bytes())
        .max(granularity)
        .min(maximum);
    let mut page = vec![0; 60];
    page[2..4].copy_from_slice(&u16::try_from(granularity).unwrap_or(0).to_be_bytes());
    page[4..8].copy_from_slice(&maximum.to_be_bytes());
    page[8..12].copy_from_slice(&optimal.to_be_bytes());
    page
}

/// Block Device Characteristics: no rotation; everything else not reported.
fn block_device_characteristics() -> Vec<u8> {
    const NON_ROTATING_MEDIUM: u16 = 1;
    let mut page = vec![0; 60];
    page[..2].copy_from_slice(&NON_ROTATING_MEDIUM.to_be_bytes());
    page
}
