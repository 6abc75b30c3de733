//! Mode pages and the mode parameter block descriptor (SPC-5, SBC-4).

use crate::logical_unit::{Capacity, LogicalUnit};
use std::sync::atomic::Ordering;

pub(crate) const DISCONNECT_RECONNECT: u8 = 0x02;
pub(crate) const CACHING: u8 = 0x08;
pub(crate) const CONTROL: u8 = 0x0a;
pub(crate) const INFORMATIONAL_EXCEPTIONS_CONTROL: u8 = 0x1c;

/// Every page, in ascending order.
pub(crate) const PAGES: [u8; 4] = [
    DISCONNECT_RECONNECT,
    CACHING,
    CONTROL,
    INFORMATIONAL_EXCEPTIONS_CONTROL,
];

/// Byte of the Control page that has `D_SENSE`, and its mask.
pub(crate) const D_SENSE: (usize, u8) = (2, 0x04);
/// Byte of the Control page that has SWP, and its mask.
pub(crate) const SWP: (usize, u8) = (4, 0x08);

/// PAGE CONTROL: which values of the parameters (SPC-5). There are no saved values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageControl {
    Current,
    Changeable,
    Default,
}

/// A page with its two-byte header; `None` when there is no such page.
pub(crate) fn page(unit: &LogicalUnit, code: u8, control: PageControl) -> Option<Vec<u8>> {
    let length: u8 = match code {
        DISCONNECT_RECONNECT => 0x0e,
        CACHING => 0x12,
        CONTROL | INFORMATIONAL_EXCEPTIONS_CONTROL => 0x0a,
        _ => return None,
    };
    let mut page = vec![0; usize::from(length) + 2];
    page[0] = code;
    page[1] = length;
    match (code, control) {
        (CONTROL, PageControl::Changeable) => {
            page[D_SENSE.0] |= D_SENSE.1;
            page[SWP.0] |= SWP.1;
        }
        (CONTROL, _) => {
            // QUEUE ALGORITHM MODIFIER 1: commands run concurrently, nothing but their attributes orders them.
            const UNRESTRICTED_REORDERING: u8 = 0x10;
            // Commands aborted by another nexus end with TASK ABORTED: no host waits for what never comes.
            const TAS: u8 = 0x40;
            page[3] = UNRESTRICTED_REORDERING;
            page[5] = TAS;
            if control == PageControl::Current {
                if unit.mode.descriptor_sense.load(Ordering::Relaxed) {
                    page[D_SENSE.0] |= D_SENSE.1;
                }
                if unit.mode.software_write_protect.load(Ordering::Relaxed) {
                    page[SWP.0] |= SWP.1;
                }
            }
        }
        (CACHING, PageControl::Current | PageControl::Default) => {
            // Chosen where the unit is configured, not by a host: losing writes is the administrator's risk to take.
            const WCE: u8 = 0x04;
            page[2] = if unit.options.write_cache { WCE } else { 0 };
        }
        (INFORMATIONAL_EXCEPTIONS_CONTROL, PageControl::Current | PageControl::Default) => {
            // No informational exception is ever reported.
            const DEXCPT: u8 = 0x08;
            page[2] = DEXCPT;
        }
        _ => {}
    }
    Some(page)
}

/// Short LBA (8 bytes) or long LBA (16 bytes) mode parameter block descriptor (SBC-4).
pub(crate) fn block_descriptor(capacity: Capacity, long: bool) -> Vec<u8> {
    if long {
        let mut descriptor = vec![0; 16];
        descriptor[..8].copy_from_slice(&capacity.blocks().to_be_bytes());
        descriptor[12..].copy_from_slice(&capacity.block_bytes().to_be_bytes());
        descriptor
    } else {
        let blocks = u32::try_from(capacity.blocks()).unwrap_or(u32::MAX);
        // LOGICAL BLOCK LENGTH is the low three bytes: 512 or 4096.
        [blocks.to_be_bytes(), capacity.block_bytes().to_be_bytes()].concat()
    }
}
