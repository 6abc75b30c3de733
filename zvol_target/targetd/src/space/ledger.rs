//! What a thick LUN needs reserved: its size, the blocks it shares, and slack.
//!
//! A ledger can't be in one transaction group with what it counts. So it counts too much: it is raised before blocks are shared,
//! and lowered to what the pool says is saved by sharing only a while after the last were. It survives a crash in the
//! `refreservation` itself.

use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use volume::zfs::{self, Dataset, ProgramError};
use volume::{CloneLedger, LocalBoxFuture, Volume};

use super::policy;

/// Least that it is raised by, bytes: each time costs a transaction group.
const STEP: u64 = 256 << 20;

/// How long after the last clone it is not lowered: its blocks must be in the pool's own figure.
const SETTLING: Duration = Duration::from_secs(30);

/// Why a LUN can't be thick.
#[derive(Debug, thiserror::Error)]
pub enum ThickError {
    /// It is no zvol.
    #[error("only a zvol can be thick")]
    NoZvol,
    /// It is not reserved.
    #[error("its space can't be reserved: {0}")]
    NotReserved(#[from] ProgramError),
}

/// Reserves what a thick LUN needs that shares nothing yet, if less is reserved. Blocks.
///
/// # Errors
/// [`ThickError`].
pub fn make_thick(volume: &dyn Volume, slack_bytes: Option<u64>) -> Result<(), ThickError> {
    let name = volume.dataset().ok_or(ThickError::NoZvol)?;
    let root = zfs::pool_of(&name).to_owned();
    let found = zfs::datasets(&[root.clone(), name.clone()])?;
    let of = |name: &str| found.iter().find(|dataset| dataset.name == name);
    let total = of(&root).map_or(0, |root| root.used.saturating_add(root.available));
    let slack = slack_bytes.unwrap_or_else(|| policy::slack(total, 1));
    let wanted = zfs::thick_bytes(&name, volume.geometry().size_bytes)? + slack;
    if of(&name).is_some_and(|dataset| dataset.refreservation >= wanted) {
        return Ok(());
    }
    Ok(zfs::set(&name, "refreservation", wanted)?)
}

/// The account of one thick LUN.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    account: Mutex<Option<Account>>,
}

/// Bytes.
#[derive(Clone, Debug)]
struct Account {
    dataset: String,
    /// For the volume alone, and for its overwrites.
    own: u64,
    /// For shared blocks.
    shared: u64,
    /// Of those, what leave was given for.
    claimed: u64,
    claimed_at: Option<Instant>,
    /// The reservation is there.
    holds: bool,
}

impl Account {
    /// At the first look: what is reserved beyond `own`. Where that is nothing it may have shared before it was thick, or somebody
    /// took the reservation away: then all that can be shared.
    fn found(dataset: &Dataset, own: u64, saved: u64) -> Self {
        let shared = match dataset.refreservation.saturating_sub(own) {
            0 => saved.min(dataset.used_by_dataset),
            beyond => beyond,
        };
        Self {
            dataset: dataset.name.clone(),
            own,
            shared,
            claimed: shared,
            // What was cloned right before a crash may not be in the pool's figure yet.
            claimed_at: Some(Instant::now()),
            holds: false,
        }
    }

    /// Counts no more than the pool says is saved, once that covers all that was cloned.
    fn lower(&mut self, saved: u64, now: Instant) {
        let settled = self
            .claimed_at
            .is_none_or(|at| now.saturating_duration_since(at) >= SETTLING);
        if settled {
            self.claimed = self.claimed.min(saved);
            self.shared = self.claimed;
        }
    }
}

async fn reserve(dataset: &str, bytes: u64) -> Result<(), ProgramError> {
    let name = dataset.to_owned();
    let set = tokio::task::spawn_blocking(move || zfs::set(&name, "refreservation", bytes)).await;
    set.unwrap_or_else(|error| {
        Err(ProgramError::NotRun {
            program: "zfs",
            error: std::io::Error::other(error),
        })
    })
}

impl Ledger {
    /// Brings the reservation to what it is to be. Gives what is in it for shared blocks.
    ///
    /// # Errors
    /// That of setting it: it does not hold then.
    pub(super) async fn settle(
        &self,
        dataset: &Dataset,
        own: u64,
        saved: u64,
    ) -> Result<u64, ProgramError> {
        let mut account = self.account.lock().await;
        let account = account.get_or_insert_with(|| Account::found(dataset, own, saved));
        account.dataset.clone_from(&dataset.name);
        account.own = own;
        account.lower(saved, Instant::now());
        let wanted = own + account.shared;
        if dataset.refreservation != wanted {
            let set = reserve(&dataset.name, wanted).await;
            // More than enough is enough.
            account.holds = set.is_ok() || dataset.refreservation >= wanted;
            if !account.holds {
                set?;
            }
        }
        account.holds = true;
        Ok(account.shared)
    }
}

impl CloneLedger for Ledger {
    fn claim(&self, bytes: u64) -> LocalBoxFuture<'_, bool> {
        Box::pin(async move {
            let mut account = self.account.lock().await;
            let Some(account) = account.as_mut().filter(|account| account.holds) else {
                return false;
            };
            let claimed = account.claimed + bytes;
            if claimed > account.shared {
                // The more is cloned, the larger the steps.
                let generous = claimed + (account.shared / 2).max(STEP);
                let mut raised = Err(());
                for shared in [generous, claimed] {
                    if reserve(&account.dataset, account.own + shared)
                        .await
                        .is_ok()
                    {
                        raised = Ok(shared);
                        break;
                    }
                }
                let Ok(shared) = raised else {
                    return false;
                };
                account.shared = shared;
            }
            account.claimed = claimed;
            account.claimed_at = Some(Instant::now());
            true
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn dataset(refreservation: u64, used: u64) -> Dataset {
        Dataset {
            refreservation: refreservation * MIB,
            used_by_dataset: used * MIB,
            ..Dataset::default()
        }
    }

    #[test]
    fn what_is_reserved_says_what_was_shared() {
        let own = 100 * MIB;
        let shared = |reserved, used, saved| {
            Account::found(&dataset(reserved, used), own, saved * MIB).shared / MIB
        };
        assert_eq!(shared(130, 90, 60), 30);
        // Somebody took the reservation away: all that can be shared.
        assert_eq!(shared(0, 90, 60), 60);
        assert_eq!(shared(99, 90, 600), 90);
        // Thick only now.
        assert_eq!(shared(100, 90, 60), 60);
        assert_eq!(shared(100, 90, 0), 0);
    }

    #[test]
    fn it_is_lowered_only_a_while_after_the_last_clone() {
        let now = Instant::now();
        let mut account = Account::found(&dataset(130, 90), 100 * MIB, 0);
        account.claimed_at = Some(now);
        account.lower(0, now + SETTLING / 2);
        assert_eq!(account.shared, 30 * MIB);
        account.lower(20 * MIB, now + SETTLING);
        assert_eq!(account.shared, 20 * MIB);
        account.lower(50 * MIB, now + SETTLING);
        assert_eq!(
            account.shared,
            20 * MIB,
            "others share more, this one does not"
        );
    }
}
