// SPDX-License-Identifier: Apache-2.0
//! Space settings: provisioning of a LUN, thresholds for warnings, headroom of pools.

use scsi::Provisioning;
use serde::{Deserialize, Serialize};

/// Provisioning of a LUN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProvisioningChoice {
    /// Blocks are allocated when written, and may be shared.
    #[default]
    Thin,
    /// The `refreservation` of the zvol has room for its data and metadata. Blocks are never shared.
    Thick,
}

impl From<ProvisioningChoice> for Provisioning {
    fn from(choice: ProvisioningChoice) -> Self {
        match choice {
            ProvisioningChoice::Thin => Self::Thin,
            ProvisioningChoice::Thick => Self::Thick,
        }
    }
}

/// Soft threshold: hosts get a unit attention when the used space reaches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Threshold {
    /// Percent of the size, 1 to 100.
    pub percent: u8,
}

impl Threshold {
    /// The threshold in bytes, for a size of `whole` bytes.
    pub fn of(self, whole: u64) -> u64 {
        // At most the whole.
        (u128::from(whole) * u128::from(self.percent.min(100)) / 100) as u64
    }
}

/// Settings of a pool, or of a file system with volumes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolSettings {
    /// Name of the pool, or mount point of the file system.
    pub name: String,
    /// With less than this left, thin LUNs may not allocate more; absent: a fraction of the pool's size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headroom_bytes: Option<u64>,
    /// Soft threshold of the pool's used space, for the hosts of all its thin LUNs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soft_threshold: Option<Threshold>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_of_the_whole() {
        assert_eq!(Threshold { percent: 80 }.of(1000), 800);
        assert_eq!(Threshold { percent: 100 }.of(u64::MAX), u64::MAX);
        let text = r#"{"percent":75}"#;
        let threshold: Threshold = serde_json::from_str(text).unwrap();
        assert_eq!(threshold, Threshold { percent: 75 });
        assert_eq!(serde_json::to_string(&threshold).unwrap(), text);
    }
}
