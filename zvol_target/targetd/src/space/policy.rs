// SPDX-License-Identifier: Apache-2.0
//! What follows from the figures of a pool and its LUNs. Facts and measurements: docs/space.md.

use std::time::Duration;

use volume::Growth;
use volume::zfs::{Dataset, Pool};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Between two updates of a pool, at most and at least.
const LONGEST: Duration = Duration::from_secs(5);
const SHORTEST: Duration = Duration::from_millis(500);

/// What writers may take of a pool in a second, bytes: the next update comes before they could have taken the headroom.
const FASTEST_WRITERS: u64 = 2 * GIB;

/// With less than this above the headroom, writers could take it all between two updates, also where updates are slow.
fn near(total: u64) -> u64 {
    (total / 4).min(8 * GIB)
}

/// Whether a pool of `total` bytes with `left` bytes left is near its end.
pub(super) fn is_near(total: u64, left: u64, headroom: u64) -> bool {
    left.saturating_sub(headroom) < near(total)
}

/// Figures of a pool, or of a file system, bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PoolFigures {
    /// What can be used of it in all.
    pub total: u64,
    /// What is left for every user.
    pub available: u64,
    /// What is on its disks free, in the unit of `total`: more than `available` by what is reserved and what OpenZFS keeps back.
    pub free: u64,
    /// What OpenZFS keeps back.
    pub slop: u64,
    /// What sharing of blocks saves.
    pub saved: u64,
}

impl PoolFigures {
    /// Of a pool, by its root dataset.
    pub fn of_pool(root: &Dataset, pool: &Pool) -> Self {
        let slop = slop(pool.size);
        let total = root.used.saturating_add(root.available);
        // With parity `free` and `size` are more than datasets can have. Saved blocks count as used, and take nothing.
        let whole = total.saturating_add(slop).saturating_sub(pool.clone_saved);
        let free = if pool.size == 0 {
            0
        } else {
            (u128::from(pool.free) * u128::from(whole.min(pool.size)) / u128::from(pool.size))
                as u64
        };
        Self {
            total,
            available: root.available,
            free,
            slop,
            saved: pool.clone_saved,
        }
    }

    /// Of a file system that is no pool.
    pub fn of_file_system(total: u64, available: u64) -> Self {
        Self {
            total,
            available,
            free: available,
            slop: 0,
            saved: 0,
        }
    }
}

/// What OpenZFS keeps back of a pool (`spa_get_slop_space()`, `spa_slop_shift` 5): a 32nd, 128 MiB to 128 GiB, but not more than
/// half of it.
fn slop(size: u64) -> u64 {
    (size / 32).max((128 * MIB).min(size / 2)).min(128 * GIB)
}

/// With less available than this, thin LUNs may not allocate more: a 64th of the pool, 64 MiB to 4 GiB. It is for writes of other
/// users, snapshots and metadata.
pub(super) fn headroom(total: u64) -> u64 {
    (total / 64).clamp(64 * MIB, 4 * GIB).min(total / 8)
}

/// The same of a file system that overwrites in place, and needs none for that.
pub(super) fn file_headroom(total: u64) -> u64 {
    (total / 64).min(GIB)
}

/// Half of it lets a write of 1 MiB through, and heartbeats at the same time.
const LEAST_LUN_HEADROOM: u64 = 128 * MIB;

/// What is reserved for the overwrites of a LUN when nothing else is left. OpenZFS demands 24 times what is written and not in the
/// pool yet: with 1 GiB, 43 MiB go at once, or 150 to 300 random writes that each change an indirect block of their own.
/// Of a small pool less, so that all LUNs together take no more than a 16th of it, where that leaves each the 128 MiB that it needs to
/// live on.
pub(super) fn lun_headroom(total: u64, luns: usize) -> u64 {
    let luns = (luns as u64).max(1);
    (total / 64)
        .min(total / 16 / luns)
        .clamp(LEAST_LUN_HEADROOM, GIB)
}

/// What a LUN can take of what is nobody's and of its own `refreservation`, for new space.
pub(super) fn left_for_growth(dataset: &Dataset) -> u64 {
    let own = dataset.used_by_refreservation;
    dataset.unreserved_bytes().saturating_add(own)
}

