// SPDX-License-Identifier: Apache-2.0
//! Access of hosts to a logical unit.

use std::collections::BTreeSet;

/// Hosts that may use a logical unit. For other hosts, the number has no logical unit (LUN masking).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LogicalUnitAccess {
    /// Every host that reaches the device.
    #[default]
    Any,
    /// Hosts with one of these initiator device names, as in [`crate::sam::Nexus::initiator_device`].
    Initiators(BTreeSet<String>),
}

impl LogicalUnitAccess {
    /// Whether the host may use the unit.
    pub fn permits(&self, initiator_device: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Initiators(names) => names.contains(initiator_device),
        }
    }
}
