// SPDX-License-Identifier: Apache-2.0
//! Decisions from the figures of a pool and its LUNs. Facts and measurements: docs/space.md.

use std::time::Duration;

use volume::Growth;
use volume::zfs::{Dataset, Pool};

use crate::configuration::Threshold;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Longest and shortest time between two updates of a pool.
pub(super) const LONGEST: Duration = Duration::from_secs(5);
pub(super) const SHORTEST: Duration = Duration::from_millis(500);

/// Highest write rate of a pool, bytes per second: the next update comes before writers at this rate can use up the headroom.
const FASTEST_WRITERS: u64 = 2 * GIB;

/// With less than this above the headroom, writers could use it up between two updates, even if updates are slow.
fn near(total: u64) -> u64 {
    (total / 4).min(8 * GIB)
}

/// Whether a pool of `total` bytes is nearly full, with `left` bytes left.
pub(super) fn is_near(total: u64, left: u64, headroom: u64) -> bool {
    left.saturating_sub(headroom) < near(total)
}

/// Figures of a pool or a file system, bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PoolFigures {
    /// Usable size.
    pub total: u64,
    /// Available to every user.
    pub available: u64,
    /// Free on its disks, in the unit of `total`. It exceeds `available` by reservations and slop.
    pub free: u64,
    /// Space that OpenZFS holds back.
    pub slop: u64,
    /// Space saved by shared blocks.
    pub saved: u64,
}

impl PoolFigures {
    /// Figures of a pool, from its root dataset.
    pub fn of_pool(root: &Dataset, pool: &Pool) -> Self {
        let slop = slop(pool.size, pool.embedded_log);
        let total = root.used.saturating_add(root.available);
        // With parity, `free` and `size` exceed what datasets can use. Saved blocks count as used, but take no space.
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

    /// Bytes above the headroom with which the users of the pool together reach its threshold. Saved blocks are in `total`, but
    /// take no space.
    pub fn left_at(&self, threshold: Threshold, headroom: u64) -> u64 {
        let capacity = self.total.saturating_sub(self.saved);
        capacity
            .saturating_sub(threshold.of(capacity))
            .saturating_sub(headroom)
    }

    /// Figures of a file system other than ZFS.
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

/// Slop space of a pool (`spa_get_slop_space()`, `spa_slop_shift` 5): 1/32 and at most 128 GiB, of which embedded logs are up to
/// half, but at least 128 MiB, or half of the pool.
fn slop(size: u64, embedded_log: u64) -> u64 {
    let slop = (size / 32).min(128 * GIB);
    let slop = slop - embedded_log.min(slop / 2);
    slop.max((128 * MIB).min(size / 2))
}

/// Default headroom: with less available, thin LUNs may not allocate more. 1/64 of the pool, from 64 MiB to 4 GiB, for writes of
/// other users, snapshots and metadata.
pub(super) fn headroom(total: u64) -> u64 {
    (total / 64).clamp(64 * MIB, 4 * GIB).min(total / 8)
}

/// Default headroom of a file system that overwrites in place, and needs no space for that.
pub(super) fn file_headroom(total: u64) -> u64 {
    (total / 64).min(GIB)
}

/// Half of it suffices for a write of 1 MiB together with heartbeats.
const LEAST_LUN_HEADROOM: u64 = 128 * MIB;

/// Default reservation for the overwrites of a LUN in a full pool. OpenZFS demands 24 times the data that is written and not in
/// the pool yet. 1 GiB lets 43 MiB pass at once, or 150 to 300 random writes that each change a separate indirect block. In a
/// small pool it is less, so that all LUNs together take at most 1/16 of the pool, but at least 128 MiB for each LUN.
pub(super) fn lun_headroom(total: u64, luns: usize) -> u64 {
    let luns = (luns as u64).max(1);
    (total / 64)
        .min(total / 16 / luns)
        .clamp(LEAST_LUN_HEADROOM, GIB)
}

/// Space that a LUN can allocate: unreserved space, and the rest of its `refreservation`.
pub(super) fn left_for_growth(dataset: &Dataset) -> u64 {
    let reserved = dataset.used_by_refreservation;
    dataset.unreserved_bytes().saturating_add(reserved)
}

/// Bytes that a thin LUN may write before the next update of a nearly full pool, with `held` bytes reserved for it.
///
/// A write uses the reservation if nothing else is left. If others could fill the pool between two updates, growth may use half
/// of the LUN's headroom; the rest is for overwrites.
pub(super) fn limit(growth: Growth, held: u64, headroom: u64) -> Growth {
    match growth {
        Growth::Allowed => Growth::Limited(held.saturating_sub(headroom / 2)),
        growth => growth,
    }
}

/// Whether LUNs may allocate more, with `left` bytes left. After a refusal, 5/4 of the headroom must be available first.
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

/// The new `reservation` of a zvol, if it must change: used space plus `headroom`. `left` is available to every user. Small
/// changes are skipped: 3/4 to 5/4 of the headroom is close enough.
pub(super) fn reservation(dataset: &Dataset, headroom: u64, left: u64) -> Option<u64> {
    let held = dataset.reservation.saturating_sub(dataset.used);
    let desired = if held < headroom - headroom / 4 {
        headroom.min(held.saturating_add(left))
    } else if held > headroom.saturating_add(headroom / 4) {
        headroom
    } else {
        return None;
    };
    // Grow it in large steps: each change costs a transaction group.
    let worth = desired.abs_diff(held) >= (headroom / 16).max(1);
    worth.then_some(dataset.used.saturating_add(desired))
}

/// Whether reservations exceed the free space on the disks.
///
/// A write within a reservation is not checked against the pool's space. But an overwrite of a shared block needs new space. If
/// nothing else is left, it uses the slop space; when that is used up, the pool is suspended (seen, docs/space.md). So
/// reservations of thin LUNs are released before: then OpenZFS refuses the writes.
pub(super) fn is_overcommitted(before: bool, pool: &PoolFigures, held: u64) -> bool {
    if pool.saved == 0 || pool.available > 0 {
        return false;
    }
    let eighths = if before { 7 } else { 6 };
    pool.free < held.saturating_add(pool.slop / 8 * eighths)
}

/// Time to the next update: before the fastest writers could use up half of the space above the headroom. If more is shared than
/// space is available, as often as possible.
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
        assert_eq!(slop(2 * GIB, 0), 128 * MIB);
        assert_eq!(slop(8 << 40, 0), 128 * GIB);
        assert_eq!(slop(8 << 40, 48 * GIB), 80 * GIB);
        assert_eq!(slop(40 << 40, 200 * GIB), 64 * GIB);
    }

