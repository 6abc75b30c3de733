//! Leave to share blocks of volumes whose space is reserved, asked for ahead of the steps that use it and outside of their locks.

use std::sync::Arc;

use super::CopyRange;
use crate::CloneLedger;
use crate::ledger::is_same;

/// Most leave that a copy has at a time, bytes.
const PIECE: u64 = 64 << 20;

/// The ledger that answers for what a copy shares. Blocks that two volumes share need to be reserved once: by the one they come to, if
/// its space is reserved, else by the one they come from.
fn ledger(range: &CopyRange) -> Option<Arc<dyn CloneLedger>> {
    let destination = range.destination.clone_ledger();
    destination.or_else(|| range.source.clone_ledger())
}

/// What leave a copy has. What is left of it at the end is given back.
#[derive(Default)]
pub(super) struct Leave(Option<Held>);

struct Held {
    ledger: Arc<dyn CloneLedger>,
    bytes: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.ledger.settle(self.bytes, 0);
    }
}

impl Leave {
    /// Asks for what a step of `length` bytes needs beyond what there is, with `rest` bytes to be copied from its beginning on. It may be
    /// refused: the step finds that out.
    pub(super) async fn prepare(&mut self, range: &CopyRange, length: u64, rest: u64) {
        loop {
            let Some(asked) = ledger(range) else {
                self.0 = None;
                return;
            };
            let held = match &mut self.0 {
                Some(held) if is_same(&held.ledger, &asked) => held,
                other => other.insert(Held {
                    ledger: Arc::clone(&asked),
                    bytes: 0,
                }),
            };
            if held.bytes < length {
                let more = rest.min(PIECE).max(length) - held.bytes;
                if held.ledger.claim(more).await {
                    held.bytes += more;
                }
            }
            // It may be another by now: it was not known yet whether there is one.
            if held.bytes >= length || ledger(range).is_some_and(|now| is_same(&now, &asked)) {
                return;
            }
        }
    }

    /// Takes leave for a clone of `bytes`; `None` when there is not so much. Not asked for where no ledger is.
    pub(super) fn spend(&mut self, range: &CopyRange, bytes: u64) -> Option<Spent> {
        let Some(ledger) = ledger(range) else {
            return Some(Spent {
                ledger: None,
                bytes,
            });
        };
        let held = self.0.as_mut()?;
        // It may be another by now: the volume became thick.
        if !is_same(&held.ledger, &ledger) || held.bytes < bytes {
            return None;
        }
        held.bytes -= bytes;
        Some(Spent {
            ledger: Some(ledger),
            bytes,
        })
    }

    /// Of what was spent, `shared_bytes` were shared; the others may be spent again.
    pub(super) fn settle(&mut self, mut spent: Spent, shared_bytes: u64) {
        let shared = shared_bytes.min(spent.bytes);
        if let (Some(held), Some(ledger)) = (&mut self.0, &spent.ledger) {
            if is_same(&held.ledger, ledger) {
                held.bytes += spent.bytes - shared;
                spent.bytes = shared;
            }
        }
    }
}

/// Leave of a clone that is under way. Dropped, all of it counts as shared: the clone may go on.
pub(super) struct Spent {
    ledger: Option<Arc<dyn CloneLedger>>,
    bytes: u64,
}

impl Drop for Spent {
    fn drop(&mut self) {
        if let Some(ledger) = &self.ledger {
            ledger.settle(self.bytes, self.bytes);
        }
    }
}
