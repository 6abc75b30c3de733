// SPDX-License-Identifier: Apache-2.0
//! REPORT SUPPORTED OPERATION CODES and REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS (SPC-5).

use crate::cdb::Cdb;
use crate::command_table::{COMMANDS, CommandDescription, with_operation_code};
use crate::execution::{Execution, Reply};
use crate::sense::Sense;

const SERVACTV: u8 = 0x01;
const CTDP_ALL: u8 = 0x02;
const CTDP_ONE: u8 = 0x80;

/// Command timeouts descriptor with no timeouts: its length field and ten zero bytes (SPC-5).
const TIMEOUTS: [u8; 12] = [0x00, 0x0a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// # Errors
/// INVALID FIELD IN CDB for reporting options that do not match the operation code.
pub(crate) fn operation_codes(execution: &Execution) -> Result<Reply, Sense> {
    const RCTD: u8 = 0x80;
    let cdb = execution.cdb;
    let offered =
        |command: &&CommandDescription| execution.unit.offers(command, execution.offloads);
    let with_timeouts = cdb.bit(2, RCTD);
    let candidates = || with_operation_code(cdb.byte(3)).iter().filter(offered);
    let has_actions = candidates().any(|command| command.has_service_action);
    let action = cdb.u16(4);
    let requested = || {
        candidates().find(|command| {
            command
                .service_action()
                .is_none_or(|has| u16::from(has) == action)
        })
    };
    let data = match cdb.byte(2) & 0x07 {
        0b000 => all(COMMANDS.iter().filter(offered), with_timeouts),
        0b001 if has_actions => return Err(Sense::invalid_field_in_cdb(2, Some(2))),
        0b001 => single_command(candidates().next(), with_timeouts),
        0b010 if !has_actions => return Err(Sense::invalid_field_in_cdb(2, Some(2))),
        // A command without service actions has action zero only.
        0b011 if !has_actions && action != 0 => single_command(None, with_timeouts),
        0b010 | 0b011 => single_command(requested(), with_timeouts),
        _ => return Err(Sense::invalid_field_in_cdb(2, Some(2))),
    };
    Ok(Reply::parameter_data(&data, cdb.u32(6)))
}

/// `All_commands` parameter data.
fn all(
    commands: impl Iterator<Item = &'static CommandDescription>,
    with_timeouts: bool,
) -> Vec<u8> {
    let mut data = vec![0; 4];
    for command in commands {
        let flags = if command.has_service_action {
            SERVACTV
        } else {
            0
        } | if with_timeouts { CTDP_ALL } else { 0 };
        let action = command.service_action().unwrap_or(0);
        // At most 16 bytes.
        let length = command.usage.len() as u8;
        data.extend_from_slice(&[command.operation_code(), 0, 0, action, 0, flags, 0, length]);
        if with_timeouts {
            data.extend_from_slice(&TIMEOUTS);
        }
    }
    // COMMAND DATA LENGTH: a few hundred bytes.
    let length = (data.len() - 4) as u32;
    data[..4].copy_from_slice(&length.to_be_bytes());
    data
}

/// `One_command` parameter data.
fn single_command(command: Option<&CommandDescription>, with_timeouts: bool) -> Vec<u8> {
    const NOT_SUPPORTED: u8 = 0b001;
    const SUPPORTED_AS_STANDARD: u8 = 0b011;
    let Some(command) = command else {
        return vec![0, NOT_SUPPORTED, 0, 0];
    };
    let flags = SUPPORTED_AS_STANDARD | if with_timeouts { CTDP_ONE } else { 0 };
    // At most 16 bytes.
    let mut data = vec![0, flags, 0, command.usage.len() as u8];
    data.extend_from_slice(command.usage);
    if with_timeouts {
        data.extend_from_slice(&TIMEOUTS);
    }
    data
}

/// # Errors
/// INVALID FIELD IN CDB for an allocation length below four.
pub(crate) fn task_management_functions(cdb: Cdb) -> Result<Reply, Sense> {
    const REPD: u8 = 0x80;
    const MINIMUM_ALLOCATION_LENGTH: u32 = 4;
    const ABORT_TASK: u8 = 0x80;
    const ABORT_TASK_SET: u8 = 0x40;
    const CLEAR_TASK_SET: u8 = 0x10;
    const LOGICAL_UNIT_RESET: u8 = 0x08;
    const TARGET_RESET: u8 = 0x02;
    const EXTENDED_LENGTH: u8 = 0x0c;
    let allocation_length = cdb.u32(6);
    if allocation_length < MINIMUM_ALLOCATION_LENGTH {
        return Err(Sense::invalid_field_in_cdb(6, None));
    }
    let functions =
        ABORT_TASK | ABORT_TASK_SET | CLEAR_TASK_SET | LOGICAL_UNIT_RESET | TARGET_RESET;
    // With REPD, no timeouts are specified: TMFTMOV and all twelve bytes are zero.
    let mut data = vec![functions, 0, 0, 0];
    if cdb.bit(2, REPD) {
        data[3] = EXTENDED_LENGTH;
        data.extend_from_slice(&[0; EXTENDED_LENGTH as usize]);
    }
    Ok(Reply::parameter_data(&data, allocation_length))
}
