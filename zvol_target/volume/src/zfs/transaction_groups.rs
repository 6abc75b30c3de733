// SPDX-License-Identifier: Apache-2.0
//! Ends of transaction groups, for writes that must wait for one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::sync;

/// Wait if a transaction group cannot be requested: one ends every 5 s anyway (`zfs_txg_timeout`).
const WITHOUT_SYNC: Duration = Duration::from_secs(1);

/// The last transaction group of a pool that has written anything; 0: none in the history. `None` if OpenZFS keeps no history
/// (`zfs_txg_history`).
pub fn last_write(pool: &str) -> Option<u64> {
    last_write_of(&std::fs::read_to_string(format!("/proc/spl/kstat/zfs/{pool}/txgs")).ok()?)
}

fn last_write_of(history: &str) -> Option<u64> {
    let mut groups = history.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let number: u64 = words.next()?.parse().ok()?;
        let mut words = words.skip(1);
        let state = words.next().filter(|state| state.len() == 1)?;
        let (dirty, _read, written) = (words.next()?, words.next()?, words.next()?);
        Some(if state == "C" && (dirty, written) != ("0", "0") {
            number
        } else {
            0
        })
    });
    let first = groups.next()?;
    Some(groups.fold(first, u64::max))
}

/// Ends of a pool's transaction groups, for the writes that wait for one.
#[derive(Debug)]
pub(crate) struct TransactionGroups {
    pool: String,
    /// Number of requested transaction groups.
    synced: AtomicU64,
    syncing: tokio::sync::Mutex<()>,
    /// Permits for short writes to wait.
    short: tokio::sync::Semaphore,
    /// Permit for one long write to wait.
    long: tokio::sync::Semaphore,
}

/// Most short writes of a pool that wait for a transaction group at a time. Others wait for these.
const MOST_SHORT: usize = 32;

static POOLS: Mutex<BTreeMap<String, Arc<TransactionGroups>>> = Mutex::new(BTreeMap::new());

impl TransactionGroups {
    /// The shared object of a pool.
    pub(crate) fn of(pool: &str) -> Arc<Self> {
        let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        let known = pools.entry(pool.to_owned()).or_insert_with(|| {
            Arc::new(Self {
                pool: pool.to_owned(),
                synced: AtomicU64::new(0),
                syncing: tokio::sync::Mutex::default(),
                short: tokio::sync::Semaphore::new(MOST_SHORT),
                long: tokio::sync::Semaphore::new(1),
            })
        });
        Arc::clone(known)
    }

    /// Waits for a permit: the number of writes that wait for a transaction group is limited.
    pub(crate) async fn turn(&self, long: bool) -> Option<tokio::sync::SemaphorePermit<'_>> {
        let turns = if long { &self.long } else { &self.short };
        turns.acquire().await.ok()
    }

    /// Waits for the end of a transaction group that began to end after this call. All callers share one.
    pub(crate) async fn next(&self) {
        let before = self.synced.load(Ordering::Acquire);
        let _guard = self.syncing.lock().await;
        if self.synced.load(Ordering::Acquire) > before {
            // A transaction group was requested after this call, and has ended; otherwise its requester would hold the lock.
            return;
        }
        self.synced.fetch_add(1, Ordering::AcqRel);
        let pool = self.pool.clone();
        let synced = tokio::task::spawn_blocking(move || sync(&pool)).await;
        match synced {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(pool = self.pool, %error, "cannot wait for the end of a transaction group");
                tokio::time::sleep(WITHOUT_SYNC).await;
            }
            Err(_) => tokio::time::sleep(WITHOUT_SYNC).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_groups_that_have_ended_and_written_count() {
        let head = "12 0 0x01 4 448 92 1\ntxg birth state ndirty nread nwritten reads writes otime qtime wtime stime\n";
        assert_eq!(last_write_of(head), None);
        let idle = format!("{head}7 1 C 0 512 0 1 0 5 6 7 8\n");
        assert_eq!(last_write_of(&idle), Some(0));
        let busy = format!(
            "{idle}8 2 C 4096 0 8192 0 2 5 6 7 8\n9 3 C 0 0 0 0 0 5 6 7 8\n10 4 S 512 0 0 0 0 5 6 7 0\n"
        );
        assert_eq!(last_write_of(&busy), Some(8));
    }
}
