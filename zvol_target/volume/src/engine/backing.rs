// SPDX-License-Identifier: Apache-2.0
//! What operations of one volume share.

use std::fs::File;
use std::sync::Arc;

use tokio::sync::Semaphore;

/// Operations of one volume that may be under way, and how many of them may be long. A ZIL commit serves all stable writes that
/// wait for it at once, so there should be as many as the queues of a datastore's hosts are deep together. On a zvol with `volthreading=off`
/// each has a kernel thread until it is done. A device that answers nobody leaves the others theirs.
const OPERATIONS_OF_A_VOLUME: usize = 128;
const LONG_OPERATIONS_OF_A_VOLUME: usize = 16;

/// Urgent operations of one volume that may run in addition to all others.
const URGENT_OPERATIONS_OF_A_VOLUME: usize = 16;

/// An open file or device, and its share of the kernel threads.
#[derive(Debug)]
pub(crate) struct Backing {
    file: File,
    is_file: bool,
    under_way: Arc<Semaphore>,
    long: Arc<Semaphore>,
    urgent: Arc<Semaphore>,
}

impl Backing {
    pub(crate) fn new(file: File) -> Self {
        Self {
            is_file: file.metadata().is_ok_and(|metadata| metadata.is_file()),
            file,
            under_way: Arc::new(Semaphore::new(OPERATIONS_OF_A_VOLUME)),
            long: Arc::new(Semaphore::new(LONG_OPERATIONS_OF_A_VOLUME)),
            urgent: Arc::new(Semaphore::new(URGENT_OPERATIONS_OF_A_VOLUME)),
        }
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Whether it is a regular file, not a device.
    pub(crate) fn is_file(&self) -> bool {
        self.is_file
    }

    /// One permit for each operation that may be under way.
    pub(super) fn under_way(&self) -> &Arc<Semaphore> {
        &self.under_way
    }

    /// One permit for each long operation that may be under way.
    pub(super) fn long(&self) -> &Arc<Semaphore> {
        &self.long
    }

    /// One permit for each urgent operation that may be under way.
    pub(super) fn urgent(&self) -> &Arc<Semaphore> {
        &self.urgent
    }
}
