// SPDX-License-Identifier: Apache-2.0
//! What takes space in a volume, and how much more of it there is.

/// Whether a range takes space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// It takes space, or will once it is on disk: overwriting it takes no more.
    Allocated,
    /// It takes none, and reads as zeroes.
    Hole,
    /// The backend does not tell.
    Unknown,
}

/// A range that is all of one kind, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Where it begins.
    pub offset: u64,
    /// How long it is; never 0.
    pub length: u64,
    /// What it is.
    pub allocation: Allocation,
}

/// Space of a volume, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// What it takes now, of the store's own counting (compressed, shared blocks in full).
    pub used_bytes: u64,
    /// What it could take in addition before writes fail, what is reserved for it included.
    pub available_bytes: u64,
    /// What is reserved for it alone and not yet taken; part of `available_bytes`.
    pub reserved_bytes: u64,
}

/// What the blocks of a volume use on disk, as the last synced transaction group has them; bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockUsage {
    /// So much of the volume is counted.
    pub counted_bytes: u64,
    /// Compressed, with all copies.
    pub allocated_bytes: u64,
    /// Of these, blocks that block cloning shares with other ranges.
    pub shared_bytes: u64,
    /// Of the allocated, blocks that a snapshot also has.
    pub snapshot_bytes: u64,
    /// Of the allocated, deduplicated blocks. Who else has them is unknown.
    pub deduplicated_bytes: u64,
}

impl BlockUsage {
    /// Adds what the next range uses.
    pub fn add(&mut self, next: &Self) {
        self.counted_bytes += next.counted_bytes;
        self.allocated_bytes += next.allocated_bytes;
        self.shared_bytes += next.shared_bytes;
        self.snapshot_bytes += next.snapshot_bytes;
        self.deduplicated_bytes += next.deduplicated_bytes;
    }
}

/// What writes that would take more space meet with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Growth {
    /// They are tried.
    #[default]
    Allowed,
    /// They are tried until so many bytes were written, overwrites counted too. What needs new space then waits for another word, and is
    /// refused when none comes for long.
    Limited(u64),
    /// They fail with [`crate::VolumeError::OutOfSpace`]; writes to what takes space already go on, and so does unmapping.
    Refused,
}
