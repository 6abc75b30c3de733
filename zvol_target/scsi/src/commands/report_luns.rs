// SPDX-License-Identifier: Apache-2.0
//! REPORT LUNS (SPC-5).

use crate::address::{REPORT_LUNS_WELL_KNOWN, logical_unit_number};
use crate::cdb::Cdb;
use crate::device::Device;
use crate::execution::Reply;
use crate::sam::Nexus;
use crate::sense::Sense;

/// # Errors
/// INVALID FIELD IN CDB for an allocation length below 16, or a SELECT REPORT that is not supported.
pub(crate) fn report_luns(device: &Device, nexus: &Nexus, cdb: Cdb) -> Result<Reply, Sense> {
    const MINIMUM_ALLOCATION_LENGTH: u32 = 16;
    let (units, well_known) = match cdb.byte(2) {
        0x00 => (true, false),
        0x01 => (false, true),
        0x02 => (true, true),
        _ => return Err(Sense::invalid_field_in_cdb(2, None)),
    };
    let allocation_length = cdb.u32(6);
    if allocation_length < MINIMUM_ALLOCATION_LENGTH {
        return Err(Sense::invalid_field_in_cdb(6, None));
    }
    // Clear it first: a later change is a new condition, and one in between is in the list already.
    device.clear_reported_luns_changed(nexus.id);
    let mut numbers = Vec::new();
    if well_known {
        numbers.push(REPORT_LUNS_WELL_KNOWN);
    }
    if units {
        let visible = device.visible_numbers(nexus);
        numbers.extend(visible.into_iter().map(logical_unit_number));
    }
    let mut data = Vec::with_capacity(8 + numbers.len() * 8);
    // LUN LIST LENGTH: at most 16385 entries.
    data.extend_from_slice(&((numbers.len() * 8) as u32).to_be_bytes());
    data.extend_from_slice(&[0; 4]);
    for number in numbers {
        data.extend_from_slice(&number.0);
    }
    Ok(Reply::parameter_data(&data, allocation_length))
}
