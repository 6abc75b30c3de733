// SPDX-License-Identifier: Apache-2.0
//! Third-party copy (SPC-4 5.17, SBC-4 4.28): copies that a host requests and the target makes, inside one logical unit or
//! between logical units of one device.
//!
//! Every logical unit has a copy manager. They share the limits of [`CopyManager`].

mod copy_manager;
mod extended_copy;
mod operating_parameters;
mod operations;
mod parameter_list;
mod receive_results;
mod segment_descriptors;
mod token_commands;
mod token_lists;
mod tokens;
mod transfer;

pub(crate) use copy_manager::CopyManager;
pub(crate) use extended_copy::extended_copy;
pub(crate) use operating_parameters::third_party_copy_page;
pub(crate) use operations::CopyOperations;
pub(crate) use receive_results::{
    copy_operation_abort, receive_copy_data, receive_copy_failure_details,
    receive_copy_operating_parameters, receive_copy_status_lid1, receive_copy_status_lid4,
    receive_rod_token_information,
};
pub(crate) use token_commands::{populate_token, write_using_token};
pub(crate) use tokens::Tokens;

/// MAXIMUM CSCD DESCRIPTOR COUNT. Hosts send one or two.
const MAXIMUM_CSCD_DESCRIPTORS: usize = 16;

/// MAXIMUM SEGMENT DESCRIPTOR COUNT.
const MAXIMUM_SEGMENT_DESCRIPTORS: usize = 16;

/// MAXIMUM SEGMENT LENGTH, bytes. Some hosts ignore it, so a segment may have up to 65,535 blocks, the limit of its
/// field.
const MAXIMUM_SEGMENT_BYTES: u32 = 16 << 20;

/// Limit of one EXTENDED COPY with several segments, bytes. Data that cannot be cloned is read and written, on hard disks at 100
/// MB/s or less; hosts wait 30 s.
const MAXIMUM_COPY_BYTES: u64 = 256 << 20;

/// The limit if it is known that nothing can be cloned.
const MAXIMUM_READ_AND_WRITTEN_BYTES: u64 = 64 << 20;

/// MAXIMUM IDENTIFIED CONCURRENT COPIES of one nexus in one unit: copies with a list identifier, running or with retained
/// results.
const MAXIMUM_IDENTIFIED_COPIES: usize = 64;

/// MAXIMUM RANGE DESCRIPTORS of POPULATE TOKEN and WRITE USING TOKEN.
const MAXIMUM_RANGES: usize = 64;

/// MAXIMUM BYTES IN BLOCK ROD, and limit of one WRITE USING TOKEN: one command can write this long before hosts time out.
const MAXIMUM_ROD_BYTES: u64 = 1 << 30;

/// OPTIMAL BYTES IN BLOCK ROD TRANSFER.
const OPTIMAL_ROD_BYTES: u64 = 64 << 20;

/// MAXIMUM INACTIVITY TIMEOUT, seconds.
const MAXIMUM_TOKEN_TIMEOUT: u32 = 300;

/// DEFAULT INACTIVITY TIMEOUT, seconds.
const DEFAULT_TOKEN_TIMEOUT: u32 = 60;

/// Most tokens of a device.
const MAXIMUM_TOKENS: usize = 512;

/// Most tokens of one host in a device.
const MAXIMUM_TOKENS_OF_HOST: usize = 64;