    #[test]
    fn growth_in_a_nearly_full_pool_leaves_half_of_the_headroom() {
        let limit = |growth, held| limit(growth, held, 128 * MIB);
        assert_eq!(limit(Growth::Allowed, 128 * MIB), Growth::Limited(64 * MIB));
        assert_eq!(limit(Growth::Allowed, MIB), Growth::Limited(0));
        assert_eq!(limit(Growth::Refused, 128 * MIB), Growth::Refused);
        assert!(is_near(1 << 40, 11 * GIB, 4 * GIB) && !is_near(1 << 40, 13 * GIB, 4 * GIB));
        assert!(is_near(2 * GIB, 500 * MIB, 64 * MIB) && !is_near(2 * GIB, GIB, 64 * MIB));
    }

    #[test]
    fn a_lun_can_allocate_its_refreservation() {
        let mut thick = dataset(400, 0);
        thick.available = 300 * MIB;
        thick.used_by_refreservation = 300 * MIB;
        assert_eq!(left_for_growth(&thick), 300 * MIB);
        thick.used = 700 * MIB;
        thick.reservation = 828 * MIB;
        thick.available = 528 * MIB;
        assert_eq!(left_for_growth(&thick), 400 * MIB);
    }

    #[test]
    fn figures_without_bounds_overflow_nothing() {
        assert_eq!(growth(Growth::Refused, 5, u64::MAX), Growth::Refused);
        assert!(reservation(&dataset(100, 0), u64::MAX, u64::MAX).is_some());
    }

    #[test]
    fn the_reservation_follows_the_used_space() {
        let next = |used, reserved, left: u64| {
            reservation(&dataset(used, reserved), 64 * MIB, left * MIB).map(|bytes| bytes / MIB)
        };
        assert_eq!(next(100, 0, 1000), Some(164));
        assert_eq!(next(100, 164, 1000), None);
        assert_eq!(next(110, 164, 1000), None);
        assert_eq!(next(120, 164, 1000), Some(184));
        // After UNMAP.
        assert_eq!(next(20, 164, 1000), Some(84));
        // When the pool is nearly full, the available space; with nothing left, no change.
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
        // A pool of 2 GiB with two zvols that share 384 MiB, 64 MiB reserved for each, filled by a file.
        let root = Dataset {
            used: (1_746_818_560 - 4_194_304) + 402_653_184 + 2 * 64 * MIB,
            ..Dataset::default()
        };
        let pool = Pool {
            size: 2_013_265_920,
            free: 266_447_360,
            clone_saved: 402_653_184,
            ..Pool::default()
        };
        let figures = PoolFigures::of_pool(&root, &pool);
        assert!(figures.free.abs_diff(pool.free) < 8 * MIB, "{figures:?}");
        assert!(!is_overcommitted(false, &figures, 128 * MIB));
    }

    #[test]
    fn the_embedded_logs_of_a_large_pool_are_no_space_for_overwrites() {
        // 12 mirrors of 3.5 TiB. When `zpool list` shows 192 GiB free, data has used up all that it can use.
        let log = 12 * 16 * GIB;
        let size = 12 * (3584 << 30) - log;
        let figures = |free: u64| {
            let pool = Pool {
                size,
                free: free - log,
                embedded_log: log,
                clone_saved: 200 * GIB,
            };
            let root = Dataset {
                used: size - slop(size, log) + pool.clone_saved,
                ..Dataset::default()
            };
            PoolFigures::of_pool(&root, &pool)
        };
        let held = 40 * GIB;
        assert!(!is_overcommitted(false, &figures(log + 100 * GIB), held));
        assert!(is_overcommitted(false, &figures(log + 80 * GIB), held));
    }

    #[test]
    fn clones_do_not_move_the_threshold_of_a_pool() {
        let left_at = |saved| {
            let pool = PoolFigures {
                total: 1000 * GIB + saved,
                saved,
                ..PoolFigures::default()
            };
            pool.left_at(Threshold { percent: 80 }, 4 * GIB)
        };
        assert_eq!(left_at(0), 196 * GIB);
        assert_eq!(left_at(4000 * GIB), left_at(0));
    }

    #[test]
    fn updates_are_more_frequent_in_a_fuller_pool() {
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
