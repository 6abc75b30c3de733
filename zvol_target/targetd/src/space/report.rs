// SPDX-License-Identifier: Apache-2.0
//! Results of the last space update, for the control socket.

use std::collections::BTreeMap;

use scsi::SpaceFigures;
use uuid::Uuid;
use volume::Growth;

use super::LunUsage;
use crate::configuration::Lun;

/// Space of all pools and LUNs at the last update.
#[derive(Default)]
pub struct SpaceReport {
    /// Pools by name, file systems by mount point.
    pub pools: BTreeMap<String, PoolSpace>,
    /// LUNs by UUID. A LUN whose space is unknown is absent.
    pub luns: BTreeMap<Uuid, LunSpace>,
    /// Usage and sharing of LUNs' blocks, by UUID.
    pub usage: BTreeMap<Uuid, LunUsage>,
}

/// A pool, or a file system with volumes; bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolSpace {
    /// Usable size.
    pub total_bytes: u64,
    /// Available to every user.
    pub available_bytes: u64,
    /// With less available, thin LUNs may not allocate more.
    pub headroom_bytes: u64,
    /// Problem of the last update.
    pub problem: Option<String>,
}

/// A LUN; bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LunSpace {
    /// The pool, or the mount point.
    pub pool: String,
    /// The zvol.
    pub dataset: Option<String>,
    /// Whether it may allocate more.
    pub growth: Growth,
    /// Used space.
    pub used_bytes: u64,
    /// All of its data. For a clone, this includes data shared with its origin.
    pub referenced_bytes: u64,
    /// Space that it can use in addition.
    pub available_bytes: u64,
    /// Reserved for it and unused.
    pub held_bytes: u64,
    /// Space to reserve for its overwrites.
    pub headroom_bytes: u64,
    /// `refreservation` of the zvol.
    pub refreservation_bytes: Option<u64>,
    /// Whether the `refreservation` of a thick LUN has room for its data and metadata.
    pub covered: Option<bool>,
    /// Problem of the last update.
    pub problem: Option<String>,
}

impl LunSpace {
    /// The figures for hosts of a LUN of `size` bytes. Its threshold is a part of its size, so blocks shared with an origin count:
    /// a host fills a clone up to its size, whatever it shares.
    pub(super) fn for_hosts(&self, lun: &Lun, size: u64) -> SpaceFigures {
        SpaceFigures {
            used_bytes: self.referenced_bytes,
            available_bytes: self.available_bytes,
            used_threshold_bytes: lun.soft_threshold.map(|threshold| threshold.of(size)),
            available_threshold_bytes: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_reaches_its_threshold_with_the_blocks_of_its_origin() {
        let lun = serde_json::json!({
            "number": 0, "uuid": Uuid::nil(), "path": "/dev/zvol/tank/clone", "soft_threshold": {"percent": 80},
        });
        let lun: Lun = serde_json::from_value(lun).unwrap();
        let space = LunSpace {
            pool: "tank".into(),
            dataset: Some("tank/clone".into()),
            growth: Growth::Allowed,
            used_bytes: 10,
            referenced_bytes: 850,
            available_bytes: 500,
            held_bytes: 0,
            headroom_bytes: 0,
            refreservation_bytes: Some(0),
            covered: None,
            problem: None,
        };
        let figures = space.for_hosts(&lun, 1000);
        assert_eq!(figures.used_threshold_bytes, Some(800));
        assert_eq!((figures.used_bytes, figures.available_bytes), (850, 500));
    }
}
