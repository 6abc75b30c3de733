//! What a ledger has given leave for, and what it believes of the pool's own figure.

use std::time::{Duration, Instant};

use volume::zfs::Dataset;

use super::needs::{Needs, most_shared};
use crate::space::backoff::Backoff;

/// Least that it is raised by, bytes: each time costs a transaction group.
const STEP: u64 = 256 << 20;

/// What was shared is not believed to be in the pool's own figure before it is so old: a clone whose caller is gone may have gone on.
/// It may not be longer: where shared blocks are overwritten on a full pool, what is reserved for them has to go as fast, or the pool's books
/// promise more than there is, and OpenZFS lets nobody set or remove anything.
const SETTLING: Duration = Duration::from_secs(5);

/// When a look began, and what it saw.
#[derive(Clone, Copy, Debug)]
pub(in crate::space) struct Seen {
    pub began: Instant,
    /// What was done before then is in its figures.
    pub synced: Option<Instant>,
    /// What sharing saves in the pool.
    pub saved: u64,
}

/// Whether leave is given or refused by now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Word {
    /// Not yet: who asks waits.
    #[default]
    Awaited,
    /// It was waited for in vain: nobody waits again.
    Missing,
    /// It is.
    Given,
}

/// The account of one thick LUN; bytes.
#[derive(Debug, Default)]
pub(super) struct Account {
    pub dataset: String,
    pub needs: Needs,
    /// Since when no leave was given, as it is not known yet what is shared already.
    pub closed: Option<Instant>,
    pub word: Word,
    /// It is there until the volume has its own.
    pub stands_in: bool,
    /// What is `shared` is reserved: leave may be given.
    pub holds: bool,
    /// Reserved for shared blocks.
    pub shared: u64,
    /// What was set last, and when: what a look saw that began before is older.
    pub set: Option<(Instant, u64)>,
    /// Claims that wait for more to be reserved.
    pub asking: u32,
    /// Leave given, of which nobody has said what became; of data.
    pub leave: u64,
    /// Shared since `boundary`, or since the first count; of data.
    pub young: u64,
    /// Shared before, as charged.
    pub old: u64,
    /// `None`: all that is old is in the pool's figure.
    pub boundary: Option<Instant>,
    /// Less could be believed to be shared after the end of a transaction group.
    pub wants_sync: bool,
    /// When a claim could not be reserved.
    pub refused: Option<Instant>,
    /// What setting it said.
    pub problem: Option<String>,
    pub backoff: Backoff,
}

impl Account {
    /// What shared blocks will need, and those that leave was given for.
    pub fn claimed(&self) -> u64 {
        let unsettled = self.leave.saturating_add(self.young);
        self.old.saturating_add(self.needs.charged(unsettled))
    }

    /// What would be, with leave for `bytes` more.
    pub fn claimed_with(&self, bytes: u64) -> u64 {
        self.claimed().saturating_add(self.needs.charged(bytes))
    }

    /// Gives leave, if it is reserved.
    pub fn take(&mut self, bytes: u64) -> bool {
        let fits = self.holds && self.claimed_with(bytes) <= self.shared;
        if fits {
            self.leave += bytes;
        }
        fits
    }

    /// What became of leave.
    pub fn settle(&mut self, bytes: u64, shared: u64) {
        self.leave = self.leave.saturating_sub(bytes);
        self.young = self.young.saturating_add(shared.min(bytes));
    }

    /// What is reserved for `claimed` bytes while blocks are being shared: the more are, the rarer it is raised.
    pub fn generous(claimed: u64) -> u64 {
        claimed.saturating_add((claimed / 2).max(STEP))
    }

    /// What is reserved, if a look saw what `dataset` says.
    pub fn reserved(&self, dataset: &Dataset, seen: &Seen) -> u64 {
        match self.set {
            Some((when, bytes)) if when >= seen.began => bytes,
            _ => dataset.refreservation,
        }
    }

    /// The first count. Whether what was seen suffices for it.
    pub fn open(&mut self, since: Instant, dataset: &Dataset, seen: &Seen) -> bool {
        if seen.synced.is_none_or(|at| at < since) {
            self.wants_sync = true;
            return false;
        }
        self.closed = None;
        self.old = self.needs.found(dataset, seen.saved);
        // All of it is in what was seen.
        self.boundary = None;
        true
    }

