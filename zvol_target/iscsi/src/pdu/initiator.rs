// SPDX-License-Identifier: Apache-2.0
//! PDUs an initiator sends (RFC 7143 11).

use super::OPCODE_MASK;
use super::layout::{BHS_LENGTH, Bit, Bits, Byte, Bytes, Half, Header, Locator, Word, pdu};

pdu! {
    /// NOP-Out (11.18).
    NopOut, opcode 0x00, byte 0 0, byte 1 0x80,
    {
        /// I bit: immediate delivery, uses no `CmdSN`.
        immediate: bool = Bit(0, 0x40),
        /// Logical Unit Number: copied from the answered NOP-In.
        lun: [u8; 8] = Bytes::<8>(8),
        /// Initiator Task Tag; the reserved value requests no answer.
        initiator_task_tag: u32 = Word(16),
        /// Target Transfer Tag: that of the answered NOP-In.
        target_transfer_tag: u32 = Word(20),
        /// `CmdSN`
        cmd_sn: u32 = Word(24),
        /// `ExpStatSN`
        exp_stat_sn: u32 = Word(28),
    }
}

pdu! {
    /// SCSI Command (11.3).
    ScsiCommand, opcode 0x01, byte 0 0, byte 1 0,
    {
        /// I bit.
        immediate: bool = Bit(0, 0x40),
        /// F bit: no unsolicited Data-Out follows.
        r#final: bool = Bit(1, 0x80),
        /// R bit: the initiator expects data.
        read: bool = Bit(1, 0x40),
        /// W bit: the initiator sends data.
        write: bool = Bit(1, 0x20),
        /// ATTR (11.3.1).
        attribute: u8 = Bits(1, 0x07),
        /// Logical Unit Number.
        lun: [u8; 8] = Bytes::<8>(8),
        /// Initiator Task Tag.
        initiator_task_tag: u32 = Word(16),
        /// Expected Data Transfer Length, bytes.
        expected_data_transfer_length: u32 = Word(20),
        /// `CmdSN`
        cmd_sn: u32 = Word(24),
        /// `ExpStatSN`
        exp_stat_sn: u32 = Word(28),
        /// The first 16 bytes of the CDB.
        cdb: [u8; 16] = Bytes::<16>(32),
    }
}

pdu! {
    /// Task Management Function Request (11.5).
    TaskManagementRequest, opcode 0x02, byte 0 0, byte 1 0x80,
    {
        /// I bit.
        immediate: bool = Bit(0, 0x40),
        /// Function (11.5.1).
        function: u8 = Bits(1, 0x7f),
        /// Logical Unit Number.
        lun: [u8; 8] = Bytes::<8>(8),
        /// Initiator Task Tag.
        initiator_task_tag: u32 = Word(16),
        /// Referenced Task Tag.
        referenced_task_tag: u32 = Word(20),
        /// `CmdSN`
        cmd_sn: u32 = Word(24),
        /// `ExpStatSN`
        exp_stat_sn: u32 = Word(28),
        /// `RefCmdSN`
        ref_cmd_sn: u32 = Word(32),
        /// `ExpDataSN`
        exp_data_sn: u32 = Word(36),
    }
}

pdu! {
    /// Login Request (11.12).
    LoginRequest, opcode 0x03, byte 0 0x40, byte 1 0,
    {
        /// T bit: ready for the next stage.
        transit: bool = Bit(1, 0x80),
        /// C bit: the text continues in the next PDU.
        r#continue: bool = Bit(1, 0x40),
        /// CSG: current stage.
        current_stage: u8 = Bits(1, 0x0c),
        /// NSG: next stage, with the T bit.
        next_stage: u8 = Bits(1, 0x03),
        /// Version-max.
        version_max: u8 = Byte(2),
        /// Version-min.
        version_min: u8 = Byte(3),
        /// ISID.
        isid: [u8; 6] = Bytes::<6>(8),
        /// TSIH; 0 for a new session.
        tsih: u16 = Half(14),
        /// Initiator Task Tag.
        initiator_task_tag: u32 = Word(16),
        /// CID.
        cid: u16 = Half(20),
        /// `CmdSN`
        cmd_sn: u32 = Word(24),
        /// `ExpStatSN`
        exp_stat_sn: u32 = Word(28),
    }
}

