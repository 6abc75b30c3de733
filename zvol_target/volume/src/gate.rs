//! What writes that need new space meet with in a volume.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::{CloneLedger, Growth};

/// Values of `left` that are no number of bytes.
const ALLOWED: u64 = u64::MAX;
const REFUSED: u64 = u64::MAX - 1;

/// What a write meets with that may need new space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It may.
    Passed,
    /// Not now; another word will come.
    Exhausted,
    /// It may not.
    Refused,
}

/// When it was looked how much space is left, and whether that was next to nothing.
pub(crate) type Looked = Mutex<Option<(Instant, bool)>>;

/// Stands before every write.
pub(crate) struct Gate {
    /// Bytes that may be written before another word, or one of the values above.
    left: AtomicU64,
    changed: Notify,
    ledger: Mutex<Option<Arc<dyn CloneLedger>>>,
    /// Of a zvol.
    pub(crate) zvol: Option<Looked>,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            left: AtomicU64::new(ALLOWED),
            changed: Notify::new(),
            ledger: Mutex::default(),
            zvol: None,
        }
    }
}

impl Gate {
    pub(crate) fn of_zvol() -> Self {
        Self {
            zvol: Some(Mutex::default()),
            ..Self::default()
        }
    }

    /// Who waits for a word has it.
    pub(crate) fn set(&self, growth: Growth) {
        let left = match growth {
            Growth::Allowed => ALLOWED,
            Growth::Limited(bytes) => bytes.min(REFUSED - 1),
            Growth::Refused => REFUSED,
        };
        self.left.store(left, Ordering::Release);
        self.changed.notify_waiters();
    }

    /// The last word, less what was written upon it.
    pub(crate) fn growth(&self) -> Growth {
        match self.left.load(Ordering::Acquire) {
            ALLOWED => Growth::Allowed,
            REFUSED => Growth::Refused,
            bytes => Growth::Limited(bytes),
        }
    }

    /// Asks for a write of `length` bytes.
    pub(crate) fn admit(&self, length: u64) -> Verdict {
        match self.left.load(Ordering::Acquire) {
            ALLOWED => Verdict::Passed,
            REFUSED => Verdict::Refused,
            _ => {
                let took = self
                    .left
                    .fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| match left {
                        ALLOWED | REFUSED => None,
                        bytes => bytes.checked_sub(length),
                    });
                match took {
                    Ok(_) | Err(ALLOWED) => Verdict::Passed,
                    Err(REFUSED) => Verdict::Refused,
                    Err(_) => Verdict::Exhausted,
                }
            }
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.left.load(Ordering::Acquire) == REFUSED
    }

    /// For those who wait for another word.
    pub(crate) fn changed(&self) -> &Notify {
        &self.changed
    }

    pub(crate) fn set_ledger(&self, ledger: Option<Arc<dyn CloneLedger>>) {
        *self.ledger.lock().unwrap_or_else(PoisonError::into_inner) = ledger;
    }

    pub(crate) fn ledger(&self) -> Option<Arc<dyn CloneLedger>> {
        let ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        ledger.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_bytes_pass_and_no_more() {
        let gate = Gate::default();
        assert_eq!(gate.admit(u64::MAX), Verdict::Passed);
        gate.set(Growth::Limited(1000));
        assert_eq!(gate.admit(600), Verdict::Passed);
        assert_eq!(gate.admit(600), Verdict::Exhausted);
        assert_eq!(gate.admit(400), Verdict::Passed);
        assert_eq!(gate.admit(1), Verdict::Exhausted);
        assert_eq!(gate.growth(), Growth::Limited(0));
        assert!(!gate.is_closed());
        gate.set(Growth::Refused);
        assert_eq!(gate.admit(1), Verdict::Refused);
        assert!(gate.is_closed());
        gate.set(Growth::Allowed);
        assert_eq!(gate.admit(1), Verdict::Passed);
    }
}
