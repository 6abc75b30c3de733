// SPDX-License-Identifier: Apache-2.0
//! Decides whether writes to a volume may allocate new space.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::Growth;
use crate::sharing::Sharing;

/// Values of `left` that are not a number of bytes.
const ALLOWED: u64 = u64::MAX;
const REFUSED: u64 = u64::MAX - 1;
const FULL: u64 = u64::MAX - 2;

/// Refuse growth for this long after OpenZFS had no space, unless [`Gate::set`] is called.
const BELIEVED: Duration = Duration::from_secs(10);

/// Decision about a write that may need new space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passed,
    /// The grant is used up; wait for the next one.
    Exhausted,
    Refused,
}

/// Time of the last check of the space left, and whether almost none was left.
pub(crate) type SpaceCheck = Mutex<Option<(Instant, bool)>>;

/// Decides about every write of a volume.
pub(crate) struct Gate {
    /// Bytes that may be written before the next grant, or one of the values above.
    left: AtomicU64,
    /// When OpenZFS last refused space to the volume.
    full_at: Mutex<Option<Instant>>,
    changed: Notify,
    pub(crate) sharing: Sharing,
    /// Only for a zvol.
    pub(crate) zvol: Option<SpaceCheck>,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            left: AtomicU64::new(ALLOWED),
            full_at: Mutex::default(),
            changed: Notify::new(),
            sharing: Sharing::default(),
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

    /// Sets the growth and wakes the writes that wait for it.
    pub(crate) fn set(&self, growth: Growth) {
        let left = match growth {
            Growth::Allowed => ALLOWED,
            Growth::Limited(bytes) => bytes.min(FULL - 1),
            Growth::Refused => REFUSED,
        };
        self.left.store(left, Ordering::Release);
        self.changed.notify_waiters();
    }

    /// OpenZFS had no space: refuses growth until the next [`Gate::set`], or for a limited time.
    pub(crate) fn find_full(&self) {
        *lock(&self.full_at) = Some(Instant::now());
        let said = |left| (left != REFUSED).then_some(FULL);
        // A refusal set by the caller does not change.
        let _ = self
            .left
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, said);
        self.changed.notify_waiters();
    }

    /// Bytes that may be written, or [`ALLOWED`], or [`REFUSED`].
    fn left(&self) -> u64 {
        let left = self.left.load(Ordering::Acquire);
        if left != FULL {
            return left;
        }
        if lock(&self.full_at).is_some_and(|at| at.elapsed() < BELIEVED) {
            return REFUSED;
        }
        let over = self
            .left
            .compare_exchange(FULL, ALLOWED, Ordering::AcqRel, Ordering::Acquire);
        match over {
            Ok(_) => ALLOWED,
            Err(FULL) => REFUSED,
            Err(other) => other,
        }
    }

    /// The growth set last, less the bytes written since.
    pub(crate) fn growth(&self) -> Growth {
        match self.left() {
            ALLOWED => Growth::Allowed,
            REFUSED => Growth::Refused,
            bytes => Growth::Limited(bytes),
        }
    }

    /// Requests a write of `length` bytes, and deducts them from the grant.
    pub(crate) fn admit(&self, length: u64) -> Verdict {
        match self.left() {
            ALLOWED => Verdict::Passed,
            REFUSED => Verdict::Refused,
            _ => {
                let took = self
                    .left
                    .fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| match left {
                        ALLOWED | REFUSED | FULL => None,
                        bytes => bytes.checked_sub(length),
                    });
                match took {
                    Ok(_) | Err(ALLOWED) => Verdict::Passed,
                    Err(REFUSED | FULL) => Verdict::Refused,
                    Err(_) => Verdict::Exhausted,
                }
            }
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.left() == REFUSED
    }

    /// Notified when the growth changes.
    pub(crate) fn changed(&self) -> &Notify {
        &self.changed
    }

    pub(crate) fn is_thick(&self) -> bool {
        self.sharing.permit().is_none()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_shortage_found_by_the_volume_expires() {
        let gate = Gate::default();
        gate.set(Growth::Limited(1000));
        gate.find_full();
        assert_eq!(gate.admit(1), Verdict::Refused);
        assert!(gate.is_closed() && gate.growth() == Growth::Refused);
        tokio::time::advance(BELIEVED).await;
        assert_eq!(gate.admit(1), Verdict::Passed);
        gate.find_full();
        gate.set(Growth::Allowed);
        assert_eq!(gate.admit(1), Verdict::Passed);
        // A refusal set by the caller ends only when the caller sets another growth.
        gate.set(Growth::Refused);
        gate.find_full();
        tokio::time::advance(2 * BELIEVED).await;
        assert_eq!(gate.admit(1), Verdict::Refused);
    }

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
