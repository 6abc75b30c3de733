// SPDX-License-Identifier: Apache-2.0
//! MODE SELECT(6) and (10) (SPC-5).

use std::sync::atomic::Ordering;

use crate::additional_sense::AdditionalSense;
use crate::commands::mode_pages::{self, CONTROL, D_SENSE, PageControl, SPF};
use crate::execution::{Execution, Failure, Reply};
use crate::logical_unit::LogicalUnit;
use crate::sense::Sense;

/// Operation code of the 6-byte command.
pub(crate) const MODE_SELECT_6: u8 = 0x15;

const LENGTH_ERROR: Sense = Sense::illegal_request(AdditionalSense::PARAMETER_LIST_LENGTH_ERROR);

/// Applies all pages of the parameter list, or none. Only `D_SENSE` of the Control page can change, for every nexus; every other
/// nexus gets MODE PARAMETERS CHANGED. The command table refuses SP, as nothing is saved.
///
/// # Errors
/// INVALID FIELD IN CDB (PF = 0), PARAMETER LIST LENGTH ERROR, INVALID FIELD IN PARAMETER LIST.
pub(crate) async fn mode_select(execution: &mut Execution<'_>) -> Result<Reply, Failure> {
    const PF: u8 = 0x10;
    let cdb = execution.cdb;
    let short = cdb.operation_code() == MODE_SELECT_6;
    if !cdb.bit(1, PF) {
        return Err(Sense::invalid_field_in_cdb(1, Some(4)).into());
    }
    let length = if short {
        u32::from(cdb.byte(4))
    } else {
        u32::from(cdb.u16(7))
    };
    if length == 0 {
        return Ok(Reply::default());
    }
    execution.data_out_required = u64::from(length);
    let list = execution.receive(length).await?;
    let selected = parse(execution.unit, &list, short)?;
    execution.check_aborted()?;
    let mode = &execution.unit.mode;
    let mut changed = false;
    for page in selected {
        let descriptor_sense = page
            .get(D_SENSE.0)
            .is_some_and(|byte| byte & D_SENSE.1 != 0);
        changed |= mode
            .descriptor_sense
            .swap(descriptor_sense, Ordering::Relaxed)
            != descriptor_sense;
    }
    if changed {
        execution.unit.unit_attentions.establish(
            AdditionalSense::MODE_PARAMETERS_CHANGED,
            Some(execution.nexus.id),
        );
    }
    Ok(Reply::default())
}

/// Checks a mode parameter list; returns its Control pages.
fn parse<'a>(unit: &LogicalUnit, list: &'a [u8], short: bool) -> Result<Vec<&'a [u8]>, Sense> {
    const LONGLBA: u8 = 0x01;
    let header_length = if short { 4 } else { 8 };
    let (long_descriptor, descriptor_length) = match *list {
        [_, _, _, descriptor_length, ..] if short => (false, usize::from(descriptor_length)),
        [_, _, _, _, flags, _, high, low, ..] if !short => (
            flags & LONGLBA != 0,
            usize::from(u16::from_be_bytes([high, low])),
        ),
        _ => return Err(LENGTH_ERROR),
    };
    let pages_at = header_length + descriptor_length;
    let descriptor = list.get(header_length..pages_at).ok_or(LENGTH_ERROR)?;
    check_descriptor(unit, descriptor, long_descriptor, header_length)?;
    let mut at = pages_at;
    let mut control = Vec::new();
    while let Some(rest) = list.get(at..).filter(|rest| !rest.is_empty()) {
        let page = check_page(unit, rest, at)?;
        if page.first() == Some(&CONTROL.0) {
            control.push(page);
        }
        at += page.len();
    }
    Ok(control)
}

/// Checks a block descriptor: as returned by MODE SENSE, or with the number of blocks "unchanged" (zero, or all ones).
fn check_descriptor(
    unit: &LogicalUnit,
    descriptor: &[u8],
    long: bool,
    at: usize,
) -> Result<(), Sense> {
    if descriptor.is_empty() {
        return Ok(());
    }
    let present = mode_pages::block_descriptor(unit.capacity(), long);
    if descriptor.len() != present.len() {
        // BLOCK DESCRIPTOR LENGTH is the last field of either header.
        return Err(Sense::invalid_field_in_parameter_list(
            (at - 1) as u16,
            None,
        ));
    }
    let count_length = descriptor.len() / 2;
    let (count, rest) = descriptor.split_at(count_length);
    let (present_count, present_rest) = present.split_at(count_length);
    let unchanged = count.iter().all(|&byte| byte == 0) || count.iter().all(|&byte| byte == 0xff);
    if count != present_count && !unchanged {
        return Err(Sense::invalid_field_in_parameter_list(at as u16, None));
    }
    if rest != present_rest {
        return Err(Sense::invalid_field_in_parameter_list(
            (at + count_length) as u16,
            None,
        ));
    }
    Ok(())
}

/// The page at the start of `rest`, if it is complete and differs from the current one only in changeable bits.
fn check_page<'a>(unit: &LogicalUnit, rest: &'a [u8], at: usize) -> Result<&'a [u8], Sense> {
    const PS: u8 = 0x80;
    const PAGE_CODE: u8 = 0x3f;
    // A parameter list has at most 65535 bytes.
    let invalid =
        |byte: usize, bit| Sense::invalid_field_in_parameter_list((at + byte) as u16, bit);
    let &[first, second, ..] = rest else {
        return Err(LENGTH_ERROR);
    };
    // PS is reserved here, but hosts send a page back as they received it; our pages never set it.
    if first & PS != 0 {
        return Err(invalid(0, Some(7)));
    }
    let (subpage, header_length) = if first & SPF == 0 {
        (0, 2)
    } else {
        (second, 4)
    };
    let code = (first & PAGE_CODE, subpage);
    let current = mode_pages::page(unit, code, PageControl::Current)
        // Subpage 0 has no SPF.
        .filter(|page| page.first() == Some(&first))
        .ok_or(invalid(0, Some(5)))?;
    let changeable = mode_pages::page(unit, code, PageControl::Changeable).unwrap_or_default();
    let header = rest.get(..header_length).ok_or(LENGTH_ERROR)?;
    if !current.starts_with(header) {
        // PAGE LENGTH is the end of the header.
        return Err(invalid(header_length / 2, None));
    }
    let page = rest.get(..current.len()).ok_or(LENGTH_ERROR)?;
    for (index, ((sent, current), changeable)) in page
        .iter()
        .zip(&current)
        .zip(&changeable)
        .enumerate()
        .skip(header_length)
    {
        let refused = (sent ^ current) & !changeable;
        if refused != 0 {
            return Err(invalid(index, Some(refused.ilog2() as u8)));
        }
    }
    Ok(page)
}
