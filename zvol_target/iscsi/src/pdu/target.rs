// SPDX-License-Identifier: Apache-2.0
//! PDUs a target sends (RFC 7143 11).

use super::OPCODE_MASK;
use super::layout::{BHS_LENGTH, Bit, Bits, Byte, Bytes, Half, Header, Locator, Word, pdu};

pdu! {
    /// NOP-In (11.19).
    NopIn, opcode 0x20, byte 0 0, byte 1 0x80,
    {
        /// Logical Unit Number.
        lun: [u8; 8] = Bytes::<8>(8),
        /// Initiator Task Tag; the reserved value in a NOP-In from the target's side.
        initiator_task_tag: u32 = Word(16),
        /// Target Transfer Tag; the reserved value requests no answer.
        target_transfer_tag: u32 = Word(20),
        /// `StatSN`
        stat_sn: u32 = Word(24),
        /// `ExpCmdSN`
        exp_cmd_sn: u32 = Word(28),
        /// `MaxCmdSN`
        max_cmd_sn: u32 = Word(32),
    }
}

pdu! {
    /// SCSI Response (11.4).
    ScsiResponse, opcode 0x21, byte 0 0, byte 1 0x80,
    {
        /// O bit.
        overflow: bool = Bit(1, 0x04),
        /// U bit.
        underflow: bool = Bit(1, 0x02),
        /// Response (11.4.3).
        response: u8 = Byte(2),
        /// Status (11.4.2).
        status: u8 = Byte(3),
        /// Initiator Task Tag.
        initiator_task_tag: u32 = Word(16),
        /// SNACK Tag.
        snack_tag: u32 = Word(20),
        /// `StatSN`
        stat_sn: u32 = Word(24),
        /// `ExpCmdSN`
        exp_cmd_sn: u32 = Word(28),
        /// `MaxCmdSN`
        max_cmd_sn: u32 = Word(32),
        /// `ExpDataSN`: Data-In and R2T PDUs sent for the command.
        exp_data_sn: u32 = Word(36),
        /// Residual Count.
        residual: u32 = Word(44),
    }
}

pdu! {
    /// Task Management Function Response (11.6).
    TaskManagementResponse, opcode 0x22, byte 0 0, byte 1 0x80,
    {
        /// Response (11.6.1).
        response: u8 = Byte(2),
        /// Initiator Task Tag.
        initiator_task_tag: u32 = Word(16),
        /// `StatSN`
        stat_sn: u32 = Word(24),
        /// `ExpCmdSN`
        exp_cmd_sn: u32 = Word(28),
        /// `MaxCmdSN`
        max_cmd_sn: u32 = Word(32),
    }
}

pdu! {
    /// Login Response (11.13).
    LoginResponse, opcode 0x23, byte 0 0, byte 1 0,
    {
        /// T bit.
        transit: bool = Bit(1, 0x80),
        /// C bit.
        r#continue: bool = Bit(1, 0x40),
        /// CSG.
        current_stage: u8 = Bits(1, 0x0c),
        /// NSG.
        next_stage: u8 = Bits(1, 0x03),
        /// Version-max.
        version_max: u8 = Byte(2),
        /// Version-active.
        version_active: u8 = Byte(3),
        /// ISID.
        isid: [u8; 6] = Bytes::<6>(8),
        /// TSIH.
        tsih: u16 = Half(14),
        /// Initiator Task Tag.
        initiator_task_tag: u32 = Word(16),
        /// `StatSN`
        stat_sn: u32 = Word(24),
        /// `ExpCmdSN`
        exp_cmd_sn: u32 = Word(28),
        /// `MaxCmdSN`
        max_cmd_sn: u32 = Word(32),
        /// Status-Class.
        status_class: u8 = Byte(36),
        /// Status-Detail.
        status_detail: u8 = Byte(37),
    }
}

pdu! {
    /// Text Response (11.11).
    TextResponse, opcode 0x24, byte 0 0, byte 1 0,
    {
        /// F bit.
        r#final: bool = Bit(1, 0x80),
        /// C bit.
        r#continue: bool = Bit(1, 0x40),
        /// Logical Unit Number.
        lun: [u8; 8] = Bytes::<8>(8),
        /// Initiator Task Tag.
        initiator_task_tag: u32 = Word(16),
        /// Target Transfer Tag.
        target_transfer_tag: u32 = Word(20),
        /// `StatSN`
        stat_sn: u32 = Word(24),
        /// `ExpCmdSN`
        exp_cmd_sn: u32 = Word(28),
        /// `MaxCmdSN`
        max_cmd_sn: u32 = Word(32),
    }
}

pdu! {
    /// SCSI Data-In (11.7).
    DataIn, opcode 0x25, byte 0 0, byte 1 0,
    {
        /// F bit: last of its sequence.
        r#final: bool = Bit(1, 0x80),
        /// A bit: acknowledgement requested.
        acknowledge: bool = Bit(1, 0x40),
        /// O bit.
        overflow: bool = Bit(1, 0x04),
        /// U bit.
        underflow: bool = Bit(1, 0x02),
        /// S bit: status, `StatSN` and residual count are valid.
        status_present: bool = Bit(1, 0x01),
        /// Status.
        status: u8 = Byte(3),
        /// Logical Unit Number.
        lun: [u8; 8] = Bytes::<8>(8),
        /// Initiator Task Tag.
        initiator_task_tag: u32 = Word(16),
        /// Target Transfer Tag.
        target_transfer_tag: u32 = Word(20),
        /// `StatSN`
        stat_sn: u32 = Word(24),
        /// `ExpCmdSN`
        exp_cmd_sn: u32 = Word(28),
        /// `MaxCmdSN`
        max_cmd_sn: u32 = Word(32),
        /// `DataSN`
        data_sn: u32 = Word(36),
        /// Buffer Offset, bytes.
        buffer_offset: u32 = Word(40),
        /// Residual Count.
        residual: u32 = Word(44),
    }
}

