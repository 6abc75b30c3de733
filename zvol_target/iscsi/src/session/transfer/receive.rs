//! The side of a transfer that the command has.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use scsi::sam::{Buffer, DataOut, DeliveryError, LocalBoxFuture};

use super::{Segment, Transfer};

/// The command's end of a transfer.
pub(crate) struct TransferHandle(pub Rc<Transfer>);

impl DataOut for TransferHandle {
    fn receive(&mut self, length: u32) -> LocalBoxFuture<'_, Result<Buffer, DeliveryError>> {
        Box::pin(Receive {
            transfer: &self.0,
            length: Some(length),
        })
    }
}

impl Drop for TransferHandle {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Waits for bytes. Dropped before they came, it gives up the transfer: no byte is handed over out of place.
struct Receive<'a> {
    transfer: &'a Transfer,
    /// Until the first poll.
    length: Option<u32>,
}

impl Future for Receive<'_> {
    type Output = Result<Buffer, DeliveryError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let asked = self.length.take();
        let state = &mut *self.transfer.state.borrow_mut();
        if state.nexus_lost {
            return Poll::Ready(Err(DeliveryError::NexusLost));
        }
        if state.closed || state.failure.is_some() {
            state.failure_delivered |= state.failure.is_some();
            return Poll::Ready(Err(DeliveryError::TransferFailed));
        }
        if let Some(length) = asked {
            state.want(length);
        }
        // A segment that still fills the memory has not passed its digest.
        let settled = !matches!(state.segment, Segment::Direct { .. });
        match state.wanted.take() {
            Some(wanted) if settled && wanted.filled == wanted.buffer.len() => {
                state.handed += wanted.buffer.len() as u32;
                Poll::Ready(Ok(wanted.buffer))
            }
            wanted => {
                state.wanted = wanted;
                state.waker = Some(context.waker().clone());
                if asked.is_some() {
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
        if self.length.is_none() && state.wanted.is_some() {
            state.closed = true;
            state.discard();
        }
    }
}

/// Data-Out of a command that sends none.
pub(crate) struct NoDataOut;

impl DataOut for NoDataOut {
    fn receive(&mut self, _length: u32) -> LocalBoxFuture<'_, Result<Buffer, DeliveryError>> {
        Box::pin(std::future::ready(Ok(Buffer::new(0))))
    }
}
