// SPDX-License-Identifier: Apache-2.0
//! SCSI commands: from the PDU to the SCSI target and to the end of the task.

use std::rc::Rc;

use scsi::sam::{
    Command, Completion, FunctionResponse, LogicalUnitNumber, Outcome, Status, TaskAttribute,
};

use super::connection::{Connection, End};
use super::dispatch::{Held, IMMEDIATE_MAX, response};
use super::receive::Destination;
use super::task::{Finished, Management, Progress, Running, Task};
use super::transfer::{CommandBuffers, Failure, Transfer};
use super::window::{Arrival, CommandWindow};
use crate::pdu::{DataOut, Header, RESERVED_TAG, ScsiCommand, reject};
use crate::registry::Counters;

impl Connection {
    /// Processes the headers of a SCSI Command followed by `immediate_data` bytes. Returns the destination of these bytes.
    pub(super) fn receive_command(
        &mut self,
        header: &Header,
        command: &ScsiCommand,
        immediate_data: u32,
    ) -> Result<Destination, End> {
        let arrival = if command.immediate {
            Arrival::Next
        } else {
            self.window.judge(command.cmd_sn)
        };
        let taken = self.held.contains_key(&command.cmd_sn);
        if arrival == Arrival::Ignored || (arrival == Arrival::Early && taken) {
            return Ok(Destination::Nobody);
        }
        let tag = command.initiator_task_tag;
        let attribute = task_attribute(command.attribute);
        let refused = if self.nexus.is_none() {
            Some(reject::COMMAND_NOT_SUPPORTED)
        } else if tag == RESERVED_TAG || attribute.is_none() {
            Some(reject::INVALID_PDU_FIELD)
        } else if self.tasks.contains_key(&tag) {
            Some(reject::TASK_IN_PROGRESS)
        } else if command.immediate && self.immediate >= IMMEDIATE_MAX {
            Some(reject::TOO_MANY_IMMEDIATE_COMMANDS)
        } else {
            None
        };
        let (None, Some(attribute)) = (refused, attribute) else {
            if !command.immediate {
                self.held.insert(command.cmd_sn, Held::Skipped);
                self.deliver_held()?;
            }
            self.push_reject(refused.unwrap_or(reject::INVALID_PDU_FIELD), header);
            return Ok(Destination::Nobody);
        };
        let transfer = self.new_transfer(command, immediate_data);
        let expected = command.expected_data_transfer_length;
        let (read_length, write_length) = match (command.read, command.write) {
            (_, true) => (0, expected),
            (true, false) => (expected, 0),
            (false, false) => (0, 0),
        };
        let logical_unit = LogicalUnitNumber(command.lun);
        let task = Task {
            logical_unit,
            progress: Progress::Waiting(Command {
                logical_unit,
                identifier: u64::from(tag),
                cdb: command.cdb.to_vec(),
                attribute,
                data_in_buffer_size: read_length,
            }),
            immediate: command.immediate,
            read_length,
            write_length,
            transfer: transfer.clone(),
        };
        self.tasks.insert(tag, task);
        Counters::add(&self.registration.record.counters.commands, 1);
        match arrival {
            _ if command.immediate => {
                self.immediate += 1;
                self.start(tag);
            }
            Arrival::Next => {
                self.window.advance();
                self.start(tag);
                self.deliver_held()?;
            }
            Arrival::Early | Arrival::Ignored => {
                self.held.insert(command.cmd_sn, Held::Command(tag));
            }
        }
        Ok(match transfer {
            Some(transfer) if immediate_data > 0 => Destination::Data {
                transfer,
                tag,
                unsolicited: true,
                last: command.r#final,
            },
            _ => Destination::Nobody,
        })
    }

    /// The Data-Out of a command. It has failed already if the command announces unsolicited data that was not negotiated.
    fn new_transfer(&self, command: &ScsiCommand, immediate_data: u32) -> Option<Rc<Transfer>> {
        if !command.write && immediate_data == 0 {
            return None;
        }
        let expected = if command.write {
            command.expected_data_transfer_length
        } else {
            0
        };
        let first_burst = self.parameters.first_burst_length.min(expected);
        let more = command.write && !command.r#final;
        let transfer = Transfer::new(
            command.initiator_task_tag,
            expected,
            immediate_data,
            more.then_some(first_burst),
            &self.requests,
        );
        if (immediate_data > 0 && !(command.write && self.parameters.immediate_data))
            || (more && self.parameters.initial_r2t)
        {
            transfer.fail(Failure::UnexpectedUnsolicitedData);
        } else if immediate_data > first_burst {
            transfer.fail(Failure::IncorrectAmountOfData);
        }
        Some(Rc::new(transfer))
    }

