// SPDX-License-Identifier: Apache-2.0
//! Logical block provisioning management (SBC-4 4.7): whether a unit is thin, its space, and soft thresholds.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::lock;

/// How blocks of a unit get their space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Provisioning {
    /// When they are written, and unmapping gives it back; as far as the volume can do that.
    #[default]
    Thin,
    /// It is reserved for all of them: there is nothing to unmap.
    Thick,
}

/// Space of a unit, bytes, and when hosts want to hear of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceFigures {
    /// What its blocks take.
    pub used_bytes: u64,
    /// What they could take in addition before writes fail.
    pub available_bytes: u64,
    /// Hosts are notified when `used_bytes` rises to this.
    pub used_threshold_bytes: Option<u64>,
    /// Hosts are notified when `available_bytes` falls to this.
    pub available_threshold_bytes: Option<u64>,
}

/// A threshold set (SBC-4 4.7.3.7): resource counts and thresholds are multiples of it, bytes.
pub(crate) const THRESHOLD_SET_BYTES: u64 = 1 << 20;

/// THRESHOLD RESOURCE, and parameter code of the log page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Resource {
    /// Available LBA mapping resources.
    Available = 0x01,
    /// Used LBA mapping resources.
    Used = 0x02,
}

/// Bytes as a RESOURCE COUNT or THRESHOLD COUNT.
pub(crate) fn threshold_sets(bytes: u64) -> u32 {
    u32::try_from(bytes / THRESHOLD_SET_BYTES).unwrap_or(u32::MAX)
}

/// What a logical unit knows of its space.
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

/// Thresholds that were reached and not left again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Reached {
    used: bool,
    available: bool,
    /// The one reached last.
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

    /// Says whether it was another before.
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

    /// Says whether a threshold is reached that was not before. Once reached, it is armed again when it was left by a whole
    /// threshold set.
    pub(crate) fn set_figures(&self, figures: SpaceFigures) -> bool {
        let SpaceFigures {
            used_bytes,
            available_bytes,
            used_threshold_bytes,
            available_threshold_bytes,
        } = figures;
        let mut known = lock(&self.known);
        let before = known.reached;
        let slack = |reached| if reached { THRESHOLD_SET_BYTES } else { 0 };
        let used = used_threshold_bytes
            .is_some_and(|threshold| used_bytes.saturating_add(slack(before.used)) >= threshold);
        let available = available_threshold_bytes.is_some_and(|threshold| {
            available_bytes <= threshold.saturating_add(slack(before.available))
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

    /// What a unit with the same identity knew. How it is provisioned stays what was said here.
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
        // About the threshold, and no whole set away from it.
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
