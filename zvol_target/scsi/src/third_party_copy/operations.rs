// SPDX-License-Identifier: Apache-2.0
//! Copy operations of one logical unit that hosts can query: running, or with retained results (SPC-4 5.17.4).

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::MAXIMUM_IDENTIFIED_COPIES;
use super::token_lists::TOKEN_BYTES;
use crate::additional_sense::AdditionalSense;
use crate::lock;
use crate::sam::Status;
use crate::sense::Sense;

/// State of a copy operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Running in the foreground.
    Running,
    /// Completed with this status and sense data; the sense data is empty for GOOD.
    Completed(Status, Vec<u8>),
    /// Completed with GOOD; the blocks of a ROD token ended before all requested bytes were written.
    CompletedPartially,
    /// Terminated: its task was aborted.
    Terminated,
}

/// Progress of a copy operation, for commands that query it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) state: State,
    /// SEGMENTS PROCESSED, including the running one.
    pub(super) segments: u16,
    /// Bytes written from the beginning, without gaps.
    pub(super) bytes: u64,
    /// RECEIVE COPY STATUS(LID1) has delivered the final status; it delivers it once.
    pub(super) status_delivered: bool,
    /// RECEIVE COPY FAILURE DETAILS(LID1) has delivered the details; it delivers them once.
    pub(super) details_delivered: bool,
    /// The created ROD token, until it was delivered.
    pub(super) token: Option<Box<[u8; TOKEN_BYTES]>>,
}

/// A copy operation.
#[derive(Debug)]
pub(super) struct CopyOperation {
    /// SERVICE ACTION of its command.
    pub(super) service_action: u8,
    progress: Mutex<Progress>,
    cancelled: AtomicBool,
}

impl CopyOperation {
    fn new(service_action: u8) -> Self {
        Self {
            service_action,
            progress: Mutex::new(Progress {
                state: State::Running,
                segments: 0,
                bytes: 0,
                status_delivered: false,
                details_delivered: false,
                token: None,
            }),
            cancelled: AtomicBool::new(false),
        }
    }

    pub(super) fn progress(&self) -> Progress {
        lock(&self.progress).clone()
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut lock(&self.progress));
    }

    /// Whether a COPY OPERATION ABORT was received.
    pub(super) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    fn is_running(&self) -> bool {
        lock(&self.progress).state == State::Running
    }
}

/// A running operation, owned by its command. If dropped before its completion, it is terminated.
#[derive(Debug)]
pub(super) struct RunningOperation(Arc<CopyOperation>);

impl RunningOperation {
    /// An operation without list identifier.
    pub(super) fn unidentified(service_action: u8) -> Self {
        Self(Arc::new(CopyOperation::new(service_action)))
    }

    pub(super) fn complete(self, status: Status, sense: Vec<u8>) {
        self.complete_as(State::Completed(status, sense));
    }

    pub(super) fn complete_as(self, state: State) {
        self.0.change(|progress| progress.state = state);
    }
}

impl std::ops::Deref for RunningOperation {
    type Target = CopyOperation;

    fn deref(&self) -> &CopyOperation {
        &self.0
    }
}

impl Drop for RunningOperation {
    fn drop(&mut self) {
        self.0.change(|progress| {
            if progress.state == State::Running {
                progress.state = State::Terminated;
            }
        });
    }
}

/// Operations of one nexus by list identifier; 32 bits for all field sizes (SPC-4 5.17.4.2).
type Lists = BTreeMap<u32, (u64, Arc<CopyOperation>)>;

/// The operations of a logical unit, by nexus.
#[derive(Debug, Default)]
pub(crate) struct CopyOperations(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    by_nexus: HashMap<u64, Lists>,
    /// Number of operations so far; their order.
    begun: u64,
}

impl CopyOperations {
    /// Begins an operation. Drops retained results of its list identifier, and the oldest results if the nexus has reached its
    /// limit.
    ///
    /// # Errors
    /// OPERATION IN PROGRESS if the identifier belongs to a running operation, INSUFFICIENT RESOURCES if all operations of the
    /// nexus are running.
    pub(super) fn begin(
        &self,
        nexus: u64,
        list_identifier: u32,
        service_action: u8,
    ) -> Result<RunningOperation, Sense> {
        let mut table = lock(&self.0);
        table.begun += 1;
        let order = table.begun;
        let lists = table.by_nexus.entry(nexus).or_default();
        let present = lists.get(&list_identifier);
        if present.is_some_and(|(_, operation)| operation.is_running()) {
            let code = AdditionalSense::OPERATION_IN_PROGRESS;
            return Err(Sense::illegal_request(code));
        }
        if present.is_none() && lists.len() >= MAXIMUM_IDENTIFIED_COPIES {
            let retained = lists
                .iter()
                .filter(|(_, (_, operation))| !operation.is_running());
            let oldest = retained
                .min_by_key(|(_, (order, _))| *order)
                .map(|(&list, _)| list);
            let code = AdditionalSense::INSUFFICIENT_RESOURCES;
            let oldest = oldest.ok_or(Sense::illegal_request(code))?;
            lists.remove(&oldest);
        }
        let operation = Arc::new(CopyOperation::new(service_action));
        lists.insert(list_identifier, (order, Arc::clone(&operation)));
        Ok(RunningOperation(operation))
    }

