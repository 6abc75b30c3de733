// SPDX-License-Identifier: Apache-2.0
//! Ends of transaction groups, for writes that need one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::sync;

/// Wait in place of a transaction group that can't be requested: one ends by itself every 5 s (`zfs_txg_timeout`).
const WITHOUT_SYNC: Duration = Duration::from_secs(1);

/// Ends of transaction groups of a pool, for writes that wait for one.
#[derive(Debug)]
pub(crate) struct TransactionGroups {
    pool: String,
    /// How many were requested.
    synced: AtomicU64,
    syncing: tokio::sync::Mutex<()>,
    /// Short writes that wait.
    short: tokio::sync::Semaphore,
    /// The long write that waits.
    long: tokio::sync::Semaphore,
}

/// Most short writes of a pool that wait for a transaction group at a time. The others wait for these.
const MOST_SHORT: usize = 32;

static POOLS: Mutex<BTreeMap<String, Arc<TransactionGroups>>> = Mutex::new(BTreeMap::new());

impl TransactionGroups {
    /// Those of a pool.
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

    /// Waits until few enough writes of the pool wait for a transaction group.
    pub(crate) async fn turn(&self, long: bool) -> Option<tokio::sync::SemaphorePermit<'_>> {
        let turns = if long { &self.long } else { &self.short };
        turns.acquire().await.ok()
    }

    /// Waits until a transaction group has ended that began to end after this call. All that wait share one.
    pub(crate) async fn next(&self) {
        let before = self.synced.load(Ordering::Acquire);
        let _asking = self.syncing.lock().await;
        if self.synced.load(Ordering::Acquire) > before {
            // Requested after this call, and over: else the lock would be taken.
            return;
        }
        self.synced.fetch_add(1, Ordering::AcqRel);
        let pool = self.pool.clone();
        let synced = tokio::task::spawn_blocking(move || sync(&pool)).await;
        match synced {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(pool = self.pool, %error, "a transaction group is waited for in vain");
                tokio::time::sleep(WITHOUT_SYNC).await;
            }
            Err(_) => tokio::time::sleep(WITHOUT_SYNC).await,
        }
    }
}
