// SPDX-License-Identifier: Apache-2.0
//! State that all operations of one volume share.

use std::fs::File;
use std::sync::Arc;

use tokio::sync::Semaphore;

/// Running operations of one volume. One ZIL commit serves all stable writes that wait for it, so this should equal the sum of
/// the hosts' queue depths. On a zvol with `volthreading=off`, each holds a kernel thread until it is done.
const OPERATIONS_OF_A_VOLUME: usize = 128;
const LONG_OPERATIONS_OF_A_VOLUME: usize = 16;

/// Urgent operations of one volume that may run in addition to all others.
const URGENT_OPERATIONS_OF_A_VOLUME: usize = 16;

/// An open file or zvol, and its share of the kernel threads.
#[derive(Debug)]
pub(crate) struct Backing {
    file: File,
    is_file: bool,
    pool: String,
    running: Arc<Semaphore>,
    long: Arc<Semaphore>,
    urgent: Arc<Semaphore>,
}

impl Backing {
    /// `pool`: the pool of a zvol.
    pub(crate) fn new(file: File, pool: Option<String>) -> Self {
        Self {
            is_file: file.metadata().is_ok_and(|metadata| metadata.is_file()),
            file,
            pool: pool.unwrap_or_default(),
            running: Arc::new(Semaphore::new(OPERATIONS_OF_A_VOLUME)),
            long: Arc::new(Semaphore::new(LONG_OPERATIONS_OF_A_VOLUME)),
            urgent: Arc::new(Semaphore::new(URGENT_OPERATIONS_OF_A_VOLUME)),
        }
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Whether it is a regular file and not a zvol.
    pub(crate) fn is_file(&self) -> bool {
        self.is_file
    }

    /// The pool of a zvol; empty for files.
    pub(super) fn pool(&self) -> &str {
        &self.pool
    }

    /// One permit for each running operation.
    pub(super) fn running(&self) -> &Arc<Semaphore> {
        &self.running
    }

    /// One permit for each long operation.
    pub(super) fn long(&self) -> &Arc<Semaphore> {
        &self.long
    }

    /// One permit for each urgent operation.
    pub(super) fn urgent(&self) -> &Arc<Semaphore> {
        &self.urgent
    }
}
