// SPDX-License-Identifier: Apache-2.0
//! Properties that an initiator can check, whatever it sent.

use std::collections::{HashMap, VecDeque};

use iscsi::pdu::{
    self, DataIn, Digests, InitiatorPdu, LoginResponse, RESERVED_TAG, ReadyToTransfer, TargetPdu,
};

/// The longest data segment that a target may send.
const DATA_SEGMENT_LIMIT: usize = 1 << 24;

/// Requests with one Initiator Task Tag.
#[derive(Default)]
struct Sent {
    commands: u32,
    responses: u32,
    /// Largest Expected Data Transfer Length.
    expected_length: u64,
}

/// A connection, as its initiator sees it.
#[derive(Default)]
pub(super) struct Observer {
    digests: Digests,
    /// The declared `MaxRecvDataSegmentLength`, and the negotiated `MaxBurstLength`.
    data_segment_limit: usize,
    burst_limit: u32,
    received: Vec<u8>,
    login: Option<LoginResponse>,
    next_stat_sn: Option<u32>,
    /// `ExpCmdSN` and `MaxCmdSN` of the last PDU, and their distance at login.
    window: Option<(u32, u32)>,
    window_size: u32,
    sent: HashMap<u32, Sent>,
    /// The sent bytes may or may not be requests: tags have no meaning any more.
    pub wild: bool,
    /// R2Ts that wait for data.
    pub ready: VecDeque<ReadyToTransfer>,
    /// Target Transfer Tag of the last NOP-In and Text Response.
    pub target_transfer_tag: u32,
}

/// Whether `a` is not after `b` in serial number arithmetic (RFC 1982).
fn not_after(a: u32, b: u32) -> bool {
    b.wrapping_sub(a) < 1 << 31
}

impl Observer {
    pub fn new(digests: Digests, data_segment_limit: usize, burst_limit: u32) -> Self {
        Self {
            digests,
            data_segment_limit,
            burst_limit,
            ..Self::default()
        }
    }

    /// The last Login Response, if the login has ended.
    pub fn login(&self) -> Option<LoginResponse> {
        self.login
    }

    /// Records a PDU before it is sent.
    pub fn sending(&mut self, header: &pdu::Header) {
        if let Some(InitiatorPdu::ScsiCommand(command)) = InitiatorPdu::decode(header) {
            let sent = self.sent.entry(command.initiator_task_tag).or_default();
            sent.commands += 1;
            let length = command.expected_data_transfer_length.into();
            sent.expected_length = sent.expected_length.max(length);
        }
    }

