// SPDX-License-Identifier: Apache-2.0
//! READ DEFECT DATA(10) and (12) (SBC-4).

use crate::execution::{Execution, Reply};

/// Operation code of the 10-byte command.
const READ_DEFECT_DATA_10: u8 = 0x37;

/// Returns both lists, always empty: bad blocks of the devices under the volume are not those of this unit.
pub(crate) fn read_defect_data(execution: &Execution) -> Reply {
    /// `REQ_PLIST`, `REQ_GLIST` and DEFECT LIST FORMAT are returned as `PLISTV`, `GLISTV` and the format.
    const REQUEST: u8 = 0x1f;
    let cdb = execution.cdb;
    if cdb.operation_code() == READ_DEFECT_DATA_10 {
        let data = [0, cdb.byte(2) & REQUEST, 0, 0];
        Reply::parameter_data(&data, u32::from(cdb.u16(7)))
    } else {
        let data = [0, cdb.byte(1) & REQUEST, 0, 0, 0, 0, 0, 0];
        Reply::parameter_data(&data, cdb.u32(6))
    }
}
