// SPDX-License-Identifier: Apache-2.0
//! Protocol Data Units (RFC 7143 11): one type per opcode, framing, digests.
//!
//! Both directions can be encoded and decoded: the tests use the same code for their initiator.

mod frame;
mod initiator;
mod layout;
mod target;
#[cfg(test)]
mod tests;

pub use frame::{
    DIGEST_LENGTH, Digests, Frame, FrameError, HEADERS_LENGTH_MAX, Headers, Lengths, decode,
    decode_headers, encode, padding, set_data_segment_length,
};
pub use initiator::{
    DataOut, InitiatorPdu, LoginRequest, LogoutRequest, NopOut, ScsiCommand, SnackRequest,
    TaskManagementRequest, TextRequest,
};
pub use layout::{BHS_LENGTH, Header};
pub use target::{
    AsynchronousMessage, DataIn, LoginResponse, LogoutResponse, NopIn, ReadyToTransfer, Reject,
    ScsiResponse, TargetPdu, TaskManagementResponse, TextResponse,
};

/// The opcode's bits in byte 0 of a header (11.2.1.2).
pub const OPCODE_MASK: u8 = 0x3f;

/// The reserved value of Initiator Task Tags and Target Transfer Tags (11.2.1.8).
pub const RESERVED_TAG: u32 = 0xffff_ffff;

/// Reason codes of a Reject (11.17.1).
pub mod reject {
    /// Data (payload) digest error.
    pub const DATA_DIGEST_ERROR: u8 = 0x02;
    /// SNACK Reject.
    pub const SNACK_REJECT: u8 = 0x03;
    /// Protocol Error.
    pub const PROTOCOL_ERROR: u8 = 0x04;
    /// Command not supported.
    pub const COMMAND_NOT_SUPPORTED: u8 = 0x05;
    /// Immediate command reject: too many immediate commands.
    pub const TOO_MANY_IMMEDIATE_COMMANDS: u8 = 0x06;
    /// Task in progress.
    pub const TASK_IN_PROGRESS: u8 = 0x07;
    /// Invalid PDU field.
    pub const INVALID_PDU_FIELD: u8 = 0x09;
}
