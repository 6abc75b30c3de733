// SPDX-License-Identifier: Apache-2.0
//! The Data-Out of one command: passes the data of PDUs to `DataOut::receive`, in order.
//!
//! `DataPDUInOrder` and `DataSequenceInOrder` are always Yes, so bytes arrive in the order of their offsets: immediate data,
//! unsolicited PDUs, then one R2T after the other. Memory is allocated before an R2T requests bytes.

mod landing;
mod receive;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::Waker;

use scsi::sam::Buffer;

use super::memory::Memory;
use crate::pdu;
use landing::Landing;
pub(crate) use receive::CommandBuffers;

/// Why a transfer failed, by the conditions of RFC 7143 11.4.7.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Unsolicited data that was not allowed.
    UnexpectedUnsolicitedData,
    /// The data differs from the request in amount or position.
    IncorrectAmountOfData,
    /// A Data-Out PDU is missing.
    ProtocolServiceCrcError,
}

/// Work of the connection for its transfers, collected while commands are polled.
#[derive(Default)]
pub(crate) struct Requests {
    /// Initiator Task Tags of commands that may need an R2T.
    waiting: RefCell<VecDeque<u32>>,
    /// The connection has its turn, and processes this at the end of it.
    in_turn: Cell<bool>,
    /// Wakes the connection.
    waker: RefCell<Option<Waker>>,
    /// Memory of the connection.
    pub memory: Rc<Memory>,
}

impl Requests {
    /// Begins a turn of the connection, which `waker` wakes.
    pub fn begin_turn(&self, waker: &Waker) {
        self.in_turn.set(true);
        let mut known = self.waker.borrow_mut();
        if !known.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *known = Some(waker.clone());
        }
    }

    /// Ends a turn of the connection.
    pub fn end_turn(&self) {
        self.in_turn.set(false);
    }

    fn push(&self, tag: u32) {
        self.waiting.borrow_mut().push_back(tag);
        if !self.in_turn.get() {
            if let Some(waker) = &*self.waker.borrow() {
                waker.wake_by_ref();
            }
        }
    }

    /// The next command to check.
    pub fn pop(&self) -> Option<u32> {
        self.waiting.borrow_mut().pop_front()
    }
}

/// An R2T that was sent.
#[derive(Clone, Copy, Debug)]
struct Burst {
    target_transfer_tag: u32,
    offset: u32,
    length: u32,
    received: u32,
    data_sn: u32,
}

/// An R2T to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Solicitation {
    /// `R2TSN`
    pub r2t_sn: u32,
    /// Buffer Offset.
    pub offset: u32,
    /// Desired Data Transfer Length.
    pub length: u32,
}

/// Memory that the command has provided for the next bytes.
struct Requested {
    buffer: Buffer,
    filled: usize,
}

/// Destination of the current data segment.
enum Segment {
    None,
    /// The memory of the command.
    Direct {
        left: usize,
    },
    /// A separate buffer, until the command requests the data.
    Landing {
        left: usize,
    },
    Discarded,
}

struct State {
    /// Bytes that the command sends in total.
    expected: u32,
    /// Bytes that have arrived in complete PDUs.
    arrived: u32,
    /// Bytes passed to the command.
    handed: u32,
    landing: Landing,
    /// Offset up to which data may be unsolicited.
    unsolicited_most: u32,
    requested: Option<Requested>,
    segment: Segment,
    /// Unsolicited PDUs are still to come, up to this offset.
    unsolicited_until: Option<u32>,
    unsolicited_data_sn: u32,
    bursts: VecDeque<Burst>,
    /// Offset of the next R2T.
    solicited: u32,
    r2t_sn: u32,
    failure: Option<Failure>,
    /// Whether the command has received the failure.
    failure_delivered: bool,
    nexus_lost: bool,
    /// Intervals since outstanding data arrived.
    silent_intervals: u32,
    /// The command accepts no more data.
    closed: bool,
    waker: Option<Waker>,
}

/// The Data-Out of one command; shared by connection and command.
pub(crate) struct Transfer {
    tag: u32,
    requests: Rc<Requests>,
    state: RefCell<State>,
}

impl Transfer {
    /// `immediate`: bytes in the command PDU. `unsolicited`: offset up to which unsolicited data PDUs follow (F bit 0).
    pub fn new(
        tag: u32,
        expected: u32,
        immediate: u32,
        unsolicited: Option<u32>,
        requests: &Rc<Requests>,
    ) -> Self {
        Self {
            tag,
            requests: Rc::clone(requests),
            state: RefCell::new(State {
                expected,
                arrived: 0,
                handed: 0,
                landing: Landing::default(),
                unsolicited_most: unsolicited.unwrap_or(immediate),
                requested: None,
                segment: Segment::None,
                unsolicited_until: unsolicited,
                unsolicited_data_sn: 0,
                bursts: VecDeque::new(),
                solicited: immediate,
                r2t_sn: 0,
                failure: None,
                failure_delivered: false,
                nexus_lost: false,
                silent_intervals: 0,
                closed: false,
                waker: None,
            }),
        }
    }

