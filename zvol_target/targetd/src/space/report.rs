//! What was found and done at the last look, for the control socket.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;
use volume::Growth;

/// Space of all pools and LUNs as last looked at.
#[derive(Debug, Default)]
pub struct SpaceReport {
    /// Pools by name, file systems by mount point.
    pub pools: BTreeMap<String, PoolSpace>,
    /// LUNs by their UUID. One whose space is not known is not there.
    pub luns: BTreeMap<Uuid, LunSpace>,
    /// LUNs that are being made thick: their ledger stays closed meanwhile.
    pub becoming_thick: BTreeSet<Uuid>,
}

/// A pool, or a file system with volumes; bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSpace {
    /// What can be used of it in all.
    pub total_bytes: u64,
    /// What is left for everybody.
    pub available_bytes: u64,
    /// With less left, thin LUNs take no more.
    pub headroom_bytes: u64,
    /// What is wrong.
    pub problem: Option<String>,
}

/// A LUN; bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LunSpace {
    /// The pool, or the mount point.
    pub pool: String,
    /// The zvol.
    pub dataset: Option<String>,
    /// All of it is reserved.
    pub thick: bool,
    /// Whether it may take more.
    pub growth: Growth,
    /// What it takes.
    pub used_bytes: u64,
    /// What it can take in addition.
    pub available_bytes: u64,
    /// What is reserved for it and not taken.
    pub held_bytes: u64,
    /// What is to be held for overwrites.
    pub slack_bytes: u64,
    /// What is reserved for blocks that it shares.
    pub shared_bytes: u64,
    /// What is wrong.
    pub problem: Option<String>,
}