    /// Processes the headers of a Data-Out PDU followed by `length` bytes. Returns the destination of these bytes.
    pub(super) fn receive_data_out(
        &mut self,
        header: &Header,
        data: &DataOut,
        length: u32,
    ) -> Destination {
        let unsolicited = data.target_transfer_tag == RESERVED_TAG;
        let tag = if unsolicited {
            data.initiator_task_tag
        } else if let Some(tag) = self.solicited.task_of(data.target_transfer_tag) {
            tag
        } else {
            // Discard data that a command requested before it ended.
            let issued = self
                .next_transfer_tag
                .wrapping_sub(data.target_transfer_tag);
            if issued == 0 || issued > 1 << 31 {
                self.push_reject(reject::INVALID_PDU_FIELD, header);
            }
            return Destination::Nobody;
        };
        // Also discard unsolicited data of a command that has ended.
        let Some(task) = self.tasks.get(&tag) else {
            return Destination::Nobody;
        };
        let Some(transfer) = &task.transfer else {
            self.push_reject(reject::PROTOCOL_ERROR, header);
            return Destination::Nobody;
        };
        if tag != data.initiator_task_tag {
            transfer.fail(Failure::IncorrectAmountOfData);
        }
        let last = transfer.accept(data, length);
        Destination::Data {
            transfer: Rc::clone(transfer),
            tag,
            unsolicited,
            last,
        }
    }

    /// Ends a sequence of Data-Out. A response may have waited for it.
    pub(super) fn end_sequence(&mut self, tag: u32) {
        self.respond_if_complete(tag);
    }

    /// Passes a command to the SCSI target, in the order of `CmdSN`.
    pub(super) fn start(&mut self, tag: u32) {
        let (Some(task), Some(attachment)) = (self.tasks.get_mut(&tag), &self.nexus) else {
            return;
        };
        let number = self.started;
        let running = Progress::Running(number);
        let Progress::Waiting(command) = std::mem::replace(&mut task.progress, running) else {
            return;
        };
        let data_out: Box<dyn scsi::sam::DataOut> = match &task.transfer {
            Some(transfer) if transfer.failure().is_some() => {
                transfer.close();
                task.progress = Progress::Ended(broken_transfer());
                return self.respond_if_complete(tag);
            }
            transfer => Box::new(CommandBuffers::new(
                transfer.clone(),
                &self.memory,
                task.logical_unit,
            )),
        };
        let (nexus, target) = (attachment.nexus.clone(), attachment.target.clone());
        let future = target.execute_command(nexus, command, data_out);
        self.started += 1;
        self.running.push(Running::Command {
            tag,
            number,
            future,
        });
    }

    /// Processes a result of the SCSI target.
    pub(super) fn finish(&mut self, finished: Finished) {
        match finished {
            Finished::Command {
                tag,
                number,
                outcome,
            } => self.finish_command(tag, number, outcome),
            Finished::Management(management, response) => {
                if response == FunctionResponse::Complete {
                    self.give_up(&management.aborts);
                }
                let response = match response {
                    FunctionResponse::Complete => response::FUNCTION_COMPLETE,
                    FunctionResponse::TaskDoesNotExist => response::TASK_DOES_NOT_EXIST,
                    FunctionResponse::NotSupported => response::FUNCTION_NOT_SUPPORTED,
                    FunctionResponse::IncorrectLogicalUnit => response::LUN_DOES_NOT_EXIST,
                };
                self.finish_management(&management, response);
            }
        }
    }

    /// Forgets commands that the initiator considers ended. Their tags and places in the window are free, even if a command still
    /// runs because its volume hangs.
    fn give_up(&mut self, commands: &[(u32, u64)]) {
        for &(tag, number) in commands {
            if self.is_running_as(tag, number) {
                self.remove_task(tag);
            }
        }
    }

    fn is_running_as(&self, tag: u32, number: u64) -> bool {
        let task = self.tasks.get(&tag);
        task.is_some_and(|task| matches!(task.progress, Progress::Running(is) if is == number))
    }

