// SPDX-License-Identifier: Apache-2.0
//! The service interface of the SCSI architecture model (SAM-5, clauses 5 and 7), for transports.
//!
//! [`ScsiTarget`] is the first of the target's two traits. A transport knows nothing else of this crate, and this crate does not
//! know its transport.

use std::sync::Arc;

pub use volume::{Buffer, LocalBoxFuture};

pub use crate::access::LogicalUnitAccess;

/// An `I_T` nexus: a pair of initiator port and target port (SAM-5 4.6).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Nexus {
    /// Unique among the present nexuses of this process.
    pub id: u64,
    /// SCSI initiator port name. For iSCSI: name, ",i,0x" and the ISID (RFC 7143 4.4.2).
    pub initiator_port: String,
    /// SCSI initiator device name. For iSCSI: the initiator's iSCSI name.
    pub initiator_device: String,
    /// Relative target port identifier of the initiator's port (SPC-5 7.7.6.8); 1 to 65535.
    pub relative_target_port: u16,
}

/// Task attribute (SAM-5 8.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskAttribute {
    /// SIMPLE
    Simple,
    /// ORDERED
    Ordered,
    /// HEAD OF QUEUE
    HeadOfQueue,
    /// ACA
    AutoContingentAllegiance,
}

/// A logical unit number, encoded: eight bytes (SAM-5 4.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LogicalUnitNumber(pub [u8; 8]);

/// One SCSI command: the input arguments of the Execute Command procedure call (SAM-5 5.1).
#[derive(Clone, Debug)]
pub struct Command {
    /// Addressed logical unit.
    pub logical_unit: LogicalUnitNumber,
    /// Command identifier, unique in the nexus during the life of the task (iSCSI: Initiator Task Tag).
    pub identifier: u64,
    /// Command descriptor block; at least 6 bytes, at most 260.
    pub cdb: Vec<u8>,
    /// Task attribute.
    pub attribute: TaskAttribute,
    /// Data-In Buffer Size: bytes that the initiator accepts (SAM-5 5.4.3). No more than this is ever sent, so a command can omit
    /// the rest.
    pub data_in_buffer_size: u32,
}

/// Status (SAM-5 5.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// GOOD
    Good = 0x00,
    /// CHECK CONDITION
    CheckCondition = 0x02,
    /// BUSY
    Busy = 0x08,
    /// RESERVATION CONFLICT
    ReservationConflict = 0x18,
    /// TASK SET FULL
    TaskSetFull = 0x28,
    /// TASK ABORTED
    TaskAborted = 0x40,
}

/// Result of a command that ran to its end.
#[derive(Debug)]
pub struct Completion {
    /// Status.
    pub status: Status,
    /// Sense data in the logical unit's format; empty unless CHECK CONDITION.
    pub sense: Vec<u8>,
    /// Data-In, at least as much as the initiator accepts; the transport sends no more than that.
    pub data_in: Option<Buffer>,
    /// Bytes of Data-In that the CDB requests, for the transport's residual count; 0 if none.
    pub data_in_required: u64,
    /// Bytes of Data-Out that the CDB requests, for the transport's residual count; 0 if none.
    pub data_out_required: u64,
}

impl Completion {
    /// A status without data and sense data.
    pub(crate) fn with_status(status: Status) -> Self {
        Self {
            status,
            sense: Vec::new(),
            data_in: None,
            data_in_required: 0,
            data_out_required: 0,
        }
    }
}

/// How a task ended.
#[derive(Debug)]
pub enum Outcome {
    /// With a status for the initiator.
    Completed(Completion),
    /// Aborted by a task management function of the same nexus, or with the nexus: nothing is reported. A task aborted by another
    /// nexus completes with [`Status::TaskAborted`] (SPC-5, TAS = 1).
    Aborted,
}

/// The initiator's data buffer of one command (SAM-5 5.4.3: Receive Data-Out).
pub trait DataOut {
    /// The next `length` bytes of the Data-Out buffer; fewer if the initiator announced fewer.
    ///
    /// The length of the buffer is the number of received bytes. The call allocates memory, so call it only when the data is
    /// needed.
    ///
    /// # Errors
    /// [`DeliveryError`] if the nexus was lost or the transfer failed. Then the command ends as [`Outcome::Aborted`], or with
    /// CHECK CONDITION if the transport requires it.
    fn receive(&mut self, length: u32) -> LocalBoxFuture<'_, Result<Buffer, DeliveryError>>;