    /// The operation with this identifier.
    pub(super) fn find(&self, nexus: u64, list_identifier: u32) -> Option<Arc<CopyOperation>> {
        let table = lock(&self.0);
        let (_, operation) = table.by_nexus.get(&nexus)?.get(&list_identifier)?;
        Some(Arc::clone(operation))
    }

    /// Cancels the operation before its next step; false if no operation with this identifier is running.
    pub(super) fn cancel(&self, nexus: u64, list_identifier: u32) -> bool {
        let running = self.find(nexus, list_identifier);
        running
            .filter(|operation| operation.is_running())
            .is_some_and(|operation| {
                operation.cancelled.store(true, Ordering::Relaxed);
                true
            })
    }

    /// Drops all results of a lost nexus.
    pub(crate) fn remove_nexus(&self, nexus: u64) {
        lock(&self.0).by_nexus.remove(&nexus);
    }

    /// Drops all retained results after a reset.
    pub(crate) fn reset(&self) {
        lock(&self.0).by_nexus.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(sense: Sense) -> (u8, u8) {
        (sense.additional.code, sense.additional.qualifier)
    }

    #[test]
    fn an_identifier_is_free_again_when_its_operation_has_ended() {
        let operations = CopyOperations::default();
        let running = operations.begin(1, 7, 0).unwrap();
        assert_eq!(codes(operations.begin(1, 7, 0).unwrap_err()), (0x00, 0x16));
        // Other nexuses and identifiers are independent.
        drop(operations.begin(2, 7, 0).unwrap());
        drop(operations.begin(1, 8, 0).unwrap());
        running.complete(Status::Good, Vec::new());
        let retained = operations.find(1, 7).unwrap().progress();
        assert_eq!(retained.state, State::Completed(Status::Good, Vec::new()));
        drop(operations.begin(1, 7, 0).unwrap());
        let state = operations.find(1, 7).unwrap().progress().state;
        assert_eq!(state, State::Terminated);
    }

    #[test]
    fn results_are_limited_and_the_oldest_is_dropped() {
        let operations = CopyOperations::default();
        let running = operations.begin(1, 0, 0).unwrap();
        for list in 1..=100 {
            drop(operations.begin(1, list, 0).unwrap());
        }
        let is_retained = |list| operations.find(1, list).is_some();
        assert!(is_retained(0) && !is_retained(1) && is_retained(100));
        assert_eq!(
            (0..=100).filter(|&list| is_retained(list)).count(),
            MAXIMUM_IDENTIFIED_COPIES
        );
        drop(running);
        let all: Vec<_> = (200..200 + MAXIMUM_IDENTIFIED_COPIES as u32)
            .map(|list| operations.begin(1, list, 0).unwrap())
            .collect();
        assert_eq!(codes(operations.begin(1, 1, 0).unwrap_err()), (0x55, 0x03));
        drop(all);
    }

    #[test]
    fn only_a_running_operation_can_be_cancelled() {
        let operations = CopyOperations::default();
        let running = operations.begin(1, 7, 0).unwrap();
        assert!(!operations.cancel(2, 7) && !operations.cancel(1, 8));
        assert!(!running.is_cancelled() && operations.cancel(1, 7) && running.is_cancelled());
        drop(running);
        assert!(!operations.cancel(1, 7));
    }

    #[test]
    fn the_end_of_a_nexus_and_a_reset_drop_results_but_not_the_operation() {
        let operations = CopyOperations::default();
        let running = operations.begin(1, 7, 0).unwrap();
        let other = operations.begin(2, 7, 0).unwrap();
        operations.remove_nexus(1);
        assert!(operations.find(1, 7).is_none() && operations.find(2, 7).is_some());
        operations.reset();
        assert!(operations.find(2, 7).is_none());
        running.change(|progress| progress.bytes = 5);
        assert_eq!(running.progress().bytes, 5);
        drop(other);
    }
}
