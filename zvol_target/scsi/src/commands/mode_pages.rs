// SPDX-License-Identifier: Apache-2.0
//! Mode pages and the mode parameter block descriptor (SPC-5, SBC-4).

use std::sync::atomic::Ordering;

use volume::LOGICAL_BLOCK_BYTES;

use crate::logical_unit::{Capacity, LogicalUnit};
use crate::provisioning::{Resource, threshold_sets};

/// PAGE CODE and SUBPAGE CODE.
pub(crate) type PageCode = (u8, u8);

pub(crate) const READ_WRITE_ERROR_RECOVERY: PageCode = (0x01, 0);
pub(crate) const DISCONNECT_RECONNECT: PageCode = (0x02, 0);
pub(crate) const CACHING: PageCode = (0x08, 0);
pub(crate) const CONTROL: PageCode = (0x0a, 0);
pub(crate) const CONTROL_EXTENSION: PageCode = (0x0a, 0x01);
pub(crate) const POWER_CONDITION: PageCode = (0x1a, 0);
pub(crate) const INFORMATIONAL_EXCEPTIONS_CONTROL: PageCode = (0x1c, 0);
pub(crate) const LOGICAL_BLOCK_PROVISIONING: PageCode = (0x1c, 0x02);

/// Every page, in ascending order.
pub(crate) const PAGES: [PageCode; 8] = [
    READ_WRITE_ERROR_RECOVERY,
    DISCONNECT_RECONNECT,
    CACHING,
    CONTROL,
    CONTROL_EXTENSION,
    POWER_CONDITION,
    INFORMATIONAL_EXCEPTIONS_CONTROL,
    LOGICAL_BLOCK_PROVISIONING,
];

/// SPF, in the first byte of a page: the page has a subpage code, and four bytes of header.
pub(crate) const SPF: u8 = 0x40;

/// Byte and mask of `D_SENSE` in the Control page, the only field that MODE SELECT can change.
///
/// SWP is not changeable: a host could write-protect the disk of all others, and forget it. Nor is WCE: it is zero, as GOOD means
/// stable.
pub(crate) const D_SENSE: (usize, u8) = (2, 0x04);

/// First bytes of the threshold descriptors in the Logical Block Provisioning page, in this order.
const THRESHOLD_DESCRIPTORS: [(usize, Resource); 2] =
    [(16, Resource::Available), (24, Resource::Used)];

/// Position of a resource's threshold in the Logical Block Provisioning page.
pub(crate) fn threshold_descriptor_at(resource: Resource) -> u64 {
    THRESHOLD_DESCRIPTORS
        .iter()
        .find(|(_, of)| *of == resource)
        .map_or(0, |&(at, _)| at as u64)
}

/// PAGE CONTROL: the kind of values (SPC-5). There are no saved values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageControl {
    Current,
    Changeable,
    Default,
}

/// A page with its header; `None` if it does not exist. All other fields are zero: no retries, no time limits and no timers of
/// power conditions.
pub(crate) fn page(unit: &LogicalUnit, code: PageCode, control: PageControl) -> Option<Vec<u8>> {
    let is_thin = unit.unmap_granularity().is_some();
    let length: u8 = match code {
        READ_WRITE_ERROR_RECOVERY | CONTROL | INFORMATIONAL_EXCEPTIONS_CONTROL => 0x0a,
        DISCONNECT_RECONNECT => 0x0e,
        CACHING => 0x12,
        CONTROL_EXTENSION => 0x1c,
        POWER_CONDITION => 0x26,
        LOGICAL_BLOCK_PROVISIONING if is_thin => 0x1c,
        _ => return None,
    };
    let (code_byte, subpage) = code;
    let mut page = if subpage == 0 {
        vec![code_byte, length]
    } else {
        vec![SPF | code_byte, subpage, 0, length]
    };
    page.resize(page.len() + usize::from(length), 0);
    if control == PageControl::Changeable {
        if code == CONTROL {
            page[D_SENSE.0] |= D_SENSE.1;
        }
        return Some(page);
    }
    match code {
        READ_WRITE_ERROR_RECOVERY if is_thin => {
            /// Soft thresholds are reported.
            const LBPERE: u8 = 0x80;
            page[3] = LBPERE;
        }
        LOGICAL_BLOCK_PROVISIONING => {
            for (at, resource) in THRESHOLD_DESCRIPTORS {
                page[at..at + 8].copy_from_slice(&threshold_descriptor(unit, resource));
            }
        }
        CONTROL => {
            /// No task waits for a task of another host: see the task set.
            const TST_SET_FOR_EACH_NEXUS: u8 = 0x20;
            /// No log parameter is ever saved.
            const GLTSD: u8 = 0x02;
            /// QUEUE ALGORITHM MODIFIER 1: commands run concurrently; only their attributes order them.
            const UNRESTRICTED_REORDERING: u8 = 0x10;
            /// Commands aborted by another nexus end with TASK ABORTED, so that their host does not wait for a timeout.
            const TAS: u8 = 0x40;
            page[2] = TST_SET_FOR_EACH_NEXUS | GLTSD;
            page[3] = UNRESTRICTED_REORDERING;
            page[5] = TAS;
            let current = control == PageControl::Current;
            if current && unit.mode.descriptor_sense.load(Ordering::Relaxed) {
                page[D_SENSE.0] |= D_SENSE.1;
            }
        }
        INFORMATIONAL_EXCEPTIONS_CONTROL => {
            // Informational exceptions are never reported.
            const DEXCPT: u8 = 0x08;
            page[2] = DEXCPT;
        }
        _ => {}
    }
    Some(page)
}

/// Descriptor of a soft threshold; disabled if it is not set. Every nexus gets a unit attention (SITUA = 0).
fn threshold_descriptor(unit: &LogicalUnit, resource: Resource) -> [u8; 8] {
    const ENABLED: u8 = 0x80;
    // THRESHOLD TYPE 000b is soft. THRESHOLD ARMING: reached when the count rises, or when it falls.
    const INCREASING: u8 = 0b001;
    const DECREASING: u8 = 0b010;
    let figures = unit.space.figures().unwrap_or_default();
    let (arming, threshold) = match resource {
        Resource::Available => (DECREASING, figures.available_threshold_bytes),
        Resource::Used => (INCREASING, figures.used_threshold_bytes),
    };
    let mut descriptor = [0; 8];
    descriptor[1] = resource as u8;
    if let Some(bytes) = threshold {
        descriptor[0] = ENABLED | arming;
        descriptor[4..].copy_from_slice(&threshold_sets(bytes).to_be_bytes());
    }
    descriptor
}

/// Short LBA (8 bytes) or long LBA (16 bytes) mode parameter block descriptor (SBC-4).
pub(crate) fn block_descriptor(capacity: Capacity, long: bool) -> Vec<u8> {
    if long {
        let mut descriptor = vec![0; 16];
        descriptor[..8].copy_from_slice(&capacity.blocks().to_be_bytes());
        descriptor[12..].copy_from_slice(&LOGICAL_BLOCK_BYTES.to_be_bytes());
        descriptor
    } else {
        let blocks = u32::try_from(capacity.blocks()).unwrap_or(u32::MAX);
        // LOGICAL BLOCK LENGTH is the low three bytes.
        [blocks.to_be_bytes(), LOGICAL_BLOCK_BYTES.to_be_bytes()].concat()
    }
}