    /// Counts no more than what the pool says is saved, of what surely is in that figure: not what was shared since.
    pub fn lower(&mut self, dataset: &Dataset, seen: &Seen) {
        self.wants_sync = false;
        let ripe = |at: Instant| {
            self.boundary
                .is_none_or(|boundary| at.saturating_duration_since(boundary) >= SETTLING)
        };
        if !ripe(seen.began) {
            return;
        }
        let most = most_shared(dataset, seen.saved);
        if self.old > most {
            if !seen.synced.is_some_and(ripe) {
                self.wants_sync = true;
                return;
            }
            self.old = most;
        }
        if self.young > 0 {
            self.old = self.old.saturating_add(self.needs.charged(self.young));
            self.young = 0;
            self.boundary = Some(seen.began.max(Instant::now()));
        }
    }

    /// What is to be reserved for shared blocks now.
    pub fn wanted(&self) -> u64 {
        let claimed = self.claimed();
        if self.leave > 0 || self.young > 0 || self.asking > 0 {
            // It is not lowered only to be raised again.
            return self.shared.clamp(claimed, Self::generous(claimed));
        }
        claimed
    }
}

#[cfg(test)]
mod tests {
    use super::super::needs::tests::{MIB, dataset};
    use super::*;

    /// One of 100 MiB that shares 30.
    fn account(now: Instant) -> Account {
        Account {
            needs: Needs {
                size: 100 * MIB,
                base: 100 * MIB,
                slack: 0,
            },
            holds: true,
            old: 30 * MIB,
            shared: 30 * MIB,
            boundary: Some(now),
            ..Account::default()
        }
    }

    fn seen(began: Instant, synced: bool, saved: u64) -> Seen {
        Seen {
            began,
            synced: synced.then_some(began),
            saved: saved * MIB,
        }
    }

    #[test]
    fn it_is_lowered_only_by_what_surely_has_all_clones() {
        let now = Instant::now();
        let used = dataset(130, 90);
        let mut account = account(now);
        account.lower(&used, &seen(now + SETTLING / 2, true, 0));
        assert_eq!((account.old, account.wants_sync), (30 * MIB, false));
        account.lower(&used, &seen(now + SETTLING, false, 20));
        assert_eq!((account.old, account.wants_sync), (30 * MIB, true));
        account.lower(&used, &seen(now + SETTLING, true, 20));
        assert_eq!((account.old, account.wants_sync), (20 * MIB, false));
        // Others share more, this one does not.
        account.lower(&used, &seen(now + SETTLING, true, 50));
        assert_eq!(account.old, 20 * MIB);
    }

    #[test]
    fn what_is_shared_all_the_time_is_lowered_all_the_same() {
        let mut now = Instant::now();
        let used = dataset(0, 90);
        let mut account = account(now);
        account.shared = 1000 * MIB;
        // The same 10 MiB again and again, as much saved each time.
        for round in 0..20 {
            assert!(account.take(10 * MIB), "round {round}");
            account.settle(10 * MIB, 10 * MIB);
            now += SETTLING;
            account.boundary = Some(now);
            account.lower(&used, &seen(now + SETTLING, true, 10));
            now += SETTLING;
        }
        assert!(account.claimed() <= 30 * MIB, "{account:?}");
    }

    #[test]
    fn leave_that_was_not_used_is_given_back_and_what_is_under_way_stays() {
        let now = Instant::now();
        let mut account = account(now);
        account.shared = 100 * MIB;
        assert!(account.take(64 * MIB));
        assert!(!account.take(64 * MIB));
        account.settle(4 * MIB, 4 * MIB);
        account.lower(&dataset(0, 90), &seen(now + SETTLING, true, 0));
        assert_eq!(account.claimed(), 64 * MIB, "nothing of before is shared");
        account.settle(60 * MIB, 0);
        assert_eq!(account.claimed(), 4 * MIB);
    }

    #[test]
    fn the_first_count_is_of_a_look_that_has_everything() {
        let now = Instant::now();
        let mut account = Account {
            closed: Some(now),
            holds: true,
            shared: 90 * MIB,
            old: 0,
            ..account(now)
        };
        let used = dataset(0, 90);
        assert!(!account.open(now, &used, &seen(now, false, 60)));
        assert!(account.wants_sync && account.closed.is_some());
        assert!(account.open(now, &used, &seen(now, true, 60)));
        assert_eq!((account.old, account.closed), (60 * MIB, None));
    }

    #[test]
    fn what_was_set_after_a_look_began_is_newer_than_what_it_saw() {
        let now = Instant::now();
        let later = now + Duration::from_secs(1);
        let mut account = account(now);
        account.set = Some((later, 200 * MIB));
        let read = dataset(130, 90);
        assert_eq!(account.reserved(&read, &seen(now, false, 0)), 200 * MIB);
        let after = seen(later + Duration::from_secs(1), false, 0);
        assert_eq!(account.reserved(&read, &after), 130 * MIB);
    }
}
