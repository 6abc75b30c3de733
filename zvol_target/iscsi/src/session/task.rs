// SPDX-License-Identifier: Apache-2.0
//! Running commands and task management functions.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use scsi::sam::{
    Command, Completion, FunctionResponse, LocalBoxFuture, LogicalUnitNumber, Outcome,
};

use super::transfer::Transfer;

/// State of a command.
pub(crate) enum Progress {
    /// Waits for earlier commands.
    Waiting(Command),
    /// The SCSI target runs it; the number is that of its [`Running::Command`].
    Running(u64),
    /// Ended. The response waits until requested or announced data has arrived (RFC 7143 7.8).
    Ended(Completion),
}

/// A SCSI command of the connection.
pub(crate) struct Task {
    pub logical_unit: LogicalUnitNumber,
    pub progress: Progress,
    /// Immediate delivery: it used no `CmdSN`.
    pub immediate: bool,
    /// Bytes that the initiator expects.
    pub read_length: u32,
    /// Bytes that the initiator sends.
    pub write_length: u32,
    pub transfer: Option<Rc<Transfer>>,
}

/// A running task management function.
#[derive(Debug, Default)]
pub(crate) struct Management {
    pub initiator_task_tag: u32,
    pub immediate: bool,
    /// Commands to abort that the SCSI target received before it: tag and number.
    pub aborts: Vec<(u32, u64)>,
}

/// An operation that the SCSI target runs for a connection.
pub(crate) enum Running {
    Command {
        tag: u32,
        /// The tag can be in use again while a command that was given up still runs.
        number: u64,
        future: LocalBoxFuture<'static, Outcome>,
    },
    Management {
        management: Management,
        future: LocalBoxFuture<'static, FunctionResponse>,
    },
}

/// Result of such an operation.
pub(crate) enum Finished {
    Command {
        tag: u32,
        number: u64,
        outcome: Outcome,
    },
    Management(Management, FunctionResponse),
}

impl Future for Running {
    type Output = Finished;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Finished> {
        match self.get_mut() {
            Self::Command {
                tag,
                number,
                future,
            } => {
                let (tag, number) = (*tag, *number);
                future
                    .as_mut()
                    .poll(context)
                    .map(|outcome| Finished::Command {
                        tag,
                        number,
                        outcome,
                    })
            }
            Self::Management { management, future } => future
                .as_mut()
                .poll(context)
                .map(|response| Finished::Management(std::mem::take(management), response)),
        }
    }
}
