// SPDX-License-Identifier: Apache-2.0
//! Executes the requests of the initiator in the order of `CmdSN`.

use std::time::Duration;

use scsi::sam::{FunctionResponse, LogicalUnitNumber, TaskManagementFunction};
use tokio::time::timeout;

use super::connection::{Connection, EARLY_REQUESTS, End};
use super::respond::LOGOUT_REMOVE_FOR_RECOVERY;
use super::task::{Management, Progress, Running};
use super::window::{Arrival, COMMAND_WINDOW, CommandWindow};
use crate::pdu::{
    Header, InitiatorPdu, LogoutRequest, NopOut, RESERVED_TAG, TaskManagementRequest, reject,
};

/// Limit of running immediate requests: a host can abort each of its commands at once.
pub(super) const IMMEDIATE_MAX: u32 = COMMAND_WINDOW;

/// How long a task management function waits for the end of aborted tasks. A host without a response ends the session, and Linux
/// delays commands of all its logical units in the meantime. Tasks that take longer fence their unit.
const END_OF_TASKS: Duration = Duration::from_millis(500);

/// A request that arrived before its turn.
pub(super) enum Held {
    /// A command, by Initiator Task Tag.
    Command(u32),
    /// Another request with its data segment.
    Request(Header, InitiatorPdu, Vec<u8>),
    /// A command that was aborted before it arrived (RFC 7143 11.6.1 b).
    Skipped,
}

impl Held {
    /// Bytes of its data segment in this queue.
    fn bytes(&self) -> usize {
        match self {
            Self::Request(_, _, data) => data.len(),
            Self::Command(_) | Self::Skipped => 0,
        }
    }
}

/// Functions of a Task Management Function Request (11.5.1).
mod function {
    pub const ABORT_TASK: u8 = 1;
    pub const ABORT_TASK_SET: u8 = 2;
    pub const CLEAR_ACA: u8 = 3;
    pub const CLEAR_TASK_SET: u8 = 4;
    pub const LOGICAL_UNIT_RESET: u8 = 5;
    pub const TARGET_WARM_RESET: u8 = 6;
    pub const TARGET_COLD_RESET: u8 = 7;
    pub const TASK_REASSIGN: u8 = 8;
}

/// Responses of a Task Management Function Response (11.6.1).
pub(super) mod response {
    pub const FUNCTION_COMPLETE: u8 = 0;
    pub const TASK_DOES_NOT_EXIST: u8 = 1;
    pub const LUN_DOES_NOT_EXIST: u8 = 2;
    pub const TASK_ALLEGIANCE_REASSIGNMENT_NOT_SUPPORTED: u8 = 4;
    pub const FUNCTION_NOT_SUPPORTED: u8 = 5;
    pub const FUNCTION_AUTHORIZATION_FAILED: u8 = 6;
}

impl Connection {
    /// Processes a complete request other than SCSI Command and Data-Out.
    pub(super) fn receive_request(
        &mut self,
        header: &Header,
        request: InitiatorPdu,
        data: Vec<u8>,
    ) -> Result<(), End> {
        let (immediate, cmd_sn) = match &request {
            InitiatorPdu::NopOut(pdu) => (pdu.immediate, pdu.cmd_sn),
            InitiatorPdu::TaskManagementRequest(pdu) => (pdu.immediate, pdu.cmd_sn),
            InitiatorPdu::TextRequest(pdu) => (pdu.immediate, pdu.cmd_sn),
            InitiatorPdu::LogoutRequest(pdu) => (pdu.immediate, pdu.cmd_sn),
            // ErrorRecoveryLevel 0 has no retransmission (11.16).
            _ => {
                self.push_reject(reject::SNACK_REJECT, header);
                return Ok(());
            }
        };
        if immediate {
            return self.handle_request(header, request, &data);
        }
        match self.window.judge(cmd_sn) {
            Arrival::Next => {
                self.window.advance();
                self.handle_request(header, request, &data)?;
                self.deliver_held()
            }
            Arrival::Early => {
                let held = self.held.values().map(Held::bytes).sum::<usize>();
                if held + data.len() > EARLY_REQUESTS {
                    return Err(End::Protocol("too much text and ping data out of order"));
                }
                // Ignore a second request with the same CmdSN, like all duplicates.
                self.held
                    .entry(cmd_sn)
                    .or_insert(Held::Request(*header, request, data));
                Ok(())
            }
            Arrival::Ignored => Ok(()),
        }
    }

    /// Processes queued requests until the order has a gap.
    pub(super) fn deliver_held(&mut self) -> Result<(), End> {
        while let Some(held) = self.held.remove(&self.window.expected()) {
            self.window.advance();
            match held {
                Held::Command(tag) => self.start(tag),
                Held::Request(header, request, data) => {
                    self.handle_request(&header, request, &data)?;
                }
                Held::Skipped => self.window.release(),
            }
        }
        Ok(())
    }

