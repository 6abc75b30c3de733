// SPDX-License-Identifier: Apache-2.0
//! R2Ts: requests short transfers at once, and long ones in turns, so that other data of a host does not wait behind them.

use std::collections::{HashMap, VecDeque};

use super::connection::Connection;

/// Longest transfer that is requested at once, bytes.
const SHORT: u32 = 64 << 10;
/// Limit of requested bytes of long transfers. It is at least the data that a fast link carries during the round trip of an R2T,
/// and at most what may delay a short command.
const SOLICITED_MOST: usize = 2 << 20;

/// Data that was requested and has not arrived.
#[derive(Default)]
pub(super) struct Solicited {
    /// By Target Transfer Tag.
    bursts: HashMap<u32, Burst>,
    /// Long transfers that need data, by Initiator Task Tag, in the order of turns.
    waiting: VecDeque<u32>,
    /// Sum of the bursts of long transfers, bytes.
    long_bytes: usize,
}

struct Burst {
    /// Initiator Task Tag.
    task: u32,
    /// Bytes that count against [`SOLICITED_MOST`].
    counted: usize,
}

impl Solicited {
    /// Initiator Task Tag of an R2T that was sent.
    pub fn task_of(&self, target_transfer_tag: u32) -> Option<u32> {
        self.bursts
            .get(&target_transfer_tag)
            .map(|burst| burst.task)
    }

    /// Ends an R2T whose sequence has arrived.
    pub fn forget(&mut self, target_transfer_tag: u32) {
        if let Some(burst) = self.bursts.remove(&target_transfer_tag) {
            self.long_bytes -= burst.counted;
        }
    }

    /// Ends the R2Ts of a task that has ended.
    pub fn forget_task(&mut self, tag: u32) {
        let long_bytes = &mut self.long_bytes;
        self.bursts.retain(|_, burst| {
            let other = burst.task != tag;
            if !other {
                *long_bytes -= burst.counted;
            }
            other
        });
    }
}

impl Connection {
    /// Sends the R2Ts that commands wait for, within the limit.
    pub(super) fn send_requests(&mut self) {
        while let Some(tag) = self.requests.pop() {
            let transfer = self.tasks.get(&tag).and_then(|task| task.transfer.as_ref());
            match transfer.map(|transfer| transfer.expected() > SHORT) {
                Some(true) => self.solicited.waiting.push_back(tag),
                Some(false) => while self.send_request(tag, false) {},
                None => {}
            }
        }
        while self.solicited.long_bytes < SOLICITED_MOST {
            let Some(tag) = self.solicited.waiting.pop_front() else {
                break;
            };
            if self.send_request(tag, true) {
                self.solicited.waiting.push_back(tag);
            }
        }
    }

    /// Sends one R2T, if the command waits for data that was not requested yet.
    fn send_request(&mut self, tag: u32, long: bool) -> bool {
        let Some(transfer) = self.tasks.get(&tag).and_then(|task| task.transfer.clone()) else {
            return false;
        };
        let max_burst = self.parameters.max_burst_length;
        let max_outstanding = self.parameters.max_outstanding_r2t;
        let Some(solicitation) = transfer.solicit(max_burst, max_outstanding) else {
            return false;
        };
        let target_transfer_tag = self.new_transfer_tag();
        transfer.solicited(solicitation, target_transfer_tag);
        let counted = if long {
            solicitation.length as usize
        } else {
            0
        };
        self.solicited.long_bytes += counted;
        let burst = Burst { task: tag, counted };
        self.solicited.bursts.insert(target_transfer_tag, burst);
        self.push_ready_to_transfer(tag, target_transfer_tag, solicitation);
        true
    }
}
