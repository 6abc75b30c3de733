//! What a thick LUN needs reserved: its size, the blocks it shares, and slack.
//!
//! A ledger can't be in one transaction group with what it counts. So it counts too much: it is raised before blocks are shared,
//! and lowered to what the pool says is saved by sharing when that surely has them all. It survives a crash in the
//! `refreservation` itself.

mod account;
mod needs;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use volume::zfs::{self, Dataset, ProgramError};
use volume::{CloneLedger, LocalBoxFuture, Volume};

use super::policy;
use account::{Account, Word};

pub(super) use account::Seen;
pub(super) use needs::Needs;

/// How long a claim that could not be reserved answers for those that follow.
const REFUSAL: Duration = Duration::from_secs(1);

/// How long a claim may take. What was asked for goes on, for those that follow.
const CLAIM_PATIENCE: Duration = Duration::from_secs(10);

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

/// The ledger of a volume of which nobody knows yet what it shares: who asks for leave waits until the volume has another, or none.
pub fn closed_ledger() -> Arc<dyn CloneLedger> {
    let ledger = Ledger::closed();
    ledger.account().stands_in = true;
    Arc::new(ledger)
}

/// Reserves what a thick LUN needs, if less is reserved: also for what it shares already. Blocks. Its ledger has to be a
/// [`closed_ledger`].
///
/// # Errors
/// [`ThickError`].
pub fn make_thick(volume: &dyn Volume, slack_bytes: Option<u64>) -> Result<(), ThickError> {
    let name = volume.dataset().ok_or(ThickError::NoZvol)?;
    let pool = zfs::pool_of(&name);
    let size = volume.geometry().size_bytes;
    let needs = Needs {
        size,
        base: zfs::thick_bytes(&name, size)?,
        slack: slack_bytes.unwrap_or_else(|| policy::thick_slack(size)),
    };
    // What was cloned a moment ago is not in the pool's figure.
    zfs::sync(pool)?;
    let found = zfs::datasets(std::slice::from_ref(&name))?;
    let saved = zfs::pool(pool)?.clone_saved;
    let dataset = found.first().ok_or(ThickError::NoZvol)?;
    let wanted = needs.own().saturating_add(needs.found(dataset, saved));
    if dataset.refreservation >= wanted {
        return Ok(());
    }
    Ok(zfs::set(&name, "refreservation", wanted)?)
}

/// What came of settling; bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Settled {
    /// What is reserved.
    pub refreservation: u64,
    /// Of that, for blocks that are shared.
    pub shared: u64,
    /// What is not as it should be.
    pub problem: Option<String>,
}

/// The ledger of one thick LUN.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    account: Arc<Mutex<Account>>,
    /// Who has it may set the reservation: never two at once.
    setting: Arc<tokio::sync::Mutex<()>>,
    /// It gives leave, or refuses.
    spoken: Arc<Notify>,
}

impl Ledger {
    /// One that gives no leave before it has seen what is shared, at a look that has all that was done until now.
    pub fn closed() -> Self {
        let ledger = Self::default();
        ledger.account().closed = Some(Instant::now());
        ledger
    }

    fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it does not know yet what is shared.
    pub fn is_closed(&self) -> bool {
        self.account().closed.is_some()
    }

    /// Whether it needs a look that begins with the end of a transaction group.
    pub fn wants_sync(&self) -> bool {
        self.account().wants_sync
    }

    /// Lets those go on who wait for leave.
    fn speak(&self) {
        self.account().word = Word::Given;
        self.spoken.notify_waiters();
    }

    /// Waits until leave is given or refused. False: nobody says.
    async fn has_spoken(&self) -> bool {
        let spoken = async {
            loop {
                let spoken = self.spoken.notified();
                if self.account().word == Word::Given {
                    return;
                }
                spoken.await;
            }
        };
        if self.account().word == Word::Missing {
            return false;
        }
        let heard = tokio::time::timeout(CLAIM_PATIENCE, spoken).await.is_ok();
        if !heard {
            self.account().word = Word::Missing;
        }
        heard
    }

    /// What it counts, and nothing is set.
    pub fn count(&self, dataset: &Dataset, needs: Needs, seen: &Seen) -> Settled {
        let mut account = self.account();
        account.dataset.clone_from(&dataset.name);
        account.needs = needs;
        let present = Dataset {
            refreservation: account.reserved(dataset, seen),
            ..dataset.clone()
        };
        let is_open = account
            .closed
            .is_none_or(|since| account.open(since, &present, seen));
        if is_open {
            account.lower(&present, seen);
        }
        Settled {
            refreservation: present.refreservation,
            shared: if is_open {
                account.claimed()
            } else {
                present.refreservation.saturating_sub(needs.own())
            },
            problem: None,
        }
    }

    /// Brings the reservation to what it is to be, as far as that is known.
    pub async fn settle(&self, dataset: &Dataset, needs: Needs, seen: &Seen) -> Settled {
        let settled = self.bring(dataset, needs, seen).await;
        if !self.is_closed() {
            self.speak();
        }
        settled
    }