    fn handle_request(
        &mut self,
        header: &Header,
        request: InitiatorPdu,
        data: &[u8],
    ) -> Result<(), End> {
        match request {
            InitiatorPdu::NopOut(request) => {
                self.release(request.immediate);
                self.handle_nop_out(&request, data);
            }
            InitiatorPdu::TextRequest(request) => {
                self.release(request.immediate);
                self.handle_text_request(header, &request, data);
            }
            InitiatorPdu::LogoutRequest(request) => {
                self.release(request.immediate);
                self.handle_logout_request(header, request);
            }
            InitiatorPdu::TaskManagementRequest(request) => {
                self.handle_task_management(header, &request)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Ends a request that used a `CmdSN`: the window opens by one.
    pub(super) fn release(&mut self, immediate: bool) {
        if !immediate {
            self.window.release();
        }
    }

    fn handle_nop_out(&mut self, request: &NopOut, data: &[u8]) {
        // Without Initiator Task Tag, it is the answer to our NOP-In; nothing more to do.
        if request.initiator_task_tag != RESERVED_TAG {
            let limit = self.parameters.initiator_max_recv_data_segment_length as usize;
            self.push_pong(request, &data[..data.len().min(limit)]);
        }
    }

    fn handle_logout_request(&mut self, header: &Header, request: LogoutRequest) {
        if request.reason > LOGOUT_REMOVE_FOR_RECOVERY {
            self.push_reject(reject::INVALID_PDU_FIELD, header);
        } else if self.is_logout_for_us(&request) {
            self.logout = Some(request);
        } else {
            self.push_logout_response(&request);
        }
    }

    fn handle_task_management(
        &mut self,
        header: &Header,
        request: &TaskManagementRequest,
    ) -> Result<(), End> {
        let Some(attachment) = &self.nexus else {
            return Err(End::Protocol("task management in a discovery session"));
        };
        let (nexus, target) = (attachment.nexus.clone(), attachment.target.clone());
        if request.immediate {
            if self.immediate >= IMMEDIATE_MAX {
                self.push_reject(reject::TOO_MANY_IMMEDIATE_COMMANDS, header);
                return Ok(());
            }
            self.immediate += 1;
        }
        let mut management = Management {
            initiator_task_tag: request.initiator_task_tag,
            immediate: request.immediate,
            aborts: Vec::new(),
        };
        let logical_unit = LogicalUnitNumber(request.lun);
        let function = match request.function {
            function::ABORT_TASK => {
                let tag = request.referenced_task_tag;
                if self.is_running(tag) {
                    TaskManagementFunction::AbortTask {
                        logical_unit,
                        identifier: u64::from(tag),
                    }
                } else {
                    let response = self.abort_before_start(request);
                    self.deliver_held()?;
                    self.finish_management(&management, response);
                    return Ok(());
                }
            }
            function::ABORT_TASK_SET => TaskManagementFunction::AbortTaskSet(logical_unit),
            function::CLEAR_ACA => TaskManagementFunction::ClearAca(logical_unit),
            function::CLEAR_TASK_SET => TaskManagementFunction::ClearTaskSet(logical_unit),
            function::LOGICAL_UNIT_RESET => TaskManagementFunction::LogicalUnitReset(logical_unit),
            function::TARGET_WARM_RESET => TaskManagementFunction::TargetReset,
            // It would end the sessions of hosts that share no logical unit with this initiator.
            function::TARGET_COLD_RESET => {
                let response = response::FUNCTION_AUTHORIZATION_FAILED;
                self.finish_management(&management, response);
                return Ok(());
            }
            function::TASK_REASSIGN => {
                let response = response::TASK_ALLEGIANCE_REASSIGNMENT_NOT_SUPPORTED;
                self.finish_management(&management, response);
                return Ok(());
            }
            _ => {
                self.finish_management(&management, response::FUNCTION_NOT_SUPPORTED);
                return Ok(());
            }
        };
        let whole_target = function == TaskManagementFunction::TargetReset;
        let ends_tasks = !matches!(
            function,
            TaskManagementFunction::AbortTask { .. } | TaskManagementFunction::ClearAca(_)
        );
        if ends_tasks {
            self.drop_tasks_not_running(request.cmd_sn, |unit| {
                whole_target || unit == logical_unit
            });
        }
        management.aborts = self.running_tasks(|tag, unit| match function {
            TaskManagementFunction::AbortTask { identifier, .. } => u64::from(tag) == identifier,
            _ => whole_target || unit == logical_unit,
        });
        let end_of_tasks = target.manage_tasks(nexus, function);
        let future = Box::pin(async {
            let ended = timeout(END_OF_TASKS, end_of_tasks).await;
            // The units are fenced for the tasks that have not ended.
            ended.unwrap_or(FunctionResponse::Complete)
        });
        self.running
            .push(Running::Management { management, future });
        Ok(())
    }

    /// Tag and number of the SCSI target's running commands that `chosen` selects by tag and unit.
    fn running_tasks(&self, chosen: impl Fn(u32, LogicalUnitNumber) -> bool) -> Vec<(u32, u64)> {
        let running = self.tasks.iter().filter_map(|(&tag, task)| {
            let Progress::Running(number) = task.progress else {
                return None;
            };
            chosen(tag, task.logical_unit).then_some((tag, number))
        });
        running.collect()
    }

    fn is_running(&self, tag: u32) -> bool {
        self.tasks
            .get(&tag)
            .is_some_and(|task| matches!(task.progress, Progress::Running(_)))
    }

    /// ABORT TASK of a command that the SCSI target does not run (11.6.1).
    fn abort_before_start(&mut self, request: &TaskManagementRequest) -> u8 {
        if self.tasks.contains_key(&request.referenced_task_tag) {
            self.drop_task(request.referenced_task_tag);
            return response::FUNCTION_COMPLETE;
        }
        // A command that has not arrived counts as received and aborted.
        match self.window.judge(request.ref_cmd_sn) {
            Arrival::Ignored => response::TASK_DOES_NOT_EXIST,
            _ if self.held.contains_key(&request.ref_cmd_sn) => response::TASK_DOES_NOT_EXIST,
            _ if !CommandWindow::precedes(request.ref_cmd_sn, request.cmd_sn) => {
                response::TASK_DOES_NOT_EXIST
            }
            _ => {
                self.held.insert(request.ref_cmd_sn, Held::Skipped);
                response::FUNCTION_COMPLETE
            }
        }
    }
}
