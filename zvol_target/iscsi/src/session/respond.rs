// SPDX-License-Identifier: Apache-2.0
//! Responses and other PDUs to the initiator.

use scsi::sam::{Completion, Status};

use super::connection::Connection;
use super::sense;
use super::task::Task;
use super::transfer::Solicitation;
use crate::pdu::{
    AsynchronousMessage, Header, LogoutRequest, LogoutResponse, NopIn, NopOut, RESERVED_TAG,
    ReadyToTransfer, Reject, ScsiResponse, TaskManagementResponse,
};

/// Reason codes of a Logout Request (11.14.1). Higher values are reserved.
const LOGOUT_CLOSE_CONNECTION: u8 = 1;
pub(super) const LOGOUT_REMOVE_FOR_RECOVERY: u8 = 2;
/// Responses of a Logout Response (11.15.1).
const LOGOUT_CLOSED: u8 = 0;
const LOGOUT_CID_NOT_FOUND: u8 = 1;
const LOGOUT_RECOVERY_NOT_SUPPORTED: u8 = 2;
/// `AsyncEvent`: the target drops all connections of the session (11.9.1).
const EVENT_ALL_CONNECTIONS_DROPPED: u8 = 3;
/// `Time2Wait` after we closed a connection: seconds before the initiator may log in again.
const TIME_TO_WAIT_AFTER_DROP: u16 = 2;

/// Difference between the transferred data and the initiator's expectation (11.4.5).
#[derive(Clone, Copy, Default)]
pub(super) struct Residual {
    pub overflow: bool,
    pub underflow: bool,
    pub count: u32,
}

impl Residual {
    fn of(expected: u32, actual: u64) -> Self {
        let expected = u64::from(expected);
        Self {
            overflow: actual > expected,
            underflow: actual < expected,
            count: u32::try_from(actual.abs_diff(expected)).unwrap_or(u32::MAX),
        }
    }
}

impl Connection {
    /// Uses up the next `StatSN`.
    pub(super) fn take_stat_sn(&mut self) -> u32 {
        let stat_sn = self.stat_sn;
        self.stat_sn = stat_sn.wrapping_add(1);
        stat_sn
    }

    pub(super) fn new_transfer_tag(&mut self) -> u32 {
        let tag = self.next_transfer_tag;
        self.next_transfer_tag = match tag.wrapping_add(1) {
            RESERVED_TAG => 0,
            next => next,
        };
        tag
    }

    pub(super) fn push(&mut self, header: Header, data: &[u8]) {
        self.outbound.push(header, data, self.digests);
    }

    /// Data-In and status of a command.
    pub(super) fn push_response(&mut self, tag: u32, task: &Task, mut completion: Completion) {
        if let Some(failure) = task
            .transfer
            .as_ref()
            .and_then(|transfer| transfer.failure())
        {
            completion.status = Status::CheckCondition;
            completion.sense = sense::of_failure(failure).to_vec();
            completion.data_in = None;
            completion.data_in_required = 0;
        }
        let data_in = completion.data_in.take();
        let available = data_in.as_ref().map_or(0, |data| data.len() as u64);
        let required = completion.data_in_required;
        let reads = task.read_length > 0 || (task.write_length == 0 && required > 0);
        let residual = if reads {
            Residual::of(task.read_length, required)
        } else {
            Residual::of(task.write_length, completion.data_out_required)
        };
        let read_length = task
            .read_length
            .min(u32::try_from(available).unwrap_or(u32::MAX));
        // 11.7.3: the last Data-In can carry the status if the response has no other content.
        let collapse = completion.status == Status::Good && read_length > 0;
        let mut data_pdus = 0;
        if let (Some(data), true) = (data_in, read_length > 0) {
            let status = collapse.then_some((completion.status, residual));
            data_pdus = self.push_data_in(tag, data, read_length as usize, status);
        }
        if collapse {
            return;
        }
        let r2ts = task
            .transfer
            .as_ref()
            .map_or(0, |transfer| transfer.r2t_count());
        let response = ScsiResponse {
            overflow: residual.overflow,
            underflow: residual.underflow,
            status: completion.status as u8,
            initiator_task_tag: tag,
            stat_sn: self.take_stat_sn(),
            exp_cmd_sn: self.window.expected(),
            max_cmd_sn: self.window.announce_maximum(),
            // 11.4.8: R2Ts count only for a command with Data-In.
            exp_data_sn: if data_pdus > 0 { data_pdus + r2ts } else { 0 },
            residual: residual.count,
            ..ScsiResponse::default()
        };
        if completion.sense.is_empty() {
            return self.push(response.encode(), &[]);
        }
        // 11.4.7: SenseLength in front of the sense data.
        completion.sense.truncate(usize::from(u8::MAX));
        let mut data = (completion.sense.len() as u16).to_be_bytes().to_vec();
        data.extend_from_slice(&completion.sense);
        self.push(response.encode(), &data);
    }