    pub fn failure(&self) -> Option<Failure> {
        self.state.borrow().failure
    }

    /// Whether the command itself has received the failure.
    pub fn failure_delivered(&self) -> bool {
        self.state.borrow().failure_delivered
    }

    /// Bytes that the initiator announced.
    pub fn expected(&self) -> u32 {
        self.state.borrow().expected
    }

    /// Announced bytes that the command did not receive.
    pub fn left(&self) -> u32 {
        let state = self.state.borrow();
        state.expected - state.handed
    }

    /// Number of R2Ts sent.
    pub fn r2t_count(&self) -> u32 {
        self.state.borrow().r2t_sn
    }

    /// Whether requested or announced data is still to arrive.
    pub fn is_outstanding(&self) -> bool {
        let state = self.state.borrow();
        state.unsolicited_until.is_some() || !state.bursts.is_empty()
    }

    /// Counts an interval. Returns the number of intervals without outstanding data. `excused`: do not count this one.
    pub fn count_silence(&self, excused: bool) -> u32 {
        let outstanding = self.is_outstanding();
        let mut state = self.state.borrow_mut();
        state.silent_intervals = if outstanding && !excused {
            state.silent_intervals + 1
        } else {
            0
        };
        state.silent_intervals
    }

    /// Fails the transfer after a protocol error of the initiator; further data is discarded.
    pub fn fail(&self, failure: Failure) {
        let mut state = self.state.borrow_mut();
        state.failure.get_or_insert(failure);
        state.discard();
        state.wake();
    }

    /// Fails the transfer because the nexus was lost.
    pub fn lose_nexus(&self) {
        let mut state = self.state.borrow_mut();
        state.nexus_lost = true;
        state.discard();
        state.wake();
    }

    /// Ends the transfer with the command; further data is discarded.
    pub fn close(&self) {
        let mut state = self.state.borrow_mut();
        state.closed = true;
        state.discard();
    }

    /// Processes a Data-Out header with `length` bytes. Returns true for the last PDU of its sequence.
    ///
    /// An unexpected header fails the transfer. In both cases call [`Self::begin_segment`] next.
    pub fn accept(&self, header: &pdu::DataOut, length: u32) -> bool {
        let mut state = self.state.borrow_mut();
        state.silent_intervals = 0;
        let failure = if header.target_transfer_tag == pdu::RESERVED_TAG {
            state.accept_unsolicited(header, length)
        } else {
            state.accept_solicited(header, length)
        };
        if let Some(failure) = failure {
            state.failure.get_or_insert(failure);
            state.discard();
            state.wake();
        }
        header.r#final
    }

    /// Begins a data segment of `length` bytes.
    pub fn begin_segment(&self, length: usize) {
        let mut state = self.state.borrow_mut();
        let space = match &state.requested {
            Some(requested) if state.landing.is_empty() => {
                requested.buffer.len() - requested.filled
            }
            _ => 0,
        };
        let discarded = state.closed || state.failure.is_some() || state.nexus_lost;
        state.segment = if discarded {
            Segment::Discarded
        } else if length <= space {
            Segment::Direct { left: length }
        } else {
            let most = state.unsolicited_most.saturating_sub(state.arrived) as usize;
            if state.landing.begin(length, most) {
                state.landing.count(&self.requests.memory);
                Segment::Landing { left: length }
            } else {
                state.failure = Some(Failure::IncorrectAmountOfData);
                state.discard();
                state.wake();
                Segment::Discarded
            }
        };
    }

    /// Calls `fill` with the memory for the rest of the segment, or `None` to discard it. `fill` returns the number of bytes.
    pub fn fill_segment<T>(&self, fill: impl FnOnce(Option<&mut [u8]>) -> (usize, T)) -> T {
        let state = &mut *self.state.borrow_mut();
        let memory = match (&mut state.segment, &mut state.requested) {
            (Segment::Direct { left }, Some(requested)) => {
                Some(&mut requested.buffer[requested.filled..requested.filled + *left])
            }
            (Segment::Landing { left }, _) => state.landing.memory(*left),
            _ => None,
        };
        let (count, result) = fill(memory);
        if count > 0 {
            state.silent_intervals = 0;
        }
        match (&mut state.segment, &mut state.requested) {
            (Segment::Direct { left }, Some(requested)) => {
                *left -= count;
                requested.filled += count;
            }
            (Segment::Landing { left }, _) => {
                *left -= count;
                state.landing.fill(count);
            }
            _ => {}
        }
        result
    }

