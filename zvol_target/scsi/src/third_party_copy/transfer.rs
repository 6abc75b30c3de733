// SPDX-License-Identifier: Apache-2.0
//! Moves data between logical units, in steps with locked ranges.

use std::any::Any;
use std::cell::RefCell;
use std::pin::pin;
use std::sync::Arc;

use volume::copy::{CopyError, CopyRange, CopyReport, Step, Steps};
use volume::{LocalBoxFuture, Stability};

use super::copy_manager::CopyEnd;
use super::operations::CopyOperation;
use crate::additional_sense::AdditionalSense;
use crate::execution::{Execution, volume_sense};
use crate::offload_statistics::OffloadStatistics;
use crate::range_lock::{CopyGuard, Hold, Watch};
use crate::reservations::ReservationRule;
use crate::router::NOT_READY;
use crate::sam::Status;
use crate::sense::{CopyEndRole, Forwarded, Sense, SenseKey};
use crate::task_set::Aborted;

/// Most bytes per turn, and between two progress updates. Pieces end at multiples of this in the destination, so that they are
/// aligned to its blocks.
const PIECE_BYTES: u64 = 64 << 20;

/// Bytes to copy: existing blocks, of any size. If source and destination overlap, `watch` must stop it.
pub(super) struct Transfer<'a> {
    pub(super) source: &'a CopyEnd,
    /// First byte in the source.
    pub(super) source_offset: u64,
    pub(super) destination: &'a CopyEnd,
    /// First byte in the destination.
    pub(super) destination_offset: u64,
    pub(super) length: u64,
    /// Stops the transfer before it copies a byte that has changed.
    pub(super) watch: Option<&'a Watch>,
}

/// Why a transfer ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// Its task was aborted.
    Aborted,
    /// By COPY OPERATION ABORT.
    Cancelled,
    /// The source has changed.
    Changed,
    /// The source or destination can no longer be used.
    Unreachable(CopyEndRole),
    /// The source or destination failed a command, or would.
    Failed(Forwarded),
}

impl From<Aborted> for Stop {
    fn from(Aborted: Aborted) -> Self {
        Self::Aborted
    }
}

/// Copies, and counts the bytes in `operation` and in the statistics. The copied data is stable.
///
/// # Errors
/// [`Stop`]; `operation` has the progress.
pub(super) async fn transfer(
    execution: &mut Execution<'_>,
    operation: &CopyOperation,
    what: &Transfer<'_>,
) -> Result<(), Stop> {
    let Transfer {
        source_offset,
        destination_offset,
        length,
        ..
    } = *what;
    execution.task.fences_nothing();
    let copy_manager = &execution.device.copy_manager;
    let mut done = 0;
    while done < length {
        let start = destination_offset + done;
        let end = (destination_offset + length).min((start / PIECE_BYTES + 1) * PIECE_BYTES);
        // Each piece waits for a permit, so that a long copy does not block others.
        let turn = copy_manager.turn(execution.nexus, execution.task).await?;
        let range = CopyRange {
            source: Arc::clone(&what.source.unit.volume),
            source_offset: source_offset + done,
            destination: Arc::clone(&what.destination.unit.volume),
            destination_offset: start,
            length: end - start,
        };
        let mut report = CopyReport::default();
        let steps = HeldSteps {
            execution,
            operation,
            what,
            stop: RefCell::new(None),
        };
        let copied = {
            let copied = volume::copy::copy(&range, Stability::Stable, &steps, &mut report);
            let mut copied = pin!(execution.until_aborted(copied));
            match execution.task.unless_aborted(copied.as_mut()).await {
                Ok(copied) => copied,
                // A step in a suspended pool does not end. Other copies must not wait for it.
                Err(Aborted) => {
                    drop(turn);
                    copied.await
                }
            }
        };
        let stop = steps.stop.into_inner();
        let bytes = report.total_bytes();
        done += range.length;
        operation.change(|progress| progress.bytes += bytes);
        execution.bytes += bytes;
        execution.offloaded.add(&OffloadStatistics::from(&report));
        copied.map_err(|error| stop_of(execution, what, error, stop))?;
    }
    Ok(())
}

