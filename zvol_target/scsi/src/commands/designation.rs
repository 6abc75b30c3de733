// SPDX-License-Identifier: Apache-2.0
//! Designation descriptors (SPC-5 7.7.6): the names of a logical unit, its target port and its target.

use crate::designation::{BINARY, Designator};
use crate::execution::Execution;
use crate::logical_unit::LogicalUnit;
use crate::target_port::TargetPort;

// CODE SET.
const UTF_8: u8 = 3;

// ASSOCIATION.
const LOGICAL_UNIT: u8 = 0x00;
const TARGET_PORT: u8 = 0x10;
const TARGET_DEVICE: u8 = 0x20;

// DESIGNATOR TYPE.
const RELATIVE_TARGET_PORT: u8 = 4;
const TARGET_PORT_GROUP: u8 = 5;
const SCSI_NAME_STRING: u8 = 8;

impl LogicalUnit {
    /// Designators of the unit (association 0): the retained names, or those from its UUID.
    pub fn designators(&self) -> Vec<Designator> {
        if let Some(retained) = self.designation() {
            return retained.designators().to_vec();
        }
        let vendor = *self.options.product.vendor();
        vec![
            Designator::naa(self.naa()),
            Designator::t10(vendor, self.serial_number().as_bytes()),
        ]
    }
}

/// Default target port group of a port.
pub(crate) const DEFAULT_TARGET_PORT_GROUP: u16 = 1;

/// Body of the Device Identification page: names of the unit, of the port in use and of the target, if known.
pub(crate) fn device_identification(execution: &Execution) -> Vec<u8> {
    let unit = execution.unit;
    let relative_target_port = execution.nexus.relative_target_port;
    let (device_name, ports) = execution.device.names();
    let port = ports
        .iter()
        .find(|port| port.relative_target_port == relative_target_port);
    let group = port.map_or(DEFAULT_TARGET_PORT_GROUP, |port| port.target_port_group);
    let mut page = Vec::with_capacity(256);
    for designator in unit.designators() {
        let kind = LOGICAL_UNIT | designator.kind();
        add(&mut page, designator.code_set(), kind, designator.bytes());
    }
    let kind = TARGET_PORT | RELATIVE_TARGET_PORT;
    add(&mut page, BINARY, kind, &low_half(relative_target_port));
    let kind = TARGET_PORT | TARGET_PORT_GROUP;
    add(&mut page, BINARY, kind, &low_half(group));
    if let Some(port) = port {
        add_name(&mut page, TARGET_PORT, &port.name);
    }
    if let Some(name) = device_name {
        add_name(&mut page, TARGET_DEVICE, &name);
    }
    page
}

/// Body of the SCSI Ports page (SPC-5 7.7.14): every target port with its name. If none is configured, the port in use without a
/// name.
pub(crate) fn scsi_ports(execution: &Execution) -> Vec<u8> {
    let mut page = Vec::with_capacity(256);
    let (_, ports) = execution.device.names();
    if ports.is_empty() {
        add_port(&mut page, execution.nexus.relative_target_port, &[]);
    }
    for TargetPort {
        relative_target_port,
        name,
        ..
    } in &ports
    {
        let mut descriptor = Vec::new();
        add_name(&mut descriptor, TARGET_PORT, name);
        add_port(&mut page, *relative_target_port, &descriptor);
    }
    page
}

/// SCSI port designation descriptor of a target port, without initiator port.
fn add_port(page: &mut Vec<u8>, relative_target_port: u16, descriptors: &[u8]) {
    let [high, low] = relative_target_port.to_be_bytes();
    // One name, of at most 260 bytes.
    let [length_high, length_low] = (descriptors.len() as u16).to_be_bytes();
    page.extend_from_slice(&[0, 0, high, low, 0, 0, 0, 0, 0, 0, length_high, length_low]);
    page.extend_from_slice(descriptors);
}

fn low_half(number: u16) -> [u8; 4] {
    u32::from(number).to_be_bytes()
}

/// Adds a SCSI name string: terminated by at least one zero, with a length that is a multiple of four (SPC-5 7.7.6.11). Omits a
/// name that is too long.
fn add_name(page: &mut Vec<u8>, association: u8, name: &str) {
    const MAXIMUM: usize = 252;
    if name.len() >= MAXIMUM {
        return;
    }
    let mut string = name.as_bytes().to_vec();
    string.push(0);
    string.resize(string.len().next_multiple_of(4), 0);
    add(page, UTF_8, association | SCSI_NAME_STRING, &string);
}

fn add(page: &mut Vec<u8>, code_set: u8, association_and_type: u8, designator: &[u8]) {
    // At most 252 bytes.
    page.extend_from_slice(&[code_set, association_and_type, 0, designator.len() as u8]);
    page.extend_from_slice(designator);
}
