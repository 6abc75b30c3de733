// SPDX-License-Identifier: Apache-2.0
//! INQUIRY (SPC-5).

use crate::address::Address;
use crate::cdb::Cdb;
use crate::commands::vital_product_data;
use crate::device::Device;
use crate::execution::{Execution, Reply};
use crate::identity::ProductIdentification;
use crate::offload::Offload;
use crate::sense::Sense;

/// PERIPHERAL QUALIFIER and PERIPHERAL DEVICE TYPE: a direct-access block device is connected.
pub(crate) const DIRECT_ACCESS: u8 = 0x00;
/// A well-known logical unit is connected.
pub(crate) const WELL_KNOWN: u8 = 0x1e;
/// No device is connected, or can be.
pub(crate) const NOT_PRESENT: u8 = 0x7f;

/// No device is connected, but one could be. For LUN 0: Windows and boot code query it first, and ignore the whole target after
/// [`NOT_PRESENT`].
pub(crate) const NOT_CONNECTED: u8 = 0x3f;

const EVPD: u8 = 0x01;

/// 3PC, in byte 5.
const THIRD_PARTY_COPY: u8 = 0x08;

/// # Errors
/// INVALID FIELD IN CDB for an unknown page, or a page code without EVPD.
pub(crate) fn inquiry(execution: &Execution) -> Result<Reply, Sense> {
    let cdb = execution.cdb;
    let data = if cdb.bit(1, EVPD) {
        vital_product_data::page(execution, cdb.byte(2))
            .ok_or(Sense::invalid_field_in_cdb(2, None))?
    } else {
        let product = &execution.unit.options.product;
        let mut data = standard_data(execution.device, cdb, DIRECT_ACCESS, product)?;
        if [Offload::ExtendedCopy, Offload::Token]
            .into_iter()
            .any(|offload| execution.offloads.contains(offload))
        {
            data[5] |= THIRD_PARTY_COPY;
        }
        data
    };
    Ok(Reply::parameter_data(&data, u32::from(cdb.u16(3))))
}

/// INQUIRY to the REPORT LUNS well-known logical unit, or to a number without logical unit.
///
/// # Errors
/// The errors of [`inquiry`].
pub(crate) fn inquiry_without_unit(
    device: &Device,
    cdb: Cdb,
    address: Address,
) -> Result<Reply, Sense> {
    let peripheral = match address {
        Address::ReportLuns => WELL_KNOWN,
        Address::Number(0) => NOT_CONNECTED,
        _ => NOT_PRESENT,
    };
    let data = if cdb.bit(1, EVPD) {
        vital_product_data::page_without_unit(peripheral, cdb.byte(2))
            .ok_or(Sense::invalid_field_in_cdb(2, None))?
    } else {
        standard_data(device, cdb, peripheral, device.product())?
    };
    Ok(Reply::parameter_data(&data, u32::from(cdb.u16(3))))
}

/// Standard INQUIRY data (SPC-5).
fn standard_data(
    device: &Device,
    cdb: Cdb,
    peripheral: u8,
    product: &ProductIdentification,
) -> Result<Vec<u8>, Sense> {
    /// SPC-4.
    const VERSION: u8 = 0x06;
    const HISUP: u8 = 0x10;
    const RESPONSE_DATA_FORMAT: u8 = 0x02;
    /// Asymmetric access: implicit only, with REPORT TARGET PORT GROUPS.
    const TPGS_IMPLICIT: u8 = 0x10;
    const MULTIP: u8 = 0x10;
    const CMDQUE: u8 = 0x02;
    /// SAM-5, SPC-4 and SBC-3, without a version.
    const VERSION_DESCRIPTORS: [u16; 3] = [0x00a0, 0x0460, 0x04c0];
    if cdb.byte(2) != 0 {
        return Err(Sense::invalid_field_in_cdb(2, None));
    }
    let mut data = vec![0; 96];
    data[0] = peripheral;
    data[2] = VERSION;
    data[3] = HISUP | RESPONSE_DATA_FORMAT;
    data[4] = 96 - 5;
    if peripheral == DIRECT_ACCESS {
        data[5] = TPGS_IMPLICIT;
    }
    data[6] = if device.names().1.len() > 1 {
        MULTIP
    } else {
        0
    };
    data[7] = CMDQUE;
    data[8..36].copy_from_slice(&product.inquiry_bytes());
    for (field, descriptor) in data[58..74].chunks_exact_mut(2).zip(VERSION_DESCRIPTORS) {
        field.copy_from_slice(&descriptor.to_be_bytes());
    }
    Ok(data)
}
