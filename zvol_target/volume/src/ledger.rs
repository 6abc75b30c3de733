//! Space for the blocks that a volume with reserved space shares.

use std::sync::Arc;

use crate::LocalBoxFuture;

/// Keeps the space that shared blocks of one volume will need when they are overwritten.
///
/// OpenZFS charges a cloned block to its dataset in full, yet the pool has it once: reserving the size of a volume is not enough for
/// its promise once blocks of it are shared with others, or among themselves. So leave is asked for before, and what became of it is
/// told after.
pub trait CloneLedger: Send + Sync {
    /// Leave to share `bytes` more. False: what they will need can't be reserved now, and they have to be copied.
    ///
    /// It may wait for a transaction group, or until it is known what is shared: not to be called under a lock that writers wait for.
    /// Dropped, no leave was given.
    fn claim(&self, bytes: u64) -> LocalBoxFuture<'_, bool>;

    /// Of `bytes` of leave, `shared_bytes` were shared; the others are given back.
    fn settle(&self, bytes: u64, shared_bytes: u64);

    /// The volume has another ledger by now, or needs none: who waits for leave is to ask there.
    fn replaced(&self);
}

pub(crate) fn is_same(one: &Arc<dyn CloneLedger>, other: &Arc<dyn CloneLedger>) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(one), Arc::as_ptr(other))
}
