// SPDX-License-Identifier: Apache-2.0
//! Capabilities of the copy manager: RECEIVE COPY OPERATING PARAMETERS (SPC-4 6.22) and the Third-party Copy page (SPC-4 7.8.17).

use volume::LOGICAL_BLOCK_BYTES;

use super::parameter_list::{IDENTIFICATION_DESCRIPTOR, MAXIMUM_DESCRIPTOR_LIST_BYTES};
use super::segment_descriptors::BLOCK_TO_BLOCK;
use super::token_lists::{BLOCK_DEVICE_ZERO, CHANGE_VULNERABLE};
use super::{
    DEFAULT_TOKEN_TIMEOUT, MAXIMUM_CSCD_DESCRIPTORS, MAXIMUM_IDENTIFIED_COPIES, MAXIMUM_RANGES,
    MAXIMUM_ROD_BYTES, MAXIMUM_SEGMENT_BYTES, MAXIMUM_SEGMENT_DESCRIPTORS, MAXIMUM_TOKEN_TIMEOUT,
    OPTIMAL_ROD_BYTES,
};
use crate::command_table::{CommandDescription, with_operation_code};
use crate::execution::Execution;
use crate::offload::Offload;
use crate::task_set::MAXIMUM_TASKS;

/// Codes of the supported descriptors, in ascending order.
const DESCRIPTOR_TYPES: [u8; 2] = [BLOCK_TO_BLOCK, IDENTIFICATION_DESCRIPTOR];

/// TOTAL CONCURRENT COPIES: the limit of tasks. Only some run at a time; others wait.
const CONCURRENT_COPIES: u16 = MAXIMUM_TASKS as u16;

/// Granularity of the data of a segment, as a power of two: the shortest block of a unit, 512 bytes.
const DATA_SEGMENT_GRANULARITY: u8 = 9;

/// Parameter data of RECEIVE COPY OPERATING PARAMETERS. Fields of inline data, held data and stream devices are zero.
pub(super) fn operating_parameters() -> Vec<u8> {
    const SNLID: u8 = 0x01;
    let mut data = vec![0; 44];
    data[4] = SNLID;
    data[8..10].copy_from_slice(&(MAXIMUM_CSCD_DESCRIPTORS as u16).to_be_bytes());
    data[10..12].copy_from_slice(&(MAXIMUM_SEGMENT_DESCRIPTORS as u16).to_be_bytes());
    data[12..16].copy_from_slice(&(MAXIMUM_DESCRIPTOR_LIST_BYTES as u32).to_be_bytes());
    data[16..20].copy_from_slice(&MAXIMUM_SEGMENT_BYTES.to_be_bytes());
    data[34..36].copy_from_slice(&CONCURRENT_COPIES.to_be_bytes());
    data[36] = MAXIMUM_IDENTIFIED_COPIES as u8;
    data[37] = DATA_SEGMENT_GRANULARITY;
    data[43] = DESCRIPTOR_TYPES.len() as u8;
    data.extend_from_slice(&DESCRIPTOR_TYPES);
    // AVAILABLE DATA.
    let available = data.len() as u32 - 4;
    data[..4].copy_from_slice(&available.to_be_bytes());
    data
}

/// Body of the Third-party Copy page: third-party copy descriptors in ascending order of their types.
pub(crate) fn third_party_copy_page(execution: &Execution) -> Vec<u8> {
    const BLOCK_DEVICE_ROD_LIMITS: u16 = 0x0000;
    const SUPPORTED_COMMANDS: u16 = 0x0001;
    const ROD_TOKEN_FEATURES: u16 = 0x0106;
    const SUPPORTED_ROD_TYPES: u16 = 0x0108;
    const GENERAL_COPY_OPERATIONS: u16 = 0x8001;
    let mut page = Vec::with_capacity(512);
    let has_tokens = execution.offloads.contains(Offload::Token);
    if has_tokens {
        add(&mut page, BLOCK_DEVICE_ROD_LIMITS, &rod_limits());
    }
    let commands = supported_commands(execution);
    add(&mut page, SUPPORTED_COMMANDS, &with_length(&commands));
    if execution.offloads.contains(Offload::ExtendedCopy) {
        add_extended_copy(&mut page);
    }
    if has_tokens {
        add(
            &mut page,
            ROD_TOKEN_FEATURES,
            &rod_token_features(execution),
        );
        add(&mut page, SUPPORTED_ROD_TYPES, &supported_rod_types());
    }
    let mut operations = [0; 32];
    operations[..4].copy_from_slice(&u32::from(CONCURRENT_COPIES).to_be_bytes());
    operations[4..8].copy_from_slice(&(MAXIMUM_IDENTIFIED_COPIES as u32).to_be_bytes());
    operations[8..12].copy_from_slice(&MAXIMUM_SEGMENT_BYTES.to_be_bytes());
    operations[12] = DATA_SEGMENT_GRANULARITY;
    add(&mut page, GENERAL_COPY_OPERATIONS, &operations);
    page
}