    async fn bring(&self, dataset: &Dataset, needs: Needs, seen: &Seen) -> Settled {
        let right = Arc::clone(&self.setting).lock_owned().await;
        let mut settled = self.count(dataset, needs, seen);
        let now = Instant::now();
        let (wanted, shared, may_try) = {
            let mut account = self.account();
            if account.closed.is_some() {
                return settled;
            }
            let shared = account.wanted();
            let wanted = needs.own().saturating_add(shared);
            if settled.refreservation == wanted {
                account.holds = true;
                account.shared = shared;
                account.problem = None;
                account.backoff.reset();
                settled.shared = shared;
                return settled;
            }
            // No leave is given upon what may go, or may not come.
            account.shared = account.shared.min(shared);
            (wanted, shared, account.backoff.is_over(now))
        };
        if may_try {
            let ledger = self.clone();
            let set = tokio::task::spawn_blocking(move || {
                let _right = right;
                ledger.set(wanted)
            });
            let error = match set.await {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(error) => Some(error.to_string()),
            };
            let mut account = self.account();
            if error.is_none() {
                settled.refreservation = wanted;
                account.shared = account.shared.max(shared);
                account.backoff.reset();
            } else {
                account.backoff.failed(now);
            }
            account.problem = error;
        }
        let mut account = self.account();
        let least = needs.base.saturating_add(account.claimed());
        // More than enough is enough. Without the slack it holds, and overwrites may be refused for a moment.
        account.holds = settled.refreservation >= least;
        if settled.refreservation < wanted {
            account.shared = account.shared.min(account.claimed());
            settled.problem.clone_from(&account.problem);
        }
        settled.shared = account.shared;
        settled
    }

    /// Sets the reservation; blocks. The caller has the right to.
    fn set(&self, bytes: u64) -> Result<(), ProgramError> {
        let dataset = self.account().dataset.clone();
        zfs::set(&dataset, "refreservation", bytes)?;
        self.account().set = Some((Instant::now(), bytes));
        Ok(())
    }

    /// Raises the reservation for leave of `bytes` more; blocks. The caller has the right to.
    fn raise(&self, bytes: u64) {
        let (own, claimed) = {
            let account = self.account();
            let claimed = account.claimed_with(bytes);
            // By one that had the right before, perhaps.
            if !account.holds || claimed <= account.shared || is_recent(account.refused) {
                return;
            }
            (account.needs.own(), claimed)
        };
        for shared in [Account::generous(claimed), claimed] {
            match self.set(own.saturating_add(shared)) {
                Ok(()) => {
                    let mut account = self.account();
                    account.shared = account.shared.max(shared);
                    account.refused = None;
                    return;
                }
                Err(error) if error.is_no_space() => {}
                Err(error) => {
                    tracing::warn!(%error, "what is to be shared can't be reserved");
                    break;
                }
            }
        }
        self.account().refused = Some(Instant::now());
    }

    /// Takes over what another ledger counts that ends, as blocks may be shared between the two. False: it can't be reserved.
    pub async fn adopt(&self, bytes: u64) -> bool {
        if bytes == 0 {
            return true;
        }
        let right = Arc::clone(&self.setting).lock_owned().await;
        let ledger = self.clone();
        let adopted = tokio::task::spawn_blocking(move || {
            let _right = right;
            let wanted = {
                let account = ledger.account();
                if !account.holds || account.closed.is_some() {
                    return false;
                }
                account.claimed().saturating_add(bytes)
            };
            let (own, shared) = {
                let account = ledger.account();
                (account.needs.own(), account.shared)
            };
            if wanted > shared && ledger.set(own.saturating_add(wanted)).is_err() {
                return false;
            }
            let mut account = ledger.account();
            account.shared = account.shared.max(wanted);
            account.old = account.old.saturating_add(bytes);
            account.boundary = Some(Instant::now());
            true
        });
        adopted.await.unwrap_or(false)
    }

    /// No leave is given any more.
    pub fn stop(&self) {
        let mut account = self.account();
        account.holds = false;
        account.closed = None;
        account.wants_sync = false;
        drop(account);
        self.speak();
    }

    /// [`Ledger::stop`], and nothing is set any more.
    pub async fn end(&self) {
        self.stop();
        let _right = self.setting.lock().await;
    }
}

/// A claim that waits: what is reserved for it is not lowered before it took its leave.
struct Asking<'a>(&'a Ledger);

impl<'a> Asking<'a> {
    fn new(ledger: &'a Ledger) -> Self {
        ledger.account().asking += 1;
        Self(ledger)
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.account().asking -= 1;
    }
}

fn is_recent(refused: Option<Instant>) -> bool {
    refused.is_some_and(|at| at.elapsed() < REFUSAL)
}

impl CloneLedger for Ledger {
    fn claim(&self, bytes: u64) -> LocalBoxFuture<'_, bool> {
        Box::pin(async move {
            if !self.has_spoken().await {
                return false;
            }
            {
                let mut account = self.account();
                if account.take(bytes) {
                    return true;
                }
                if !account.holds || is_recent(account.refused) {
                    return false;
                }
            }
            let _asking = Asking::new(self);
            let raised = tokio::time::timeout(CLAIM_PATIENCE, async {
                let right = Arc::clone(&self.setting).lock_owned().await;
                let ledger = self.clone();
                // It keeps the right though nobody waits for it any more.
                let raising = tokio::task::spawn_blocking(move || {
                    let _right = right;
                    ledger.raise(bytes);
                });
                raising.await.is_ok()
            });
            if raised.await.is_err() {
                self.account().refused = Some(Instant::now());
            }
            self.account().take(bytes)
        })
    }

    fn settle(&self, bytes: u64, shared_bytes: u64) {
        self.account().settle(bytes, shared_bytes);
    }

    fn replaced(&self) {
        if self.account().stands_in {
            self.speak();
        }
    }
}
