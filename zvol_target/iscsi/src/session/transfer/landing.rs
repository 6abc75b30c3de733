// SPDX-License-Identifier: Apache-2.0
//! Unsolicited data that arrived before its command requested it.

use std::rc::Rc;

use scsi::sam::Buffer;

use crate::session::memory::{Memory, Share};

/// One buffer for all unsolicited data of a command. Its size follows from the negotiated limit, not from the number of PDUs.
#[derive(Default)]
pub(super) struct Landing {
    buffer: Option<Buffer>,
    /// Memory account of the buffer.
    charge: Option<Share>,
    /// Bytes passed to the command.
    taken: usize,
    /// Bytes in complete segments.
    whole: usize,
    /// Bytes in the buffer.
    filled: usize,
    /// Bytes of the current segment that are still to arrive.
    coming: usize,
}

impl Landing {
    /// Whether no data is available.
    pub fn is_empty(&self) -> bool {
        self.taken == self.whole
    }

    /// Begins a segment of `length` bytes; `most` bytes may still arrive. False if it does not fit.
    pub fn begin(&mut self, length: usize, most: usize) -> bool {
        let buffer = self.buffer.get_or_insert_with(|| Buffer::new(most));
        let fits = length <= buffer.len() - self.filled;
        self.coming = if fits { length } else { 0 };
        fits
    }

    /// Charges the memory to the account, once.
    pub fn count(&mut self, memory: &Rc<Memory>) {
        if let (Some(buffer), None) = (&self.buffer, &self.charge) {
            self.charge = Some(memory.charge(buffer.len()));
        }
    }

    /// Memory for the last `left` bytes of the segment.
    pub fn memory(&mut self, left: usize) -> Option<&mut [u8]> {
        let buffer = self.buffer.as_mut()?;
        buffer.get_mut(self.filled..self.filled + left)
    }

    pub fn fill(&mut self, count: usize) {
        self.filled += count;
        self.coming -= count;
    }

    /// Ends a segment that is complete, with the correct digest.
    pub fn end(&mut self) {
        self.whole = self.filled;
    }

    /// Moves available data to `destination`. Returns the number of bytes.
    pub fn take_into(&mut self, destination: &mut [u8]) -> usize {
        let Some(source) = self
            .buffer
            .as_ref()
            .and_then(|buffer| buffer.get(self.taken..self.whole))
        else {
            return 0;
        };
        let count = source.len().min(destination.len());
        destination[..count].copy_from_slice(&source[..count]);
        self.taken += count;
        if self.taken == self.filled && self.coming == 0 {
            self.clear();
        }
        count
    }

    /// The buffer itself, if it holds exactly the `length` requested bytes.
    pub fn take_whole(&mut self, length: usize) -> Option<Buffer> {
        if self.taken > 0 || self.whole != length || self.filled != length || self.coming > 0 {
            return None;
        }
        let mut buffer = self.buffer.take()?;
        buffer.truncate(length);
        self.clear();
        Some(buffer)
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn data_is_received_in_order(
            segments in prop::collection::vec(1usize..50, 1..20),
            takes in prop::collection::vec(1usize..70, 0..20),
        ) {
            let most: usize = segments.iter().sum();
            let mut landing = Landing::default();
            let (mut came, mut taken) = (0, Vec::new());
            let mut takes = takes.into_iter();
            for length in segments {
                prop_assert!(!landing.begin(most - came + 1, most - came));
                prop_assert!(landing.begin(length, most - came));
                // In two parts, with a check in between: an incomplete segment is not available.
                for part in [length / 2, length - length / 2] {
                    for (at, byte) in landing.memory(part).unwrap().iter_mut().enumerate() {
                        *byte = (came + at) as u8;
                    }
                    landing.fill(part);
                    came += part;
                    if let Some(count) = takes.next() {
                        let mut destination = vec![0; count];
                        let count = landing.take_into(&mut destination);
                        taken.extend_from_slice(&destination[..count]);
                    }
                }
                landing.end();
                if let Some(buffer) = landing.take_whole(length) {
                    taken.extend_from_slice(&buffer);
                }
            }
            let mut rest = vec![0; most];
            let count = landing.take_into(&mut rest);
            taken.extend_from_slice(&rest[..count]);
            let expected: Vec<u8> = (0..most).map(|at| at as u8).collect();
            prop_assert_eq!(taken, expected);
            prop_assert!(landing.is_empty());
        }
    }
}