/// How much a thin LUN may write before the next update near the end of its pool, with `held` bytes reserved for it.
///
/// A write takes from what is reserved when nothing else is left. Where others could fill the pool between two updates, growth leaves
/// half of the LUN's headroom for overwrites.
pub(super) fn limit(growth: Growth, held: u64, headroom: u64) -> Growth {
    match growth {
        Growth::Allowed => Growth::Limited(held.saturating_sub(headroom / 2)),
        growth => growth,
    }
}

/// Whether LUNs may take more with `left` bytes left. Once refused, there must be a quarter more than the headroom again.
pub(super) fn growth(before: Growth, left: u64, headroom: u64) -> Growth {
    let needed = match before {
        Growth::Allowed | Growth::Limited(_) => headroom,
        Growth::Refused => headroom.saturating_add(headroom / 4),
    };
    if left < needed {
        Growth::Refused
    } else {
        Growth::Allowed
    }
}

/// What `reservation` of a zvol should be, when it should be another: what the zvol uses and `headroom`. `left` is what is left for
/// every user. Not for every change: 3 to 5 quarters of the headroom will do.
pub(super) fn reservation(dataset: &Dataset, headroom: u64, left: u64) -> Option<u64> {
    let held = dataset.reservation.saturating_sub(dataset.used);
    let desired = if held < headroom - headroom / 4 {
        headroom.min(held.saturating_add(left))
    } else if held > headroom.saturating_add(headroom / 4) {
        headroom
    } else {
        return None;
    };
    // A little more now and then only: each costs a transaction group.
    let worth = desired.abs_diff(held) >= (headroom / 16).max(1);
    worth.then_some(dataset.used.saturating_add(desired))
}

/// Whether more is reserved than is free on the disks.
///
/// A write within a reservation is not held against the pool's space. Overwriting a shared block takes new space though, and
/// with nothing else left that comes from what OpenZFS keeps back for itself; when that is used up the pool is suspended
/// (seen, docs/space.md). So reservations of thin LUNs end before: then OpenZFS itself refuses.
pub(super) fn is_overcommitted(before: bool, pool: &PoolFigures, held: u64) -> bool {
    if pool.saved == 0 || pool.available > 0 {
        return false;
    }
    let eighths = if before { 7 } else { 6 };
    pool.free < held.saturating_add(pool.slop / 8 * eighths)
}

