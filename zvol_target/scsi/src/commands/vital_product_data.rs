// SPDX-License-Identifier: Apache-2.0
//! Vital product data pages (SPC-5 7.7, SBC-4).

use crate::commands::inquiry::DIRECT_ACCESS;
use crate::commands::{block_pages, designation};
use crate::execution::Execution;
use crate::offload::Offload;
use crate::third_party_copy::third_party_copy_page;

const SUPPORTED_PAGES: u8 = 0x00;
const UNIT_SERIAL_NUMBER: u8 = 0x80;
const DEVICE_IDENTIFICATION: u8 = 0x83;
const EXTENDED_INQUIRY_DATA: u8 = 0x86;
const MODE_PAGE_POLICY: u8 = 0x87;
const SCSI_PORTS: u8 = 0x88;
const THIRD_PARTY_COPY: u8 = 0x8f;
const BLOCK_LIMITS: u8 = 0xb0;
const BLOCK_DEVICE_CHARACTERISTICS: u8 = 0xb1;
const LOGICAL_BLOCK_PROVISIONING: u8 = 0xb2;

/// In ascending order, as required by SPC-5 7.7.
const PAGES: [u8; 10] = [
    SUPPORTED_PAGES,
    UNIT_SERIAL_NUMBER,
    DEVICE_IDENTIFICATION,
    EXTENDED_INQUIRY_DATA,
    MODE_PAGE_POLICY,
    SCSI_PORTS,
    THIRD_PARTY_COPY,
    BLOCK_LIMITS,
    BLOCK_DEVICE_CHARACTERISTICS,
    LOGICAL_BLOCK_PROVISIONING,
];

/// Mode page policy descriptor (SPC-5 7.7.9): all pages and subpages are shared by all nexuses.
const MODE_PAGES_ARE_SHARED: [u8; 4] = [0x3f, 0xff, 0x00, 0];

/// A page of a logical unit for a nexus; `None` if it does not exist.
pub(crate) fn page(execution: &Execution, code: u8) -> Option<Vec<u8>> {
    let unit = execution.unit;
    if !is_offered(execution, code) {
        return None;
    }
    let body = match code {
        SUPPORTED_PAGES => {
            let pages = PAGES.into_iter();
            pages.filter(|&page| is_offered(execution, page)).collect()
        }
        UNIT_SERIAL_NUMBER => unit.serial_number().into_bytes(),
        DEVICE_IDENTIFICATION => designation::device_identification(execution),
        EXTENDED_INQUIRY_DATA => extended_inquiry_data(),
        MODE_PAGE_POLICY => MODE_PAGES_ARE_SHARED.to_vec(),
        SCSI_PORTS => designation::scsi_ports(execution),
        THIRD_PARTY_COPY => third_party_copy_page(execution),
        BLOCK_LIMITS => block_pages::block_limits(execution),
        BLOCK_DEVICE_CHARACTERISTICS => block_pages::block_device_characteristics(),
        LOGICAL_BLOCK_PROVISIONING => block_pages::logical_block_provisioning(execution),
        _ => return None,
    };
    Some(with_header(DIRECT_ACCESS, code, &body))
}

/// Whether the host gets the page: a page for an offload requires the offload.
fn is_offered(execution: &Execution, page: u8) -> bool {
    page != THIRD_PARTY_COPY
        || [Offload::ExtendedCopy, Offload::Token]
            .into_iter()
            .any(|offload| execution.offloads.contains(offload))
}

/// A page without a direct-access unit: only the list of pages, which contains itself.
pub(crate) fn page_without_unit(peripheral: u8, code: u8) -> Option<Vec<u8>> {
    (code == SUPPORTED_PAGES).then(|| with_header(peripheral, code, &[SUPPORTED_PAGES]))
}

fn with_header(peripheral: u8, code: u8, body: &[u8]) -> Vec<u8> {
    // The largest body is that of SCSI Ports: a few hundred bytes for each port.
    let [high, low] = (body.len() as u16).to_be_bytes();
    [&[peripheral, code, high, low], body].concat()
}

/// Extended INQUIRY Data.
fn extended_inquiry_data() -> Vec<u8> {
    const HEADSUP_ORDSUP_SIMPSUP: u8 = 0x07;
    const LUICLR: u8 = 0x01;
    let mut page = vec![0; 60];
    page[1] = HEADSUP_ORDSUP_SIMPSUP;
    page[3] = LUICLR;
    page
}
