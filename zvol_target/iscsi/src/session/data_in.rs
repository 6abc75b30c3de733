// SPDX-License-Identifier: Apache-2.0
//! Data-In to the initiator: short data at once, long data in turns, so that no answer waits behind megabytes.

use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use scsi::sam::{Buffer, Status};

use super::connection::Connection;
use super::respond::Residual;
use crate::pdu::{DataIn, RESERVED_TAG};
use crate::registry::Counters;

/// Longest data that is queued whole, bytes.
const SHORT: usize = 64 << 10;
/// Limit of long data in the send queue, bytes. Answers that become ready are queued before the rest.
const QUEUED_MOST: usize = 256 << 10;

/// Data of commands that have ended; not queued yet.
#[derive(Default)]
pub(super) struct LongData {
    /// In the order of turns.
    sequences: VecDeque<Sequence>,
    bytes: usize,
}

impl LongData {
    pub fn is_empty(&self) -> bool {
        self.sequences.is_empty()
    }
}

/// Data-In of one command.
struct Sequence {
    tag: u32,
    data: Rc<Buffer>,
    length: usize,
    /// Queued bytes and PDUs.
    queued: usize,
    data_sn: u32,
    /// Sent with the last PDU (RFC 7143 11.7.3).
    status: Option<(Status, Residual)>,
}

impl Connection {
    /// Sends the first `length` bytes of `data` as Data-In. With a status, it can take turns with other long data. Without a
    /// status, all of it is queued, and the number of PDUs returned.
    pub(super) fn push_data_in(
        &mut self,
        tag: u32,
        data: Buffer,
        length: usize,
        status: Option<(Status, Residual)>,
    ) -> u32 {
        let counter = &self.registration.record.counters.data_in_bytes;
        Counters::add(counter, length as u64);
        let mut sequence = Sequence {
            tag,
            data: Rc::new(data),
            length,
            queued: 0,
            data_sn: 0,
            status,
        };
        if length > SHORT && sequence.status.is_some() {
            self.long_data.bytes += length;
            self.long_data.sequences.push_back(sequence);
            self.memory.set_unread(self.unread_data());
            return 0;
        }
        while sequence.queued < length {
            self.queue_segment(&mut sequence);
        }
        self.memory.set_unread(self.unread_data());
        sequence.data_sn
    }

    /// Queues the next PDU. Its limits are the initiator's segment length and the rest of a burst of `MaxBurstLength`. The last
    /// PDU of a burst has the F bit.
    fn queue_segment(&mut self, sequence: &mut Sequence) {
        let segment = self.parameters.initiator_max_recv_data_segment_length as usize;
        let burst = self.parameters.max_burst_length as usize;
        let start = sequence.queued;
        let burst_end = (start - start % burst + burst).min(sequence.length);
        let end = burst_end.min(start + segment);
        let mut pdu = DataIn {
            initiator_task_tag: sequence.tag,
            target_transfer_tag: RESERVED_TAG,
            exp_cmd_sn: self.window.expected(),
            max_cmd_sn: self.window.announce_maximum(),
            data_sn: sequence.data_sn,
            buffer_offset: start as u32,
            r#final: end == burst_end,
            ..DataIn::default()
        };
        if let (Some((status, residual)), true) = (sequence.status, end == sequence.length) {
            pdu.status_present = true;
            pdu.status = status as u8;
            pdu.stat_sn = self.take_stat_sn();
            pdu.overflow = residual.overflow;
            pdu.underflow = residual.underflow;
            pdu.residual = residual.count;
        }
        self.outbound
            .push_data(pdu.encode(), &sequence.data, start, end, self.digests);
        sequence.queued = end;
        sequence.data_sn += 1;
    }

    /// Queues long data, one PDU of each command in turn, until `most` bytes of data are queued.
    fn queue_long_data(&mut self, most: usize) {
        while self.outbound.data_bytes() < most {
            let Some(mut sequence) = self.long_data.sequences.pop_front() else {
                break;
            };
            let before = sequence.queued;
            self.queue_segment(&mut sequence);
            self.long_data.bytes -= sequence.queued - before;
            if sequence.queued < sequence.length {
                self.long_data.sequences.push_back(sequence);
            }
        }
    }

    /// Queues all data of commands that have ended. Used before a PDU that must not overtake their status: the response of a task
    /// management function that did not find them (11.6.1), a Logout Response, the last message of a session.
    pub(super) fn queue_all_data(&mut self) {
        self.queue_long_data(usize::MAX);
    }

    /// Bytes of data that the initiator has not read, queued or not.
    pub(super) fn unread_data(&self) -> usize {
        self.outbound.data_bytes() + self.long_data.bytes
    }

    /// Sends until the queue is empty or the socket is full.
    pub(super) fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            self.queue_long_data(QUEUED_MOST);
            ready!(self.outbound.poll_flush(&mut self.stream, context))?;
            if self.long_data.is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}