/// When the next update is due: before the fastest writers could have taken half of what is above the headroom; where more is shared
/// than there is space for, as often as can be.
pub(super) fn next_update(pool: &PoolFigures, left: u64, headroom: u64, refused: bool) -> Duration {
    if refused {
        return if pool.saved > left {
            SHORTEST
        } else {
            SHORTEST * 2
        };
    }
    if is_near(pool.total, left, headroom) {
        return SHORTEST;
    }
    let above = left.saturating_sub(headroom);
    Duration::from_millis(above / 2 / (FASTEST_WRITERS / 1000)).clamp(SHORTEST, LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dataset(used: u64, reservation: u64) -> Dataset {
        Dataset {
            used: used * MIB,
            reservation: reservation * MIB,
            ..Dataset::default()
        }
    }

    #[test]
    fn growth_ends_at_the_headroom_and_returns_well_above_it() {
        assert_eq!(growth(Growth::Allowed, 100, 100), Growth::Allowed);
        assert_eq!(growth(Growth::Allowed, 99, 100), Growth::Refused);
        assert_eq!(growth(Growth::Refused, 124, 100), Growth::Refused);
        assert_eq!(growth(Growth::Refused, 125, 100), Growth::Allowed);
    }

    #[test]
    fn defaults_fit_pools_of_every_size() {
        for total in [256 * MIB, 2 * GIB, 100 * GIB, 10 << 40] {
            assert!(headroom(total) <= total / 8);
            assert!(lun_headroom(total, 1) >= LEAST_LUN_HEADROOM);
        }
        assert_eq!(headroom(10 << 40), 4 * GIB);
        assert_eq!(
            (lun_headroom(10 << 40, 1), lun_headroom(10 << 40, 100)),
            (GIB, GIB)
        );
        assert_eq!(lun_headroom(256 * GIB, 256), LEAST_LUN_HEADROOM);
        assert_eq!(slop(2 * GIB), 128 * MIB);
        assert_eq!(slop(8 << 40), 128 * GIB);
    }

    #[test]
    fn near_the_end_growth_leaves_half_of_the_headroom() {
        let limit = |growth, held| limit(growth, held, 128 * MIB);
        assert_eq!(limit(Growth::Allowed, 128 * MIB), Growth::Limited(64 * MIB));
        assert_eq!(limit(Growth::Allowed, MIB), Growth::Limited(0));
        assert_eq!(limit(Growth::Refused, 128 * MIB), Growth::Refused);
        assert!(is_near(1 << 40, 11 * GIB, 4 * GIB) && !is_near(1 << 40, 13 * GIB, 4 * GIB));
        assert!(is_near(2 * GIB, 500 * MIB, 64 * MIB) && !is_near(2 * GIB, GIB, 64 * MIB));
    }

    #[test]
    fn what_is_reserved_for_a_lun_is_its_own_to_grow_into() {
        let mut own = dataset(400, 0);
        own.available = 300 * MIB;
        own.used_by_refreservation = 300 * MIB;
        assert_eq!(left_for_growth(&own), 300 * MIB);
        own.used = 700 * MIB;
        own.reservation = 828 * MIB;
        own.available = 528 * MIB;
        assert_eq!(left_for_growth(&own), 400 * MIB);
    }

    #[test]
    fn figures_without_bounds_overflow_nothing() {
        assert_eq!(growth(Growth::Refused, 5, u64::MAX), Growth::Refused);
        assert!(reservation(&dataset(100, 0), u64::MAX, u64::MAX).is_some());
    }

    #[test]
    fn the_reservation_follows_what_is_used() {
        let next = |used, reserved, left: u64| {
            reservation(&dataset(used, reserved), 64 * MIB, left * MIB).map(|bytes| bytes / MIB)
        };
        assert_eq!(next(100, 0, 1000), Some(164));
        assert_eq!(next(100, 164, 1000), None);
        assert_eq!(next(110, 164, 1000), None);
        assert_eq!(next(120, 164, 1000), Some(184));
        // After UNMAP.
        assert_eq!(next(20, 164, 1000), Some(84));
        // Near the end what there is; with nothing left, nothing.
        assert_eq!(next(150, 164, 10), Some(174));
        assert_eq!(next(150, 164, 0), None);
        assert_eq!(next(150, 100, 3), None);
    }

    #[test]
    fn shared_blocks_that_are_overwritten_end_reservations_before_the_pool_is_used_up() {
        let pool = |free: u64, saved: u64, available: u64| PoolFigures {
            free: free * MIB,
            slop: 128 * MIB,
            saved: saved * MIB,
            available,
            ..PoolFigures::default()
        };
        let held = 128 * MIB;
        assert!(!is_overcommitted(false, &pool(256, 300, 0), held));
        assert!(!is_overcommitted(false, &pool(225, 300, 0), held));
        assert!(is_overcommitted(false, &pool(223, 300, 0), held));
        assert!(is_overcommitted(true, &pool(230, 300, 0), held));
        assert!(!is_overcommitted(true, &pool(241, 300, 0), held));
        assert!(
            !is_overcommitted(true, &pool(100, 300, 1), held),
            "space was added"
        );
        assert!(
            !is_overcommitted(false, &pool(100, 0, 0), held),
            "nothing is shared"
        );
    }

    #[test]
    fn figures_of_a_full_pool_as_measured() {
        // A pool of 2 GiB, two zvols that share 384 MiB, 64 MiB held for each, filled by a file.
        let root = Dataset {
            used: (1_746_818_560 - 4_194_304) + 402_653_184 + 2 * 64 * MIB,
            ..Dataset::default()
        };
        let pool = Pool {
            size: 2_013_265_920,
            free: 266_447_360,
            clone_saved: 402_653_184,
        };
        let figures = PoolFigures::of_pool(&root, &pool);
        assert!(figures.free.abs_diff(pool.free) < 8 * MIB, "{figures:?}");
        assert!(!is_overcommitted(false, &figures, 128 * MIB));
    }

    #[test]
    fn updates_are_as_frequent_as_the_pool_is_full() {
        let next = |left, refused, saved| {
            let pool = PoolFigures {
                total: 2 << 40,
                saved,
                ..PoolFigures::default()
            };
            next_update(&pool, left, GIB, refused)
        };
        assert_eq!(next(1 << 40, false, GIB), LONGEST);
        assert_eq!(next(13 * GIB, false, 0), Duration::from_secs(3));
        assert_eq!(next(5 * GIB, false, 0), SHORTEST);
        assert_eq!(next(0, true, 0), Duration::from_secs(1));
        assert_eq!(next(0, true, GIB), SHORTEST);
    }
}
