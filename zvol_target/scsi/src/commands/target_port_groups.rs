// SPDX-License-Identifier: Apache-2.0
//! REPORT TARGET PORT GROUPS (SPC-5 6.36): asymmetric logical unit access (SPC-5 5.17).

use std::collections::BTreeMap;

use crate::commands::designation::DEFAULT_TARGET_PORT_GROUP;
use crate::execution::{Execution, Reply};

/// ASYMMETRIC ACCESS STATE of every group: one node serves all units through all its ports equally.
const ACTIVE_OPTIMIZED: u8 = 0x0;

/// The supported states of a group: only the present one.
const AO_SUP: u8 = 0x01;

/// Reports every target port by group. Access is implicit only, so SET TARGET PORT GROUPS is not supported.
pub(crate) fn report_target_port_groups(execution: &Execution) -> Reply {
    const EXTENDED_HEADER: u8 = 0x20;
    /// FORMAT TYPE of the extended header.
    const EXTENDED_FORMAT: u8 = 0x10;
    let mut groups: BTreeMap<u16, Vec<u16>> = BTreeMap::new();
    let (_, ports) = execution.device.names();
    for port in &ports {
        let group = groups.entry(port.target_port_group).or_default();
        group.push(port.relative_target_port);
    }
    if groups.is_empty() {
        let port = execution.nexus.relative_target_port;
        groups.insert(DEFAULT_TARGET_PORT_GROUP, vec![port]);
    }
    let mut body = Vec::new();
    if execution.cdb.bit(1, EXTENDED_HEADER) {
        // IMPLICIT TRANSITION TIME is zero, as there are no transitions.
        body.extend_from_slice(&[EXTENDED_FORMAT, 0, 0, 0]);
    }
    for (group, ports) in groups {
        // TARGET PORT COUNT has one byte.
        let ports = ports.get(..usize::from(u8::MAX)).unwrap_or(&ports);
        let [high, low] = group.to_be_bytes();
        let descriptor = [
            ACTIVE_OPTIMIZED,
            AO_SUP,
            high,
            low,
            0,
            0,
            0,
            ports.len() as u8,
        ];
        body.extend_from_slice(&descriptor);
        for port in ports {
            let [high, low] = port.to_be_bytes();
            body.extend_from_slice(&[0, 0, high, low]);
        }
    }
    // RETURN DATA LENGTH: at most 65535 ports, a few hundred kilobytes.
    let length = (body.len() as u32).to_be_bytes();
    Reply::parameter_data(&[&length[..], &body].concat(), execution.cdb.u32(6))
}