pdu! {
    /// Text Request (11.10).
    TextRequest, opcode 0x04, byte 0 0, byte 1 0,
    {
        /// I bit.
        immediate: bool = Bit(0, 0x40),
        /// F bit: the initiator ends this negotiation.
        r#final: bool = Bit(1, 0x80),
        /// C bit: the text continues in the next PDU.
        r#continue: bool = Bit(1, 0x40),
        /// Logical Unit Number.
        lun: [u8; 8] = Bytes::<8>(8),
        /// Initiator Task Tag.
        initiator_task_tag: u32 = Word(16),
        /// Target Transfer Tag; the reserved value at the begin.
        target_transfer_tag: u32 = Word(20),
        /// `CmdSN`
        cmd_sn: u32 = Word(24),
        /// `ExpStatSN`
        exp_stat_sn: u32 = Word(28),
    }
}

pdu! {
    /// SCSI Data-Out (11.7).
    DataOut, opcode 0x05, byte 0 0, byte 1 0,
    {
        /// F bit: last of its sequence.
        r#final: bool = Bit(1, 0x80),
        /// Logical Unit Number.
        lun: [u8; 8] = Bytes::<8>(8),
        /// Initiator Task Tag.
        initiator_task_tag: u32 = Word(16),
        /// Target Transfer Tag of the R2T; reserved value: unsolicited.
        target_transfer_tag: u32 = Word(20),
        /// `ExpStatSN`
        exp_stat_sn: u32 = Word(28),
        /// `DataSN`
        data_sn: u32 = Word(36),
        /// Buffer Offset, bytes.
        buffer_offset: u32 = Word(40),
    }
}

pdu! {
    /// Logout Request (11.14).
    LogoutRequest, opcode 0x06, byte 0 0, byte 1 0x80,
    {
        /// I bit.
        immediate: bool = Bit(0, 0x40),
        /// Reason Code (11.14.1).
        reason: u8 = Bits(1, 0x7f),
        /// Initiator Task Tag.
        initiator_task_tag: u32 = Word(16),
        /// CID.
        cid: u16 = Half(20),
        /// `CmdSN`
        cmd_sn: u32 = Word(24),
        /// `ExpStatSN`
        exp_stat_sn: u32 = Word(28),
    }
}

pdu! {
    /// SNACK Request (11.16).
    SnackRequest, opcode 0x10, byte 0 0, byte 1 0x80,
    {
        /// Type (11.16.1).
        kind: u8 = Bits(1, 0x0f),
        /// Logical Unit Number.
        lun: [u8; 8] = Bytes::<8>(8),
        /// Initiator Task Tag.
        initiator_task_tag: u32 = Word(16),
        /// Target Transfer Tag or SNACK Tag.
        target_transfer_tag: u32 = Word(20),
        /// `ExpStatSN`
        exp_stat_sn: u32 = Word(28),
        /// `BegRun`
        beg_run: u32 = Word(40),
        /// `RunLength`
        run_length: u32 = Word(44),
    }
}

/// Any PDU of an initiator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitiatorPdu {
    /// NOP-Out
    NopOut(NopOut),
    /// SCSI Command
    ScsiCommand(ScsiCommand),
    /// Task Management Function Request
    TaskManagementRequest(TaskManagementRequest),
    /// Login Request
    LoginRequest(LoginRequest),
    /// Text Request
    TextRequest(TextRequest),
    /// SCSI Data-Out
    DataOut(DataOut),
    /// Logout Request
    LogoutRequest(LogoutRequest),
    /// SNACK Request
    SnackRequest(SnackRequest),
}

impl InitiatorPdu {
    /// Decodes a header; `None` if the opcode is unknown or not an initiator's.
    pub fn decode(header: &Header) -> Option<Self> {
        Some(match header[0] & OPCODE_MASK {
            NopOut::OPCODE => Self::NopOut(NopOut::decode(header)),
            ScsiCommand::OPCODE => Self::ScsiCommand(ScsiCommand::decode(header)),
            TaskManagementRequest::OPCODE => {
                Self::TaskManagementRequest(TaskManagementRequest::decode(header))
            }
            LoginRequest::OPCODE => Self::LoginRequest(LoginRequest::decode(header)),
            TextRequest::OPCODE => Self::TextRequest(TextRequest::decode(header)),
            DataOut::OPCODE => Self::DataOut(DataOut::decode(header)),
            LogoutRequest::OPCODE => Self::LogoutRequest(LogoutRequest::decode(header)),
            SnackRequest::OPCODE => Self::SnackRequest(SnackRequest::decode(header)),
            _ => return None,
        })
    }
}