    pub(super) fn push_ready_to_transfer(
        &mut self,
        tag: u32,
        target_transfer_tag: u32,
        solicitation: Solicitation,
    ) {
        let lun = self
            .tasks
            .get(&tag)
            .map_or([0; 8], |task| task.logical_unit.0);
        let pdu = ReadyToTransfer {
            lun,
            initiator_task_tag: tag,
            target_transfer_tag,
            stat_sn: self.stat_sn,
            exp_cmd_sn: self.window.expected(),
            max_cmd_sn: self.window.announce_maximum(),
            r2t_sn: solicitation.r2t_sn,
            buffer_offset: solicitation.offset,
            desired_data_transfer_length: solicitation.length,
        };
        self.push(pdu.encode(), &[]);
    }

    pub(super) fn push_task_management_response(&mut self, tag: u32, response: u8) {
        self.queue_all_data();
        let pdu = TaskManagementResponse {
            response,
            initiator_task_tag: tag,
            stat_sn: self.take_stat_sn(),
            exp_cmd_sn: self.window.expected(),
            max_cmd_sn: self.window.announce_maximum(),
        };
        self.push(pdu.encode(), &[]);
    }

    /// Answers a NOP-Out.
    pub(super) fn push_pong(&mut self, request: &NopOut, data: &[u8]) {
        let pdu = NopIn {
            lun: request.lun,
            initiator_task_tag: request.initiator_task_tag,
            target_transfer_tag: RESERVED_TAG,
            stat_sn: self.take_stat_sn(),
            exp_cmd_sn: self.window.expected(),
            max_cmd_sn: self.window.announce_maximum(),
        };
        self.push(pdu.encode(), data);
    }

    /// Sends a NOP-In that requests an answer (11.19.1: it uses up no `StatSN`).
    pub(super) fn push_ping(&mut self) {
        let pdu = NopIn {
            initiator_task_tag: RESERVED_TAG,
            target_transfer_tag: self.new_transfer_tag(),
            stat_sn: self.stat_sn,
            exp_cmd_sn: self.window.expected(),
            max_cmd_sn: self.window.announce_maximum(),
            ..NopIn::default()
        };
        self.push(pdu.encode(), &[]);
    }

    /// Sends a NOP-In that requests no answer, if the window has opened and no other PDU has announced it (11.4.11). This happens
    /// when commands end without a response, for example aborted by another nexus.
    pub(super) fn announce_window(&mut self) {
        // Data-In that is sent later announces it.
        if !self.window.is_unannounced() || !self.long_data.is_empty() {
            return;
        }
        let pdu = NopIn {
            initiator_task_tag: RESERVED_TAG,
            target_transfer_tag: RESERVED_TAG,
            stat_sn: self.stat_sn,
            exp_cmd_sn: self.window.expected(),
            max_cmd_sn: self.window.announce_maximum(),
            ..NopIn::default()
        };
        self.push(pdu.encode(), &[]);
    }

    pub(super) fn push_reject(&mut self, reason: u8, rejected: &Header) {
        let pdu = Reject {
            reason,
            initiator_task_tag: RESERVED_TAG,
            stat_sn: self.take_stat_sn(),
            exp_cmd_sn: self.window.expected(),
            max_cmd_sn: self.window.announce_maximum(),
            data_sn: 0,
        };
        self.push(pdu.encode(), rejected);
    }

    pub(super) fn push_logout_response(&mut self, request: &LogoutRequest) {
        self.queue_all_data();
        let response = match request.reason {
            LOGOUT_REMOVE_FOR_RECOVERY => LOGOUT_RECOVERY_NOT_SUPPORTED,
            LOGOUT_CLOSE_CONNECTION if request.cid != self.registration.record.cid => {
                LOGOUT_CID_NOT_FOUND
            }
            _ => LOGOUT_CLOSED,
        };
        let pdu = LogoutResponse {
            response,
            initiator_task_tag: request.initiator_task_tag,
            stat_sn: self.take_stat_sn(),
            exp_cmd_sn: self.window.expected(),
            max_cmd_sn: self.window.announce_maximum(),
            time2wait: 0,
            time2retain: 0,
        };
        self.push(pdu.encode(), &[]);
    }

    /// Whether a Logout Request closes this connection.
    pub(super) fn is_logout_for_us(&self, request: &LogoutRequest) -> bool {
        match request.reason {
            LOGOUT_CLOSE_CONNECTION => request.cid == self.registration.record.cid,
            reason => reason != LOGOUT_REMOVE_FOR_RECOVERY,
        }
    }

    /// Announces the end of the session to the initiator.
    pub(super) fn push_connections_dropped(&mut self) {
        self.queue_all_data();
        let pdu = AsynchronousMessage {
            initiator_task_tag: RESERVED_TAG,
            stat_sn: self.take_stat_sn(),
            exp_cmd_sn: self.window.expected(),
            max_cmd_sn: self.window.announce_maximum(),
            event: EVENT_ALL_CONNECTIONS_DROPPED,
            parameter2: TIME_TO_WAIT_AFTER_DROP,
            ..AsynchronousMessage::default()
        };
        self.push(pdu.encode(), &[]);
    }
}
