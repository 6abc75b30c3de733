// SPDX-License-Identifier: Apache-2.0
//! Logical block provisioning management (SBC-4 4.7): thin or thick, space, and soft thresholds.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::lock;

/// Provisioning of a unit's blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Provisioning {
    /// Allocated when written; unmapping frees them, if the volume supports it.
    #[default]
    Thin,
    /// All blocks have reserved space, and cannot be unmapped.
    Thick,
}

/// Space of a unit, bytes, and its thresholds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceFigures {
    /// Space that its blocks take, those that it shares included.
    pub used_bytes: u64,
    /// Space that they can take in addition before writes fail.
    pub available_bytes: u64,
    /// Hosts get a unit attention when `used_bytes` rises to this value.
    pub used_threshold_bytes: Option<u64>,
    /// Hosts get a unit attention when `available_bytes` falls to this value.
    pub available_threshold_bytes: Option<u64>,
}

/// A threshold set (SBC-4 4.7.3.7), bytes: resource counts and thresholds are multiples of it.
pub(crate) const THRESHOLD_SET_BYTES: u64 = 1 << 20;

/// THRESHOLD RESOURCE; also the parameter code of the log page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Resource {
    /// Available LBA mapping resources.
    Available = 0x01,
    /// Used LBA mapping resources.
    Used = 0x02,
}

/// Converts bytes to a RESOURCE COUNT or THRESHOLD COUNT.
pub(crate) fn threshold_sets(bytes: u64) -> u32 {
    u32::try_from(bytes / THRESHOLD_SET_BYTES).unwrap_or(u32::MAX)
}

/// Space data of a logical unit.
#[derive(Debug, Default)]
pub(crate) struct SpaceState {
    thick: AtomicBool,
    known: Mutex<Known>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    figures: Option<SpaceFigures>,
    reached: Reached,
}

/// Thresholds that are reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Reached {
    used: bool,
    available: bool,
    /// The threshold reached last.
    last: Option<Resource>,
}

impl SpaceState {
    pub(crate) fn provisioning(&self) -> Provisioning {
        if self.thick.load(Ordering::Relaxed) {
            Provisioning::Thick
        } else {
            Provisioning::Thin
        }
    }

    /// Sets the provisioning. Returns whether it changed.
    pub(crate) fn set_provisioning(&self, provisioning: Provisioning) -> bool {
        let thick = provisioning == Provisioning::Thick;
        self.thick.swap(thick, Ordering::Relaxed) != thick
    }

    pub(crate) fn figures(&self) -> Option<SpaceFigures> {
        lock(&self.known).figures
    }

    /// The resource whose threshold was reached last.
    pub(crate) fn reached_last(&self) -> Option<Resource> {
        lock(&self.known).reached.last
    }

    /// Sets the figures. Returns whether another threshold is reached. A reached threshold is armed again when the value is a
    /// 64th of it away from it, at least a whole threshold set.
    pub(crate) fn set_figures(&self, figures: SpaceFigures) -> bool {
        let SpaceFigures {
            used_bytes,
            available_bytes,
            used_threshold_bytes,
            available_threshold_bytes,
        } = figures;
        let mut known = lock(&self.known);
        let before = known.reached;
        // Snapshots and UNMAP move a pool around its threshold: without this each crossing would warn all hosts.
        let slack = |reached: bool, threshold: u64| {
            if reached {
                (threshold / 64).max(THRESHOLD_SET_BYTES)
            } else {
                0
            }
        };
        let used = used_threshold_bytes.is_some_and(|threshold| {
            used_bytes.saturating_add(slack(before.used, threshold)) >= threshold
        });
        let available = available_threshold_bytes.is_some_and(|threshold| {
            available_bytes <= threshold.saturating_add(slack(before.available, threshold))
        });
        let newly = if available && !before.available {
            Some(Resource::Available)
        } else if used && !before.used {
            Some(Resource::Used)
        } else {
            None
        };
        *known = Known {
            figures: Some(figures),
            reached: Reached {
                used,
                available,
                last: newly.or(before.last),
            },
        };
        newly.is_some()
    }

    /// Takes over the figures of a unit with the same identity, but not its provisioning.
    pub(crate) fn inherit(&self, old: &Self) {
        let old = *lock(&old.known);
        let mut known = lock(&self.known);
        known.reached = old.reached;
        known.figures = known.figures.or(old.figures);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = THRESHOLD_SET_BYTES;

    #[test]
    fn a_threshold_is_reached_once_until_it_was_left() {
        let state = SpaceState::default();
        let at = |used: u64, available: u64| {
            state.set_figures(SpaceFigures {
                used_bytes: used * MIB,
                available_bytes: available * MIB,
                used_threshold_bytes: Some(80 * MIB),
                available_threshold_bytes: Some(10 * MIB),
            })
        };
        assert!(!at(79, 100));
        assert!(at(80, 100));
        assert_eq!(state.reached_last(), Some(Resource::Used));
        // Near the threshold, less than a set away from it.
        assert!(!at(80, 100) && !at(79, 100) && !at(81, 100));
        assert!(at(81, 10));
        assert_eq!(state.reached_last(), Some(Resource::Available));
        assert!(!at(81, 11) && !at(81, 9));
        assert!(!at(78, 12));
        assert!(at(80, 12) && at(80, 10));
    }

    #[test]
    fn without_thresholds_nothing_is_reached() {
        let state = SpaceState::default();
        assert!(!state.set_figures(SpaceFigures {
            used_bytes: u64::MAX,
            ..SpaceFigures::default()
        }));
    }

    #[test]
    fn a_replacement_unit_knows_which_thresholds_were_reported() {
        let figures = SpaceFigures {
            used_bytes: 10,
            used_threshold_bytes: Some(10),
            ..SpaceFigures::default()
        };
        let (old, new) = (SpaceState::default(), SpaceState::default());
        assert!(old.set_figures(figures));
        new.inherit(&old);
        assert_eq!(new.figures(), Some(figures));
        assert!(!new.set_figures(figures));
    }
}
