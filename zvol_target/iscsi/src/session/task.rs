// SPDX-License-Identifier: Apache-2.0
//! Commands and task management functions under way.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use scsi::sam::{
    Command, Completion, FunctionResponse, LocalBoxFuture, LogicalUnitNumber, Outcome,
};

use super::transfer::Transfer;

/// How far a command is.
pub(crate) enum Progress {
    /// It waits for commands before it.
    Waiting(Command),
    /// The SCSI target has it, by the number of its [`Running::Command`].
    Running(u64),
    /// It has ended; the response waits until data that was requested or announced has passed (RFC 7143 7.8).
    Ended(Completion),
}

/// A SCSI command of the connection.
pub(crate) struct Task {
    pub logical_unit: LogicalUnitNumber,
    pub progress: Progress,
    /// It used up no `CmdSN`.
    pub immediate: bool,
    /// Data the initiator expects in.
    pub read_length: u32,
    /// Data the initiator sends.
    pub write_length: u32,
    pub transfer: Option<Rc<Transfer>>,
}

/// A task management function under way.
#[derive(Debug, Default)]
pub(crate) struct Management {
    pub initiator_task_tag: u32,
    pub immediate: bool,
    /// Commands it aborts that the SCSI target had before it: tag, and number.
    pub aborts: Vec<(u32, u64)>,
}

/// What the SCSI target runs for a connection.
pub(crate) enum Running {
    Command {
        tag: u32,
        /// A tag can be in use again while a command that was given up still runs.
        number: u64,
        future: LocalBoxFuture<'static, Outcome>,
    },
    Management {
        management: Management,
        future: LocalBoxFuture<'static, FunctionResponse>,
    },
}

/// What came out of it.
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
