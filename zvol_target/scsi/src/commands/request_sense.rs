// SPDX-License-Identifier: Apache-2.0
//! REQUEST SENSE (SPC-5).

use crate::additional_sense::AdditionalSense;
use crate::cdb::Cdb;
use crate::execution::{Execution, Reply};
use crate::router::NOT_READY;
use crate::sense::{Sense, SenseFormat, SenseKey};

/// No condition to report.
pub(crate) const NO_SENSE: Sense = Sense::new(
    SenseKey::NoSense,
    AdditionalSense::NO_ADDITIONAL_SENSE_INFORMATION,
);

/// Reports and clears a pending unit attention. Without one, reports whether the unit is ready (SPC-5, pollable sense data). All
/// other sense data was sent with its status.
pub(crate) fn request_sense(execution: &Execution) -> Reply {
    let nexus = execution.nexus.id;
    let sense = match execution.unit.unit_attentions.take(nexus) {
        Some(condition) => {
            if condition == AdditionalSense::REPORTED_LUNS_DATA_HAS_CHANGED {
                execution.device.clear_reported_luns_changed(nexus);
            }
            execution.unit.unit_attention_sense(condition)
        }
        None if !execution.unit.is_ready() => NOT_READY,
        None => NO_SENSE,
    };
    parameter_data(execution.cdb, sense)
}

/// The sense data in the format that DESC selects.
pub(crate) fn parameter_data(cdb: Cdb, sense: Sense) -> Reply {
    const DESC: u8 = 0x01;
    let data = sense.to_bytes(SenseFormat::from_bit(cdb.bit(1, DESC)));
    Reply::parameter_data(&data, u32::from(cdb.byte(4)))
}
