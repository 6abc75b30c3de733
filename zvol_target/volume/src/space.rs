// SPDX-License-Identifier: Apache-2.0
//! Space that a volume takes, and space that it can still take.

/// Whether a range takes space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// It takes space, or will after its transaction group: an overwrite needs no more.
    Allocated,
    /// It takes no space, and reads as zeroes.
    Hole,
    /// The backend does not report it.
    Unknown,
}

/// A range with one kind of allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First byte.
    pub offset: u64,
    /// Bytes, at least 1.
    pub length: u64,
    /// Whether it takes space.
    pub allocation: Allocation,
}

/// Space of a volume, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Space taken now, as the store counts it (compressed; shared blocks in full).
    pub used_bytes: u64,
    /// Space that it can take in addition before writes fail.
    pub available_bytes: u64,
}

/// What the blocks of a volume use on disk in the last synced transaction group, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockUsage {
    /// Length of the range that was counted.
    pub counted_bytes: u64,
    /// Allocated space: compressed, with all copies.
    pub allocated_bytes: u64,
    /// Of the allocated space: blocks that block cloning shares with other ranges.
    pub shared_bytes: u64,
    /// Of the allocated space: blocks that are also in a snapshot.
    pub snapshot_bytes: u64,
    /// Of the allocated space: deduplicated blocks. Their other users are unknown.
    pub deduplicated_bytes: u64,
}

impl BlockUsage {
    /// Adds the usage of the next range.
    pub fn add(&mut self, next: &Self) {
        self.counted_bytes += next.counted_bytes;
        self.allocated_bytes += next.allocated_bytes;
        self.shared_bytes += next.shared_bytes;
        self.snapshot_bytes += next.snapshot_bytes;
        self.deduplicated_bytes += next.deduplicated_bytes;
    }
}

/// Whether writes may allocate new space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Growth {
    /// Yes.
    #[default]
    Allowed,
    /// Yes, until this number of bytes was written, including overwrites. A write that needs new space then waits for the next
    /// [`Volume::set_growth`](crate::Volume::set_growth), and fails if none comes for a long time.
    Limited(u64),
    /// No: such writes fail with [`crate::VolumeError::OutOfSpace`]. Overwrites of allocated blocks succeed, and so does
    /// unmapping.
    Refused,
}
