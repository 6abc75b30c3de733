// SPDX-License-Identifier: Apache-2.0
//! Target ports of a device.

/// A SCSI target port (SAM-5 4.5), for Device Identification and SCSI Ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetPort {
    /// Relative target port identifier (SPC-5 7.7.6.8), 1 to 65535; unique in the device.
    pub relative_target_port: u16,
    /// Target port group (SPC-5 7.7.6.9): its ports have the same access to every unit.
    pub target_port_group: u16,
    /// SCSI target port name, in UTF-8. For iSCSI: name, ",t,0x" and the portal group tag (RFC 7143 4.4.2).
    pub name: String,
}