    pub(super) fn finish_management(&mut self, management: &Management, response: u8) {
        if management.immediate {
            self.immediate -= 1;
        }
        self.release(management.immediate);
        self.push_task_management_response(management.initiator_task_tag, response);
    }

    fn finish_command(&mut self, tag: u32, number: u64, outcome: Outcome) {
        if !self.is_running_as(tag, number) {
            return;
        }
        let Some(task) = self.tasks.get_mut(&tag) else {
            return;
        };
        let failure_delivered = task
            .transfer
            .as_ref()
            .is_some_and(|transfer| transfer.failure_delivered());
        let completion = match outcome {
            Outcome::Completed(completion) => completion,
            // The command ended because its transfer failed; the response reports that.
            Outcome::Aborted if failure_delivered => broken_transfer(),
            Outcome::Aborted => {
                self.remove_task(tag);
                return;
            }
        };
        if let Some(transfer) = &task.transfer {
            transfer.close();
        }
        task.progress = Progress::Ended(completion);
        self.respond_if_complete(tag);
    }

    /// Responds to a command that has ended, unless its data is still arriving.
    fn respond_if_complete(&mut self, tag: u32) {
        let complete = self.tasks.get(&tag).is_some_and(|task| {
            matches!(task.progress, Progress::Ended(_))
                && !task
                    .transfer
                    .as_ref()
                    .is_some_and(|transfer| transfer.is_outstanding())
        });
        if !complete {
            return;
        }
        if let Some(mut task) = self.remove_task(tag) {
            let running = Progress::Running(0);
            if let Progress::Ended(completion) = std::mem::replace(&mut task.progress, running) {
                self.push_response(tag, &task, completion);
            }
        }
    }

    /// Removes a task, and frees its place in the window.
    fn remove_task(&mut self, tag: u32) -> Option<Task> {
        let task = self.tasks.remove(&tag)?;
        if let Some(transfer) = &task.transfer {
            transfer.close();
            if transfer.is_outstanding() {
                self.solicited.forget_task(tag);
            }
        }
        if task.immediate {
            self.immediate -= 1;
        }
        self.release(task.immediate);
        Some(task)
    }

    /// Drops a task that the SCSI target does not run. No response is sent.
    pub(super) fn drop_task(&mut self, tag: u32) {
        let was_held = self.held.iter().find_map(|(&cmd_sn, held)| {
            matches!(held, Held::Command(other) if *other == tag).then_some(cmd_sn)
        });
        let Some(cmd_sn) = was_held else {
            self.remove_task(tag);
            return;
        };
        // Its turn in the order is still to come; the window opens then.
        self.held.insert(cmd_sn, Held::Skipped);
        if let Some(transfer) = self.tasks.remove(&tag).and_then(|task| task.transfer) {
            transfer.close();
        }
    }

    /// Drops the tasks of logical units that the SCSI target does not run. Tasks after `cmd_sn` in the order are not affected.
    pub(super) fn drop_tasks_not_running(
        &mut self,
        cmd_sn: u32,
        of: impl Fn(LogicalUnitNumber) -> bool,
    ) {
        let behind: Vec<u32> = self
            .held
            .iter()
            .filter_map(|(&at, held)| match held {
                Held::Command(tag) if !CommandWindow::precedes(at, cmd_sn) => Some(*tag),
                _ => None,
            })
            .collect();
        let tags: Vec<u32> = self
            .tasks
            .iter()
            .filter(|(_, task)| {
                !matches!(task.progress, Progress::Running(_)) && of(task.logical_unit)
            })
            .map(|(tag, _)| *tag)
            .filter(|tag| !behind.contains(tag))
            .collect();
        for tag in tags {
            self.drop_task(tag);
        }
    }
}

/// ATTR (11.3.1); untagged commands are SIMPLE.
fn task_attribute(attribute: u8) -> Option<TaskAttribute> {
    Some(match attribute {
        0 | 1 => TaskAttribute::Simple,
        2 => TaskAttribute::Ordered,
        3 => TaskAttribute::HeadOfQueue,
        4 => TaskAttribute::AutoContingentAllegiance,
        _ => return None,
    })
}

/// The response takes its sense data from the failure.
fn broken_transfer() -> Completion {
    Completion {
        status: Status::CheckCondition,
        sense: Vec::new(),
        data_in: None,
        data_in_required: 0,
        data_out_required: 0,
    }
}
