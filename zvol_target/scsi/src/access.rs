// SPDX-License-Identifier: Apache-2.0
//! Which hosts a logical unit is there for.

use std::collections::BTreeSet;

/// Hosts that may use a logical unit; for others its number is one without a logical unit (LUN masking).
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
