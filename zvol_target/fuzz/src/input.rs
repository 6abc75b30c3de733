// SPDX-License-Identifier: Apache-2.0
//! Reads an input from its front. Missing bytes at its end are zero.

/// The rest of an input.
pub(crate) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next bytes, at most `length`.
    pub(crate) fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken
    }

    pub(crate) fn array<const LENGTH: usize>(&mut self) -> [u8; LENGTH] {
        let mut array = [0; LENGTH];
        let taken = self.take(LENGTH);
        array[..taken.len()].copy_from_slice(taken);
        array
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    pub(crate) fn half(&mut self) -> u16 {
        u16::from_be_bytes(self.array())
    }

    pub(crate) fn word(&mut self) -> u32 {
        u32::from_be_bytes(self.array())
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        self.take(usize::MAX)
    }
}
