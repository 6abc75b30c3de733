//! What is reserved for a thick LUN, and why.

use volume::zfs::Dataset;

/// What a thick LUN needs, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::space) struct Needs {
    /// Its size.
    pub size: u64,
    /// What that takes when it is written, metadata, parity and `copies` included.
    pub base: u64,
    /// For overwrites.
    pub slack: u64,
}

impl Needs {
    /// Whatever it shares.
    pub fn own(&self) -> u64 {
        self.base.saturating_add(self.slack)
    }

    /// What is charged for `bytes` of data.
    pub fn charged(&self, bytes: u64) -> u64 {
        if self.base <= self.size || bytes == 0 {
            return bytes;
        }
        let charged = u128::from(bytes) * u128::from(self.base) / u128::from(self.size.max(1)) + 1;
        u64::try_from(charged).unwrap_or(u64::MAX)
    }

    /// What is reserved for shared blocks, or should be: what there is beyond the LUN's own, which is a ledger's. With less than its
    /// own it was not thick, or somebody took the reservation away: then all that it can share, with `saved` bytes saved in the pool.
    pub fn found(&self, dataset: &Dataset, saved: u64) -> u64 {
        let beyond = dataset.refreservation.checked_sub(self.own());
        beyond.unwrap_or_else(|| most_shared(dataset, saved))
    }
}

/// What blocks of a dataset can be shared.
pub(in crate::space) fn most_shared(dataset: &Dataset, saved: u64) -> u64 {
    let referred = dataset
        .used_by_dataset
        .saturating_add(dataset.used_by_snapshots);
    saved.min(referred)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::space::ledger) const MIB: u64 = 1 << 20;

    /// What is reserved and used, MiB.
    pub(in crate::space::ledger) fn dataset(refreservation: u64, used: u64) -> Dataset {
        Dataset {
            refreservation: refreservation * MIB,
            used_by_dataset: used * MIB,
            ..Dataset::default()
        }
    }

    #[test]
    fn what_is_reserved_says_what_was_shared() {
        let needs = Needs {
            size: 80 * MIB,
            base: 90 * MIB,
            slack: 10 * MIB,
        };
        let found =
            |reserved, used, saved| needs.found(&dataset(reserved, used), saved * MIB) / MIB;
        assert_eq!(found(130, 90, 60), 30);
        assert_eq!(found(100, 90, 60), 0);
        // Somebody took the reservation away, or it was not thick: all that can be shared.
        assert_eq!(found(0, 90, 60), 60);
        assert_eq!(found(99, 90, 600), 90);
        let mut pinned = dataset(0, 90);
        pinned.used_by_snapshots = 20 * MIB;
        assert_eq!(needs.found(&pinned, 600 * MIB) / MIB, 110);
    }

    #[test]
    fn shared_data_is_charged_with_its_copies() {
        let needs = Needs {
            size: 100 * MIB,
            base: 201 * MIB,
            slack: 0,
        };
        assert!(needs.charged(10 * MIB) >= 20 * MIB && needs.charged(10 * MIB) < 21 * MIB);
        assert_eq!(needs.charged(0), 0);
        assert_eq!(needs.charged(u64::MAX), u64::MAX);
        let plain = Needs {
            base: 100 * MIB,
            ..needs
        };
        assert_eq!(plain.charged(10 * MIB), 10 * MIB);
    }
}