pdu! {
    /// Logout Response (11.15).
    LogoutResponse, opcode 0x26, byte 0 0, byte 1 0x80,
    {
        /// Response (11.15.1).
        response: u8 = Byte(2),
        /// Initiator Task Tag.
        initiator_task_tag: u32 = Word(16),
        /// `StatSN`
        stat_sn: u32 = Word(24),
        /// `ExpCmdSN`
        exp_cmd_sn: u32 = Word(28),
        /// `MaxCmdSN`
        max_cmd_sn: u32 = Word(32),
        /// `Time2Wait`, seconds.
        time2wait: u16 = Half(40),
        /// `Time2Retain`, seconds.
        time2retain: u16 = Half(42),
    }
}

pdu! {
    /// Ready To Transfer (11.8).
    ReadyToTransfer, opcode 0x31, byte 0 0, byte 1 0x80,
    {
        /// Logical Unit Number.
        lun: [u8; 8] = Bytes::<8>(8),
        /// Initiator Task Tag.
        initiator_task_tag: u32 = Word(16),
        /// Target Transfer Tag.
        target_transfer_tag: u32 = Word(20),
        /// `StatSN` of the next response; not used up.
        stat_sn: u32 = Word(24),
        /// `ExpCmdSN`
        exp_cmd_sn: u32 = Word(28),
        /// `MaxCmdSN`
        max_cmd_sn: u32 = Word(32),
        /// `R2TSN`
        r2t_sn: u32 = Word(36),
        /// Buffer Offset, bytes.
        buffer_offset: u32 = Word(40),
        /// Desired Data Transfer Length, bytes.
        desired_data_transfer_length: u32 = Word(44),
    }
}

pdu! {
    /// Asynchronous Message (11.9).
    AsynchronousMessage, opcode 0x32, byte 0 0, byte 1 0x80,
    {
        /// Logical Unit Number.
        lun: [u8; 8] = Bytes::<8>(8),
        /// Always the reserved value.
        initiator_task_tag: u32 = Word(16),
        /// `StatSN`
        stat_sn: u32 = Word(24),
        /// `ExpCmdSN`
        exp_cmd_sn: u32 = Word(28),
        /// `MaxCmdSN`
        max_cmd_sn: u32 = Word(32),
        /// `AsyncEvent` (11.9.1).
        event: u8 = Byte(36),
        /// `AsyncVCode`
        vendor_code: u8 = Byte(37),
        /// Parameter1
        parameter1: u16 = Half(38),
        /// Parameter2
        parameter2: u16 = Half(40),
        /// Parameter3
        parameter3: u16 = Half(42),
    }
}

pdu! {
    /// Reject (11.17). Its data segment is the rejected header.
    Reject, opcode 0x3f, byte 0 0, byte 1 0x80,
    {
        /// Reason (11.17.1).
        reason: u8 = Byte(2),
        /// Always the reserved value.
        initiator_task_tag: u32 = Word(16),
        /// `StatSN`
        stat_sn: u32 = Word(24),
        /// `ExpCmdSN`
        exp_cmd_sn: u32 = Word(28),
        /// `MaxCmdSN`
        max_cmd_sn: u32 = Word(32),
        /// `DataSN/R2TSN`
        data_sn: u32 = Word(36),
    }
}

/// Any PDU of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetPdu {
    /// NOP-In
    NopIn(NopIn),
    /// SCSI Response
    ScsiResponse(ScsiResponse),
    /// Task Management Function Response
    TaskManagementResponse(TaskManagementResponse),
    /// Login Response
    LoginResponse(LoginResponse),
    /// Text Response
    TextResponse(TextResponse),
    /// SCSI Data-In
    DataIn(DataIn),
    /// Logout Response
    LogoutResponse(LogoutResponse),
    /// Ready To Transfer
    ReadyToTransfer(ReadyToTransfer),
    /// Asynchronous Message
    AsynchronousMessage(AsynchronousMessage),
    /// Reject
    Reject(Reject),
}

impl TargetPdu {
    /// Decodes a header; `None` if the opcode is unknown or not a target's.
    pub fn decode(header: &Header) -> Option<Self> {
        Some(match header[0] & OPCODE_MASK {
            NopIn::OPCODE => Self::NopIn(NopIn::decode(header)),
            ScsiResponse::OPCODE => Self::ScsiResponse(ScsiResponse::decode(header)),
            TaskManagementResponse::OPCODE => {
                Self::TaskManagementResponse(TaskManagementResponse::decode(header))
            }
            LoginResponse::OPCODE => Self::LoginResponse(LoginResponse::decode(header)),
            TextResponse::OPCODE => Self::TextResponse(TextResponse::decode(header)),
            DataIn::OPCODE => Self::DataIn(DataIn::decode(header)),
            LogoutResponse::OPCODE => Self::LogoutResponse(LogoutResponse::decode(header)),
            ReadyToTransfer::OPCODE => Self::ReadyToTransfer(ReadyToTransfer::decode(header)),
            AsynchronousMessage::OPCODE => {
                Self::AsynchronousMessage(AsynchronousMessage::decode(header))
            }
            Reject::OPCODE => Self::Reject(Reject::decode(header)),
            _ => return None,
        })
    }
}