    /// Like [`DataOut::receive`] while the last received bytes are still in use; `None` if memory for both is not available.
    /// Earlier bytes must no longer be in use.
    fn receive_ahead(
        &mut self,
        length: u32,
    ) -> Option<LocalBoxFuture<'_, Result<Buffer, DeliveryError>>> {
        let _ = length;
        None
    }

    /// Memory for `length` bytes to read from the medium, with unspecified content.
    ///
    /// The transport limits the memory of an initiator: this can wait for long data. Call it when the task is enabled, for one
    /// buffer at a time, and not while the command holds received long data: it could wait for itself.
    fn allocate(&mut self, length: u32) -> LocalBoxFuture<'_, Buffer> {
        Box::pin(std::future::ready(Buffer::new(length as usize)))
    }
}

/// Data-Out did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeliveryError {
    /// The connection or session was lost.
    #[error("the nexus was lost")]
    NexusLost,
    /// The initiator violated the protocol in this transfer (SPC-5: ABORTED COMMAND, 4Bh/00h).
    #[error("the transfer failed")]
    TransferFailed,
}

/// Task management functions (SAM-5 7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskManagementFunction {
    /// ABORT TASK: one task of this nexus, by its identifier.
    AbortTask {
        /// Logical unit of the task.
        logical_unit: LogicalUnitNumber,
        /// [`Command::identifier`] of the task.
        identifier: u64,
    },
    /// ABORT TASK SET: all tasks of this nexus in the logical unit.
    AbortTaskSet(LogicalUnitNumber),
    /// CLEAR TASK SET: all tasks of the task set. As each nexus has a task set (SPC-5, TST = 001b), only tasks of this nexus.
    ClearTaskSet(LogicalUnitNumber),
    /// CLEAR ACA
    ClearAca(LogicalUnitNumber),
    /// LOGICAL UNIT RESET
    LogicalUnitReset(LogicalUnitNumber),
    /// Reset of every logical unit that the nexus may use (RFC 7143 11.5.1: TARGET WARM RESET).
    TargetReset,
}

/// Service response of a task management function (SAM-5 7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionResponse {
    /// FUNCTION COMPLETE. The affected tasks have ended.
    Complete,
    /// FUNCTION SUCCEEDED / no such task: ABORT TASK of a task that does not exist.
    TaskDoesNotExist,
    /// FUNCTION REJECTED because it is not supported.
    NotSupported,
    /// INCORRECT LOGICAL UNIT NUMBER
    IncorrectLogicalUnit,
}

/// A SCSI target device, as seen through one target port.
///
/// Futures belong to the reactor thread that polls them. Every method may be called from several threads at once.
pub trait ScsiTarget: Send + Sync {
    /// A nexus was created: it can send commands from now on, and unit attentions are queued for it. Called on the thread that
    /// runs the commands of the nexus.
    fn nexus_established(&self, nexus: &Arc<Nexus>);

    /// A nexus has ended (SAM-5 6.3.4 `I_T` nexus loss): its tasks are aborted, its queues are dropped.
    fn nexus_lost(&self, nexus: &Arc<Nexus>);

    /// Runs one command. Tasks of a nexus may be executed concurrently; the caller has put them in order.
    ///
    /// The task enters the task set during this call, not at the first poll, so that later task management functions find it.
    ///
    /// Poll the future to its end, even after the loss of the nexus: it is aborted and ends soon. Dropping it removes the task
    /// from the task set, although an operation of the volume may still run.
    fn execute_command(
        self: Arc<Self>,
        nexus: Arc<Nexus>,
        command: Command,
        data_out: Box<dyn DataOut>,
    ) -> LocalBoxFuture<'static, Outcome>;

    /// Runs a task management function; ready when every affected task has ended. If the future is dropped before, the logical
    /// units are fenced until the tasks have ended: commands of the nexus' initiator device, or after a reset of all, end
    /// with BUSY.
    fn manage_tasks(
        self: Arc<Self>,
        nexus: Arc<Nexus>,
        function: TaskManagementFunction,
    ) -> LocalBoxFuture<'static, FunctionResponse>;
}
