// SPDX-License-Identifier: Apache-2.0
//! The result of a copy.

/// Why bytes were not cloned. Fallbacks are counted by reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FallbackReason {
    /// The backends cannot clone between source and destination, or the module `zvol_clone` is not loaded.
    Unsupported,
    /// Offset or length is not a multiple of the cloning unit: at the edges, or everywhere if the two ranges are aligned
    /// differently.
    Unaligned,
    /// Source and destination are in different pools or file systems.
    OtherPool,
    /// Different volblocksize or record size.
    OtherBlockSize,
    /// Encrypted with different keys.
    OtherKey,
    /// Source blocks were not on disk yet.
    Dirty,
    /// Source or destination is thick: its blocks are never shared.
    Thick,
    /// The backend failed to clone; the log has the error.
    Failed,
}

impl FallbackReason {
    /// All reasons, in the order of their discriminants.
    pub const ALL: [Self; 8] = [
        Self::Unsupported,
        Self::Unaligned,
        Self::OtherPool,
        Self::OtherBlockSize,
        Self::OtherKey,
        Self::Dirty,
        Self::Thick,
        Self::Failed,
    ];
}

/// How the bytes of a copy were copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyReport {
    /// Shared with the source. (OpenZFS keeps the data of very compressible blocks in their block pointers: those are cloned, and
    /// share nothing.)
    pub cloned_bytes: u64,
    /// Read and written.
    pub copied_bytes: u64,
    /// Holes or zeroes in the source, and holes in the destination now.
    pub zeroed_bytes: u64,
    /// By [`FallbackReason`] as index: bytes of `copied_bytes` and `zeroed_bytes` that were not cloned for this reason.
    pub fallback_bytes: [u64; FallbackReason::ALL.len()],
}

impl CopyReport {
    /// Counts bytes that were not cloned for a reason.
    pub(super) fn fall_back(&mut self, reason: FallbackReason, bytes: u64) {
        self.fallback_bytes[reason as usize] += bytes;
    }

    /// Bytes done in any way.
    pub fn total_bytes(&self) -> u64 {
        self.cloned_bytes + self.copied_bytes + self.zeroed_bytes
    }
}
