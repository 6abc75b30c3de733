// SPDX-License-Identifier: Apache-2.0
//! MODE SENSE(6) and (10) (SPC-5).

use crate::additional_sense::AdditionalSense;
use crate::commands::mode_pages::{self, PAGES, PageCode, PageControl};
use crate::execution::{Execution, Reply};
use crate::sense::Sense;

/// Operation code of the 6-byte command.
pub(crate) const MODE_SENSE_6: u8 = 0x1a;

/// # Errors
/// SAVING PARAMETERS NOT SUPPORTED; INVALID FIELD IN CDB for an unknown page.
pub(crate) fn mode_sense(execution: &Execution) -> Result<Reply, Sense> {
    const DBD: u8 = 0x08;
    const LLBAA: u8 = 0x10;
    let (unit, cdb) = (execution.unit, execution.cdb);
    let control = match cdb.byte(2) >> 6 {
        0b00 => PageControl::Current,
        0b01 => PageControl::Changeable,
        0b10 => PageControl::Default,
        _ => {
            return Err(Sense::illegal_request(
                AdditionalSense::SAVING_PARAMETERS_NOT_SUPPORTED,
            ));
        }
    };
    let pages = pages(execution, control)?;
    let short = cdb.operation_code() == MODE_SENSE_6;
    let with_descriptor = !cdb.bit(1, DBD);
    let long_descriptor = with_descriptor && !short && cdb.bit(1, LLBAA);
    let descriptor = if with_descriptor {
        mode_pages::block_descriptor(unit.capacity(), long_descriptor)
    } else {
        Vec::new()
    };
    let device_specific = device_specific_parameter(unit.write_protection().is_some());
    // All pages with the long descriptor are 160 bytes.
    let length = descriptor.len() + pages.len();
    let descriptor_length = descriptor.len() as u8;
    let (header, allocation_length) = if short {
        (
            vec![(length + 3) as u8, 0, device_specific, descriptor_length],
            u32::from(cdb.byte(4)),
        )
    } else {
        let long = u8::from(long_descriptor);
        (
            vec![
                0,
                (length + 6) as u8,
                0,
                device_specific,
                long,
                0,
                0,
                descriptor_length,
            ],
            u32::from(cdb.u16(7)),
        )
    };
    Ok(Reply::parameter_data(
        &[header, descriptor, pages].concat(),
        allocation_length,
    ))
}

fn pages(execution: &Execution, control: PageControl) -> Result<Vec<u8>, Sense> {
    const ALL_PAGES: u8 = 0x3f;
    const ALL_SUBPAGES: u8 = 0xff;
    let (code, subpage) = (execution.cdb.byte(2) & 0x3f, execution.cdb.byte(3));
    if code == ALL_PAGES && subpage != 0 && subpage != ALL_SUBPAGES {
        return Err(Sense::invalid_field_in_cdb(3, None));
    }
    if code != ALL_PAGES && !PAGES.iter().any(|&(of, _)| of == code) {
        return Err(Sense::invalid_field_in_cdb(2, Some(5)));
    }
    let requested = |&&(of, sub): &&PageCode| {
        (code == ALL_PAGES || code == of) && (subpage == ALL_SUBPAGES || subpage == sub)
    };
    let pages: Vec<_> = PAGES
        .iter()
        .filter(requested)
        .filter_map(|&code| mode_pages::page(execution.unit, code, control))
        .collect();
    if pages.is_empty() {
        return Err(Sense::invalid_field_in_cdb(3, None));
    }
    Ok(pages.concat())
}

/// DEVICE-SPECIFIC PARAMETER of direct-access devices (SBC-4).
fn device_specific_parameter(write_protected: bool) -> u8 {
    const WP: u8 = 0x80;
    const DPOFUA: u8 = 0x10;
    DPOFUA | if write_protected { WP } else { 0 }
}