    /// Ends a data segment with the correct digest. `last`: its sequence ends too.
    pub fn end_segment(&self, length: u32, unsolicited: bool, last: bool) {
        let state = &mut *self.state.borrow_mut();
        state.arrived = state.arrived.saturating_add(length);
        if let Segment::Landing { .. } = std::mem::replace(&mut state.segment, Segment::None) {
            state.landing.end();
            state.hand_over_landed();
        }
        if last {
            if unsolicited {
                state.unsolicited_until = None;
            } else {
                state.bursts.pop_front();
            }
        }
        if state
            .requested
            .as_ref()
            .is_some_and(|requested| requested.filled == requested.buffer.len())
        {
            state.wake();
        } else if last && state.requested.is_some() {
            self.requests.push(self.tag);
        }
    }

    /// The next R2T to send, if the command waits for bytes that were not requested yet.
    pub fn solicit(&self, max_burst: u32, max_outstanding: u16) -> Option<Solicitation> {
        let mut state = self.state.borrow_mut();
        let requested = state.requested.as_ref()?.buffer.len() as u32;
        let until = state.handed + requested;
        let offset = state.solicited.max(state.arrived);
        let blocked = state.unsolicited_until.is_some()
            || state.failure.is_some()
            || state.bursts.len() >= usize::from(max_outstanding);
        if blocked || offset >= until {
            return None;
        }
        let length = max_burst.min(until - offset);
        let r2t_sn = state.r2t_sn;
        state.r2t_sn += 1;
        state.solicited = offset + length;
        Some(Solicitation {
            r2t_sn,
            offset,
            length,
        })
    }

    /// Records that the R2T was sent, with its tag.
    pub fn solicited(&self, solicitation: Solicitation, target_transfer_tag: u32) {
        let mut state = self.state.borrow_mut();
        state.silent_intervals = 0;
        state.bursts.push_back(Burst {
            target_transfer_tag,
            offset: solicitation.offset,
            length: solicitation.length,
            received: 0,
            data_sn: 0,
        });
    }
}

impl State {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Frees all memory, and discards the current segment.
    fn discard(&mut self) {
        self.landing.clear();
        self.requested = None;
        if !matches!(self.segment, Segment::None) {
            self.segment = Segment::Discarded;
        }
    }

    fn accept_unsolicited(&mut self, header: &pdu::DataOut, length: u32) -> Option<Failure> {
        let Some(until) = self.unsolicited_until else {
            return Some(Failure::UnexpectedUnsolicitedData);
        };
        if header.data_sn != self.unsolicited_data_sn {
            return Some(Failure::ProtocolServiceCrcError);
        }
        self.unsolicited_data_sn = self.unsolicited_data_sn.wrapping_add(1);
        let left = until.saturating_sub(self.arrived);
        // 11.4.7.2: if the command has more data than FirstBurstLength, unsolicited PDUs must reach exactly that length.
        let too_short = header.r#final && until < self.expected && length < left;
        let fits = header.buffer_offset == self.arrived && length <= left && !too_short;
        (!fits).then_some(Failure::IncorrectAmountOfData)
    }

    fn accept_solicited(&mut self, header: &pdu::DataOut, length: u32) -> Option<Failure> {
        let Some(burst) = self.bursts.front_mut() else {
            return Some(Failure::IncorrectAmountOfData);
        };
        if burst.target_transfer_tag != header.target_transfer_tag {
            // Sequences must arrive in the order of their R2Ts.
            return Some(Failure::IncorrectAmountOfData);
        }
        if header.data_sn != burst.data_sn {
            return Some(Failure::ProtocolServiceCrcError);
        }
        burst.data_sn = burst.data_sn.wrapping_add(1);
        if header.buffer_offset != burst.offset + burst.received
            || length > burst.length - burst.received
        {
            return Some(Failure::IncorrectAmountOfData);
        }
        burst.received += length;
        (header.r#final && burst.received < burst.length).then_some(Failure::IncorrectAmountOfData)
    }

    /// Moves buffered data into the command's memory.
    fn hand_over_landed(&mut self) {
        if let Some(requested) = &mut self.requested {
            let space = &mut requested.buffer[requested.filled..];
            requested.filled += self.landing.take_into(space);
        }
    }

    /// The command requests the next `length` bytes: sets `requested`.
    fn want(&mut self, length: u32) {
        let length = length.min(self.expected - self.handed) as usize;
        if let Some(buffer) = self.landing.take_whole(length) {
            self.requested = Some(Requested {
                filled: buffer.len(),
                buffer,
            });
            return;
        }
        self.requested = Some(Requested {
            buffer: Buffer::new(length),
            filled: 0,
        });
        self.hand_over_landed();
    }
}
