// SPDX-License-Identifier: Apache-2.0
//! The command's side of a transfer.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use scsi::sam::{Buffer, DataOut, DeliveryError, LocalBoxFuture, LogicalUnitNumber};

use super::{Segment, Transfer};
use crate::session::memory::{Memory, SHORT, Share};

/// The Data-Out transfer of a command, if it has one, and its memory.
pub(crate) struct CommandBuffers {
    transfer: Option<Rc<Transfer>>,
    memory: Rc<Memory>,
    unit: LogicalUnitNumber,
    /// Memory of the bytes that were received last.
    received: Option<Share>,
    /// Memory of the bytes before, which can still be in use.
    before: Option<Share>,
    /// Memory of the bytes to read.
    allocated: Option<Share>,
}

impl CommandBuffers {
    pub fn new(
        transfer: Option<Rc<Transfer>>,
        memory: &Rc<Memory>,
        unit: LogicalUnitNumber,
    ) -> Self {
        Self {
            transfer,
            memory: Rc::clone(memory),
            unit,
            received: None,
            before: None,
            allocated: None,
        }
    }
}

impl DataOut for CommandBuffers {
    fn receive(&mut self, length: u32) -> LocalBoxFuture<'_, Result<Buffer, DeliveryError>> {
        let Self {
            transfer,
            memory,
            unit,
            received,
            before,
            ..
        } = self;
        *before = None;
        let Some(transfer) = transfer else {
            return Box::pin(std::future::ready(Ok(Buffer::new(0))));
        };
        let receive = Receive {
            transfer,
            length: Some(length),
        };
        // The bytes before these are no longer in use.
        *received = None;
        let bytes = transfer.left().min(length) as usize;
        if bytes <= SHORT {
            *received = Some(memory.charge(bytes));
            return Box::pin(receive);
        }
        Box::pin(async move {
            *received = Some(memory.take(*unit, bytes).await);
            receive.await
        })
    }

    fn receive_ahead(
        &mut self,
        length: u32,
    ) -> Option<LocalBoxFuture<'_, Result<Buffer, DeliveryError>>> {
        let transfer = self.transfer.as_ref()?;
        let bytes = transfer.left().min(length) as usize;
        self.before = self.received.take();
        self.received = Some(if bytes > SHORT {
            self.memory.try_take(self.unit, bytes)?
        } else {
            self.memory.charge(bytes)
        });
        Some(Box::pin(Receive {
            transfer,
            length: Some(length),
        }))
    }

    fn allocate(&mut self, length: u32) -> LocalBoxFuture<'_, Buffer> {
        self.allocated = None;
        let bytes = length as usize;
        if bytes <= SHORT {
            self.allocated = Some(self.memory.charge(bytes));
            return Box::pin(std::future::ready(Buffer::new(bytes)));
        }
        Box::pin(async move {
            self.allocated = Some(self.memory.take(self.unit, bytes).await);
            Buffer::new(bytes)
        })
    }
}

impl Drop for CommandBuffers {
    fn drop(&mut self) {
        if let Some(transfer) = &self.transfer {
            transfer.close();
        }
    }
}

/// Waits for bytes. If dropped early, it fails the transfer: no byte may be delivered at the wrong position.
struct Receive<'a> {
    transfer: &'a Transfer,
    /// Set until the first poll.
    length: Option<u32>,
}

impl Future for Receive<'_> {
    type Output = Result<Buffer, DeliveryError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let length = self.length.take();
        let state = &mut *self.transfer.state.borrow_mut();
        if state.nexus_lost {
            return Poll::Ready(Err(DeliveryError::NexusLost));
        }
        if state.closed || state.failure.is_some() {
            state.failure_delivered |= state.failure.is_some();
            return Poll::Ready(Err(DeliveryError::TransferFailed));
        }
        if let Some(length) = length {
            state.want(length);
        }
        // The digest of a segment that still fills the memory was not checked yet.
        let complete = !matches!(state.segment, Segment::Direct { .. });
        match state.requested.take() {
            Some(requested) if complete && requested.filled == requested.buffer.len() => {
                state.handed += requested.buffer.len() as u32;
                Poll::Ready(Ok(requested.buffer))
            }
            requested => {
                state.requested = requested;
                state.waker = Some(context.waker().clone());
                if length.is_some() {
                    self.transfer.requests.push(self.transfer.tag);
                }
                Poll::Pending
            }
        }
    }
}

impl Drop for Receive<'_> {
    fn drop(&mut self) {
        let state = &mut *self.transfer.state.borrow_mut();
        if self.length.is_none() && state.requested.is_some() {
            state.closed = true;
            state.discard();
        }
    }
}