    /// Checks bytes from the target.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
        loop {
            let in_login = self.login.is_none();
            let digests = if in_login {
                Digests::default()
            } else {
                self.digests
            };
            let received = std::mem::take(&mut self.received);
            let decoded = pdu::decode(&received, digests, DATA_SEGMENT_LIMIT);
            let Some(frame) = decoded.expect("a PDU of the target") else {
                self.received = received;
                return;
            };
            assert!(frame.additional_headers.is_empty());
            let pdu = TargetPdu::decode(&frame.header).expect("an opcode of a target");
            self.see(&pdu, frame.data);
            self.received = received[frame.length..].to_vec();
        }
    }

    fn see(&mut self, pdu: &TargetPdu, data: &[u8]) {
        let (stat_sn, expected, maximum, uses_stat_sn) = match pdu {
            TargetPdu::NopIn(p) => {
                self.target_transfer_tag = p.target_transfer_tag;
                let answers = p.initiator_task_tag != RESERVED_TAG;
                (p.stat_sn, p.exp_cmd_sn, p.max_cmd_sn, answers)
            }
            TargetPdu::ScsiResponse(p) => {
                self.respond(p.initiator_task_tag);
                (p.stat_sn, p.exp_cmd_sn, p.max_cmd_sn, true)
            }
            TargetPdu::TaskManagementResponse(p) => (p.stat_sn, p.exp_cmd_sn, p.max_cmd_sn, true),
            TargetPdu::LoginResponse(p) => {
                assert!(self.login.is_none(), "a Login Response after the login");
                if p.status_class == 0 && p.transit && p.next_stage == 3 {
                    self.login = Some(*p);
                    self.window_size = p.max_cmd_sn.wrapping_sub(p.exp_cmd_sn);
                }
                (p.stat_sn, p.exp_cmd_sn, p.max_cmd_sn, true)
            }
            TargetPdu::TextResponse(p) => {
                self.target_transfer_tag = p.target_transfer_tag;
                (p.stat_sn, p.exp_cmd_sn, p.max_cmd_sn, true)
            }
            TargetPdu::DataIn(p) => {
                self.see_data(p, data);
                (p.stat_sn, p.exp_cmd_sn, p.max_cmd_sn, p.status_present)
            }
            TargetPdu::LogoutResponse(p) => (p.stat_sn, p.exp_cmd_sn, p.max_cmd_sn, true),
            TargetPdu::ReadyToTransfer(p) => {
                self.see_ready(p);
                (p.stat_sn, p.exp_cmd_sn, p.max_cmd_sn, false)
            }
            TargetPdu::AsynchronousMessage(p) => (p.stat_sn, p.exp_cmd_sn, p.max_cmd_sn, true),
            TargetPdu::Reject(p) => {
                assert_eq!(data.len(), pdu::BHS_LENGTH, "the rejected header");
                (p.stat_sn, p.exp_cmd_sn, p.max_cmd_sn, true)
            }
        };
        assert!(self.login.is_none() || data.len() <= self.data_segment_limit);
        // Data-In without status has no StatSN (RFC 7143 11.7.4).
        if uses_stat_sn || !matches!(pdu, TargetPdu::DataIn(_)) {
            let next = *self.next_stat_sn.get_or_insert(stat_sn);
            assert_eq!(stat_sn, next, "StatSN of {pdu:?}");
            self.next_stat_sn = Some(next.wrapping_add(u32::from(uses_stat_sn)));
        }
        if let Some((last_expected, last_maximum)) = self.window {
            assert!(not_after(last_expected, expected), "ExpCmdSN went back");
            assert!(not_after(last_maximum, maximum), "MaxCmdSN went back");
        }
        self.window = Some((expected, maximum));
        if self.login.is_some() {
            // MaxCmdSN is ExpCmdSN - 1 when the window is closed.
            let open = maximum.wrapping_add(1).wrapping_sub(expected);
            assert!(open <= self.window_size + 1, "{open} commands may come");
        }
    }

    fn respond(&mut self, tag: u32) {
        if self.wild {
            return;
        }
        let sent = self
            .sent
            .get_mut(&tag)
            .expect("a response without a request");
        sent.responses += 1;
        assert!(sent.responses <= sent.commands, "two responses");
    }

    fn see_data(&mut self, data_in: &DataIn, data: &[u8]) {
        if data_in.status_present {
            self.respond(data_in.initiator_task_tag);
        }
        if let (false, Some(sent)) = (self.wild, self.sent.get(&data_in.initiator_task_tag)) {
            let end = u64::from(data_in.buffer_offset) + data.len() as u64;
            assert!(end <= sent.expected_length, "more than is expected");
        }
    }

    fn see_ready(&mut self, ready: &ReadyToTransfer) {
        assert_ne!(ready.target_transfer_tag, RESERVED_TAG);
        let length = ready.desired_data_transfer_length;
        assert!((1..=self.burst_limit).contains(&length));
        if let (false, Some(sent)) = (self.wild, self.sent.get(&ready.initiator_task_tag)) {
            let end = u64::from(ready.buffer_offset) + u64::from(length);
            assert!(end <= sent.expected_length, "more than is announced");
        }
        self.ready.push_back(*ready);
    }
}
