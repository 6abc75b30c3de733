// SPDX-License-Identifier: Apache-2.0
//! One operation on a file: the request, its progress, and the meaning of a result of the kernel.

use std::io::{self, IoSlice, IoSliceMut};
use std::sync::Arc;

use rustix::io::{Errno, ReadWriteFlags, preadv2, pwritev2};

use super::admission::Admission;
use super::{Backing, Failed};
use crate::Buffer;

/// How often an operation is submitted again after EAGAIN.
const MOST_ATTEMPTS: u32 = 64;

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Fill the buffer.
    Read,
    /// Write the buffer.
    Write,
    /// Write the buffer, with `RWF_DSYNC`: done when on stable storage.
    WriteStable,
    /// Make what was written stable: fdatasync(2).
    Synchronize,
}

/// Next step after a result of the kernel.
#[derive(Debug)]
pub(crate) enum Progress {
    /// Partly done: submit the rest.
    Continue,
    /// The kernel would have blocked, or was interrupted: submit the same again.
    Repeat,
    /// All done, or failed.
    Finished(io::Result<()>),
}

/// An operation with its buffer and file, so that it can outlive its future.
#[derive(Debug)]
pub(crate) struct Operation {
    backing: Arc<Backing>,
    action: Action,
    in_memory: bool,
    offset: u64,
    buffer: Buffer,
    done: usize,
    attempts: u32,
    admission: Admission,
}

impl Operation {
    /// `offset` is in bytes. `in_memory`: the file's data never leaves memory, so that no call waits for a device.
    pub(crate) fn new(
        backing: Arc<Backing>,
        action: Action,
        offset: u64,
        buffer: Buffer,
        in_memory: bool,
    ) -> Self {
        Self {
            backing,
            action,
            in_memory,
            offset,
            buffer,
            done: 0,
            attempts: 0,
            admission: Admission::default(),
        }
    }

    /// Attaches the permit to run, which the operation holds to its end.
    pub(super) fn keep(&mut self, admission: Admission) {
        self.admission = admission;
    }

    pub(crate) fn backing(&self) -> &Arc<Backing> {
        &self.backing
    }

    pub(crate) fn action(&self) -> Action {
        self.action
    }

    /// Whether it cannot wait for a device. Then running it in place is cheaper than a hand-off to another thread.
    pub(crate) fn completes_in_memory(&self) -> bool {
        self.in_memory
    }

    /// Whether `io_uring` would run it only after all others like it. Its workers take the writes of one regular file one by one,
    /// and each stable one would wait for a separate commit. Threads share commits.
    pub(crate) fn is_serialized_by_uring(&self) -> bool {
        self.action == Action::WriteStable && self.backing.is_file()
    }

    /// Position in the file of the next byte to transfer.
    pub(crate) fn position(&self) -> u64 {
        self.offset + self.done as u64
    }

    /// The part of the buffer that is not transferred yet.
    pub(crate) fn rest(&mut self) -> &mut [u8] {
        self.buffer.get_mut(self.done..).unwrap_or_default()
    }

    pub(crate) fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// The result for the caller.
    pub(super) fn finish(self, result: io::Result<()>) -> Result<Buffer, Failed> {
        match result {
            Ok(()) => Ok(self.buffer),
            Err(error) => Err(Failed {
                error,
                buffer: Some(self.buffer),
            }),
        }
    }

    /// Processes a result of the kernel: bytes moved, or an error.
    pub(crate) fn advance(&mut self, result: io::Result<usize>) -> Progress {
        let moved = match result {
            Ok(moved) => moved,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Progress::Repeat,
            Err(error)
                if error.kind() == io::ErrorKind::WouldBlock && self.attempts < MOST_ATTEMPTS =>
            {
                self.attempts += 1;
                return Progress::Repeat;
            }
            Err(error) => return Progress::Finished(Err(error)),
        };
        if self.action == Action::Synchronize {
            return Progress::Finished(Ok(()));
        }
        self.done += moved;
        if self.done >= self.buffer.len() {
            return Progress::Finished(Ok(()));
        }
        if moved > 0 {
            return Progress::Continue;
        }
        Progress::Finished(Err(match self.action {
            Action::Read => io::ErrorKind::UnexpectedEof.into(),
            _ => io::ErrorKind::WriteZero.into(),
        }))
    }

    /// Runs the operation to its end in the calling thread.
    pub(crate) fn run_blocking(&mut self) -> io::Result<()> {
        loop {
            let result = self.call();
            match self.advance(result.map_err(io::Error::from)) {
                Progress::Finished(result) => return result,
                Progress::Continue | Progress::Repeat => {}
            }
        }
    }

    fn call(&mut self) -> Result<usize, Errno> {
        let backing = Arc::clone(&self.backing);
        let file = backing.file();
        let position = self.position();
        match self.action {
            Action::Read => preadv2(
                file,
                &mut [IoSliceMut::new(self.rest())],
                position,
                ReadWriteFlags::empty(),
            ),
            Action::Write => pwritev2(
                file,
                &[IoSlice::new(self.rest())],
                position,
                ReadWriteFlags::empty(),
            ),
            Action::WriteStable => pwritev2(
                file,
                &[IoSlice::new(self.rest())],
                position,
                ReadWriteFlags::DSYNC,
            ),
            Action::Synchronize => rustix::fs::fdatasync(file).map(|()| 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(action: Action, length: usize) -> Operation {
        let backing = Arc::new(Backing::new(tempfile::tempfile().unwrap(), None));
        Operation::new(backing, action, 4096, Buffer::zeroed(length), false)
    }

    #[test]
    fn a_short_result_continues_with_the_rest() {
        let mut read = operation(Action::Read, 8192);
        assert!(matches!(read.advance(Ok(512)), Progress::Continue));
        assert_eq!(read.position(), 4096 + 512);
        assert_eq!(read.rest().len(), 8192 - 512);
        assert!(matches!(
            read.advance(Ok(8192 - 512)),
            Progress::Finished(Ok(()))
        ));
    }

    #[test]
    fn an_interruption_repeats_the_same() {
        let mut write = operation(Action::Write, 512);
        let interrupted = Errno::INTR.into();
        assert!(matches!(write.advance(Err(interrupted)), Progress::Repeat));
        assert_eq!(write.rest().len(), 512);
    }

    #[test]
    fn a_file_that_ended_is_an_error() {
        let ended = operation(Action::Read, 512).run_blocking().unwrap_err();
        assert_eq!(ended.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn eagain_is_not_repeated_for_ever() {
        let mut write = operation(Action::Write, 512);
        let last = (0..=MOST_ATTEMPTS)
            .map(|_| write.advance(Err(Errno::AGAIN.into())))
            .last();
        assert!(matches!(last, Some(Progress::Finished(Err(_)))));
    }
}
