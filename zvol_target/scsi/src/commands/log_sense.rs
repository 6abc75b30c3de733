// SPDX-License-Identifier: Apache-2.0
//! LOG SENSE (SPC-5).

use crate::execution::{Execution, Reply};
use crate::provisioning::{Resource, SpaceFigures, threshold_sets};
use crate::sense::Sense;
use crate::statistics::{Family, FamilyStatistics};

/// PAGE CODE and SUBPAGE CODE.
type PageCode = (u8, u8);

const SUPPORTED_LOG_PAGES: PageCode = (0x00, 0x00);
const SUPPORTED_LOG_PAGES_AND_SUBPAGES: PageCode = (0x00, 0xff);
const WRITE_ERROR_COUNTERS: PageCode = (0x02, 0x00);
const READ_ERROR_COUNTERS: PageCode = (0x03, 0x00);
const VERIFY_ERROR_COUNTERS: PageCode = (0x05, 0x00);
const LOGICAL_BLOCK_PROVISIONING: PageCode = (0x0c, 0x00);
const INFORMATIONAL_EXCEPTIONS: PageCode = (0x2f, 0x00);

/// Every page, in ascending order.
const PAGES: [PageCode; 7] = [
    SUPPORTED_LOG_PAGES,
    SUPPORTED_LOG_PAGES_AND_SUBPAGES,
    WRITE_ERROR_COUNTERS,
    READ_ERROR_COUNTERS,
    VERIFY_ERROR_COUNTERS,
    LOGICAL_BLOCK_PROVISIONING,
    INFORMATIONAL_EXCEPTIONS,
];

/// Supports cumulative values only: there are no thresholds and no saved values. They count from the creation of the logical
/// unit.
///
/// # Errors
/// INVALID FIELD IN CDB for an unknown page, values other than cumulative ones, or a PARAMETER POINTER beyond the last parameter.
pub(crate) fn log_sense(execution: &Execution) -> Result<Reply, Sense> {
    const CUMULATIVE: u8 = 0b01;
    const SPF: u8 = 0x40;
    /// Nothing is saved.
    const DS: u8 = 0x80;
    let cdb = execution.cdb;
    let code = (cdb.byte(2) & 0x3f, cdb.byte(3));
    let parameter_pointer = cdb.u16(5);
    let pages = || PAGES.into_iter().filter(|&code| exists(execution, code));
    if !pages().any(|page| page == code) {
        let field = if pages().any(|(page, _)| page == code.0) {
            Sense::invalid_field_in_cdb(3, None)
        } else {
            Sense::invalid_field_in_cdb(2, Some(5))
        };
        return Err(field);
    }
    let is_list = code.0 == SUPPORTED_LOG_PAGES.0;
    if !is_list && cdb.byte(2) >> 6 != CUMULATIVE {
        return Err(Sense::invalid_field_in_cdb(2, Some(7)));
    }
    let body = if is_list {
        (parameter_pointer == 0).then(|| list(code, pages()))
    } else {
        parameters(execution, code, parameter_pointer)
    }
    .ok_or(Sense::invalid_field_in_cdb(5, None))?;
    let first = code.0 | if is_list { 0 } else { DS } | if code.1 == 0 { 0 } else { SPF };
    // At most a few hundred bytes.
    let [high, low] = (body.len() as u16).to_be_bytes();
    let data = [&[first, code.1, high, low][..], &body].concat();
    Ok(Reply::parameter_data(&data, u32::from(cdb.u16(7))))
}

/// The provisioning page exists if the unit can unmap and its space is known.
fn exists(execution: &Execution, code: PageCode) -> bool {
    code != LOGICAL_BLOCK_PROVISIONING
        || (execution.unmap_granularity().is_some() && execution.unit.space.figures().is_some())
}

/// List of the pages, or of the pages and subpages.
fn list(code: PageCode, pages: impl Iterator<Item = PageCode>) -> Vec<u8> {
    if code == SUPPORTED_LOG_PAGES {
        let mut codes: Vec<_> = pages.map(|(page, _)| page).collect();
        codes.dedup();
        codes
    } else {
        pages.flat_map(|(page, subpage)| [page, subpage]).collect()
    }
}

/// Parameters of a page from the code `from` on; `None` if there are none.
fn parameters(execution: &Execution, code: PageCode, from: u16) -> Option<Vec<u8>> {
    let statistics = execution.unit.statistics();
    let all = match code {
        WRITE_ERROR_COUNTERS => error_counters(&statistics[Family::Write]),
        READ_ERROR_COUNTERS => error_counters(&statistics[Family::Read]),
        VERIFY_ERROR_COUNTERS => error_counters(&statistics[Family::Verify]),
        LOGICAL_BLOCK_PROVISIONING => {
            let figures = execution.unit.space.figures().unwrap_or_default();
            logical_block_provisioning(figures)
        }
        _ => vec![informational_exceptions()],
    };
    let parameters: Vec<_> = all
        .into_iter()
        .filter(|&(code, _)| code >= from)
        .flat_map(|(code, parameter)| {
            let [high, low] = code.to_be_bytes();
            [vec![high, low], parameter].concat()
        })
        .collect();
    (!parameters.is_empty()).then_some(parameters)
}

/// A log parameter by its code: parameter control byte, length, value.
type Parameter = (u16, Vec<u8>);

/// TSD: the value is not saved. The low bits are FORMAT AND LINKING.
const COUNTER: u8 = 0x20 | 0b10;
const BINARY_LIST: u8 = 0x20 | 0b11;

fn counter(code: u16, value: u64) -> Parameter {
    (code, [&[COUNTER, 8][..], &value.to_be_bytes()].concat())
}

/// Error counters of a family. ZFS does not report corrected errors, so those counters are omitted.
fn error_counters(family: &FamilyStatistics) -> Vec<Parameter> {
    const TOTAL_BYTES_PROCESSED: u16 = 0x0005;
    const TOTAL_UNCORRECTED_ERRORS: u16 = 0x0006;
    vec![
        counter(TOTAL_BYTES_PROCESSED, family.bytes),
        counter(TOTAL_UNCORRECTED_ERRORS, family.medium_errors),
    ]
}

/// Available and used LBA mapping resources, in threshold sets. Available resources are shared with other users.
fn logical_block_provisioning(figures: SpaceFigures) -> Vec<Parameter> {
    // SCOPE.
    const DEDICATED: u8 = 0b01;
    const NOT_DEDICATED: u8 = 0b10;
    let resource = |resource: Resource, bytes, scope| {
        let mut parameter = vec![BINARY_LIST, 8];
        parameter.extend_from_slice(&threshold_sets(bytes).to_be_bytes());
        parameter.extend_from_slice(&[scope, 0, 0, 0]);
        (resource as u16, parameter)
    };
    vec![
        resource(Resource::Available, figures.available_bytes, NOT_DEDICATED),
        resource(Resource::Used, figures.used_bytes, DEDICATED),
    ]
}

/// No informational exception; the temperature is unknown.
fn informational_exceptions() -> Parameter {
    const NO_TEMPERATURE: u8 = 0xff;
    (0x0000, vec![BINARY_LIST, 4, 0, 0, NO_TEMPERATURE, 0])
}