fn stop_of(execution: &Execution, what: &Transfer, error: CopyError, stop: Option<Stop>) -> Stop {
    let (role, end, error, otherwise) = match error {
        CopyError::Source(error) => (
            CopyEndRole::Source,
            what.source,
            error,
            AdditionalSense::UNRECOVERED_READ_ERROR,
        ),
        CopyError::Destination(error) => (
            CopyEndRole::Destination,
            what.destination,
            error,
            AdditionalSense::WRITE_ERROR,
        ),
        // Only a step is cancelled, and it records the reason.
        CopyError::Cancelled(_) => return stop.unwrap_or(Stop::Aborted),
    };
    execution.log_failure(&error);
    Stop::Failed(forwarded(role, volume_sense(&end.unit, &error, otherwise)))
}

fn forwarded(from: CopyEndRole, sense: Sense) -> Forwarded {
    Forwarded {
        from,
        status: Status::CheckCondition,
        sense: Some((sense.key, sense.additional, sense.information)),
    }
}

/// Whether the nexus of the command may use the unit now, in this role, and the unit would permit it.
///
/// # Errors
/// [`Stop::Unreachable`], [`Stop::Failed`].
pub(super) fn check_end(
    execution: &Execution,
    end: &CopyEnd,
    role: CopyEndRole,
) -> Result<(), Stop> {
    let unit = &end.unit;
    if !end.is_reachable(execution) {
        return Err(Stop::Unreachable(role));
    }
    let access = match role {
        CopyEndRole::Source => ReservationRule::Read,
        CopyEndRole::Destination => ReservationRule::Write,
    };
    if end.has_reservation_conflict(execution.nexus, access) {
        return Err(Stop::Failed(Forwarded {
            from: role,
            status: Status::ReservationConflict,
            sense: None,
        }));
    }
    if !unit.is_ready() {
        return Err(Stop::Failed(forwarded(role, NOT_READY)));
    }
    match unit.write_protection() {
        Some(why) if role == CopyEndRole::Destination => Err(Stop::Failed(forwarded(
            role,
            Sense::new(SenseKey::DataProtect, why),
        ))),
        _ => Ok(()),
    }
}

/// The steps of a transfer.
struct HeldSteps<'a, 'e> {
    execution: &'a Execution<'e>,
    operation: &'a CopyOperation,
    what: &'a Transfer<'a>,
    /// Why a step was cancelled.
    stop: RefCell<Option<Stop>>,
}

impl HeldSteps<'_, '_> {
    /// Lets other tasks run, then locks the ranges of the step.
    async fn hold(&self, step: Step) -> Result<CopyGuard, Stop> {
        let Transfer {
            source,
            destination,
            ..
        } = self.what;
        self.execution.next_step().await?;
        self.check()?;
        let read = step.source_offset..step.source_offset + step.length;
        let written = step.destination_offset..step.destination_offset + step.length;
        let ranges = &source.unit.ranges;
        // No WRITE runs meanwhile: a step that outlives its aborted command would overwrite it, as a copy fences nothing.
        let held = ranges.copy(read, &destination.unit.ranges, (Hold::Exclusive, written));
        let guard = self.execution.task.unless_aborted(held).await?;
        // The wait can have been long.
        self.check()?;
        Ok(guard)
    }

    fn check(&self) -> Result<(), Stop> {
        self.execution.check_aborted()?;
        if self.operation.is_cancelled() {
            return Err(Stop::Cancelled);
        }
        let Transfer {
            source,
            destination,
            watch,
            ..
        } = self.what;
        if watch.is_some_and(Watch::has_changed) {
            return Err(Stop::Changed);
        }
        check_end(self.execution, source, CopyEndRole::Source)?;
        check_end(self.execution, destination, CopyEndRole::Destination)
    }
}

impl Steps for HeldSteps<'_, '_> {
    fn lock(
        &self,
        step: Step,
    ) -> LocalBoxFuture<'_, Result<Box<dyn Any>, volume::copy::Cancelled>> {
        Box::pin(async move {
            let held = self.hold(step).await;
            held.map_or_else(
                |stop| {
                    self.stop.borrow_mut().get_or_insert(stop);
                    Err(volume::copy::Cancelled)
                },
                |guard| Ok(Box::new(guard) as Box<dyn Any>),
            )
        })
    }
}
