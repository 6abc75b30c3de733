// SPDX-License-Identifier: Apache-2.0
//! Third-party copy (SPC-4 5.17, SBC-4 4.28): copies that a host asks for and the target makes, within one logical unit and between
//! those of all its devices.
//!
//! A copy manager is part of every logical unit. Which units it may copy from and to is the business of [`CopyManager`], which all
//! devices of a daemon share.

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

pub use copy_manager::CopyManager;
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

/// MAXIMUM SEGMENT LENGTH, bytes. A segment of blocks may be longer nevertheless, as some hosts ignore this: 65,535
/// of them, which is all that its field holds.
const MAXIMUM_SEGMENT_BYTES: u32 = 16 << 20;

/// Most bytes that one EXTENDED COPY with several segments copies. What can't be cloned is read and written, on hard disks at 100 MB/s or less,
/// and hosts wait thirty seconds.
const MAXIMUM_COPY_BYTES: u64 = 256 << 20;

/// The same where nothing can be cloned, which is known before.
const MAXIMUM_READ_AND_WRITTEN_BYTES: u64 = 64 << 20;

/// MAXIMUM IDENTIFIED CONCURRENT COPIES: copies with a list identifier, under way or with results kept, of one nexus in one unit.
const MAXIMUM_IDENTIFIED_COPIES: usize = 64;

/// MAXIMUM RANGE DESCRIPTORS of POPULATE TOKEN and WRITE USING TOKEN.
const MAXIMUM_RANGES: usize = 64;

/// MAXIMUM BYTES IN BLOCK ROD, and most that one WRITE USING TOKEN writes: as far as one command gets well before hosts give it up.
const MAXIMUM_ROD_BYTES: u64 = 1 << 30;

/// OPTIMAL BYTES IN BLOCK ROD TRANSFER.
const OPTIMAL_ROD_BYTES: u64 = 64 << 20;

/// MAXIMUM INACTIVITY TIMEOUT, seconds.
const MAXIMUM_TOKEN_TIMEOUT: u32 = 300;

/// DEFAULT INACTIVITY TIMEOUT, seconds.
const DEFAULT_TOKEN_TIMEOUT: u32 = 60;

/// Most tokens of a device.
const MAXIMUM_TOKENS: usize = 512;

/// Most tokens that one host had made in a device.
const MAXIMUM_TOKENS_OF_HOST: usize = 64;