/// Descriptors that apply only to EXTENDED COPY.
fn add_extended_copy(page: &mut Vec<u8>) {
    const PARAMETER_DATA: u16 = 0x0004;
    const SUPPORTED_DESCRIPTORS: u16 = 0x0008;
    const SUPPORTED_CSCD_DESCRIPTOR_IDS: u16 = 0x000c;
    let mut parameters = [0; 28];
    parameters[4..6].copy_from_slice(&(MAXIMUM_CSCD_DESCRIPTORS as u16).to_be_bytes());
    parameters[6..8].copy_from_slice(&(MAXIMUM_SEGMENT_DESCRIPTORS as u16).to_be_bytes());
    parameters[8..12].copy_from_slice(&(MAXIMUM_DESCRIPTOR_LIST_BYTES as u32).to_be_bytes());
    add(page, PARAMETER_DATA, &parameters);
    let descriptors = with_length(&DESCRIPTOR_TYPES);
    add(page, SUPPORTED_DESCRIPTORS, &descriptors);
    // None in addition to those of CSCD descriptors.
    add(page, SUPPORTED_CSCD_DESCRIPTOR_IDS, &[0, 0]);
}

/// Block Device ROD Limits (SBC-4 6.6.9.3).
fn rod_limits() -> Vec<u8> {
    let block_bytes = u64::from(LOGICAL_BLOCK_BYTES);
    let mut limits = vec![0; 32];
    limits[6..8].copy_from_slice(&(MAXIMUM_RANGES as u16).to_be_bytes());
    limits[8..12].copy_from_slice(&MAXIMUM_TOKEN_TIMEOUT.to_be_bytes());
    limits[12..16].copy_from_slice(&DEFAULT_TOKEN_TIMEOUT.to_be_bytes());
    limits[16..24].copy_from_slice(&(MAXIMUM_ROD_BYTES / block_bytes).to_be_bytes());
    limits[24..].copy_from_slice(&(OPTIMAL_ROD_BYTES / block_bytes).to_be_bytes());
    limits
}

/// ROD Token Features with the features of block devices (SPC-4 7.8.17.8). REMOTE TOKENS is zero: only tokens of this device are
/// accepted. The lifetime equals the inactivity timeout.
fn rod_token_features(execution: &Execution) -> Vec<u8> {
    /// DESCRIPTOR LENGTH of the block ROD device type specific features.
    const BLOCK_FEATURES_LENGTH: u16 = 0x2c;
    let granularity = u16::try_from(execution.unit.capacity().granularity()).unwrap_or(0);
    let mut block = vec![0; 48];
    block[2..4].copy_from_slice(&BLOCK_FEATURES_LENGTH.to_be_bytes());
    block[6..8].copy_from_slice(&granularity.to_be_bytes());
    block[8..16].copy_from_slice(&MAXIMUM_ROD_BYTES.to_be_bytes());
    block[16..24].copy_from_slice(&OPTIMAL_ROD_BYTES.to_be_bytes());
    // Creating a token takes no time for any length.
    block[24..32].copy_from_slice(&MAXIMUM_ROD_BYTES.to_be_bytes());
    block[32..40].copy_from_slice(&OPTIMAL_ROD_BYTES.to_be_bytes());
    let mut features = vec![0; 44];
    features[12..16].copy_from_slice(&1_u32.to_be_bytes());
    features[16..20].copy_from_slice(&u32::MAX.to_be_bytes());
    features[20..24].copy_from_slice(&MAXIMUM_TOKEN_TIMEOUT.to_be_bytes());
    features[42..44].copy_from_slice(&(block.len() as u16).to_be_bytes());
    features.extend_from_slice(&block);
    features
}

/// Supported ROD Token and ROD Types (SPC-4 7.8.17.9).
fn supported_rod_types() -> Vec<u8> {
    const TOKEN_IN: u8 = 0x02;
    const TOKEN_OUT: u8 = 0x01;
    let types = [
        (CHANGE_VULNERABLE, TOKEN_IN | TOKEN_OUT),
        (BLOCK_DEVICE_ZERO, TOKEN_IN),
    ];
    let mut list = Vec::new();
    for (rod_type, flags) in types {
        let mut descriptor = [0; 64];
        descriptor[..4].copy_from_slice(&u32::to_be_bytes(rod_type));
        descriptor[4] = flags;
        list.extend_from_slice(&descriptor);
    }
    let [high, low] = (list.len() as u16).to_be_bytes();
    [vec![0, 0, high, low], list].concat()
}

/// Operation codes of third-party copy with their service actions, from the host's command table.
fn supported_commands(execution: &Execution) -> Vec<u8> {
    const THIRD_PARTY_COPY_OUT: u8 = 0x83;
    const THIRD_PARTY_COPY_IN: u8 = 0x84;
    [THIRD_PARTY_COPY_OUT, THIRD_PARTY_COPY_IN]
        .into_iter()
        .flat_map(|code| {
            let actions: Vec<u8> = with_operation_code(code)
                .iter()
                .filter(|command| execution.unit.offers(command, execution.offloads))
                .filter_map(CommandDescription::service_action)
                .collect();
            [vec![code, actions.len() as u8], actions].concat()
        })
        .collect()
}

/// A list of at most 255 bytes, after its length.
fn with_length(list: &[u8]) -> Vec<u8> {
    [&[list.len() as u8], list].concat()
}

/// Adds a third-party copy descriptor, padded to a multiple of four.
fn add(page: &mut Vec<u8>, descriptor_type: u16, body: &[u8]) {
    let length = body.len().next_multiple_of(4);
    page.extend_from_slice(&descriptor_type.to_be_bytes());
    // At most a few dozen bytes.
    page.extend_from_slice(&(length as u16).to_be_bytes());
    let end = page.len() + length;
    page.extend_from_slice(body);
    page.resize(end, 0);
}
