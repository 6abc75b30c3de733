// SPDX-License-Identifier: Apache-2.0
//! The SCSI architecture model's service interface (SAM-5, clauses 5 and 7), as a transport sees it.
//!
//! [`ScsiTarget`] is the first of the target's two narrow traits. A transport knows nothing else of this crate, and
//! nothing here knows which transport calls.

use std::sync::Arc;

pub use volume::{Buffer, LocalBoxFuture};

pub use crate::access::LogicalUnitAccess;

/// An `I_T` nexus: one initiator port and one target port that know each other (SAM-5 4.6).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Nexus {
    /// Unique among the nexuses alive in this process.
    pub id: u64,
    /// SCSI initiator port name. For iSCSI: name, ",i,0x" and the ISID (RFC 7143 4.4.2).
    pub initiator_port: String,
    /// SCSI initiator device name. For iSCSI: the initiator's iSCSI name.
    pub initiator_device: String,
    /// Relative target port identifier of the port the initiator came in by (SPC-5 7.7.6.8); 1 to 65535.
    pub relative_target_port: u16,
    /// What the initiator proved of itself; `None` if nothing.
    pub proof: Option<AccountProof>,
}

/// That an initiator has shown to know the secret of an account: the same for the same account with the same secret, whichever
/// target requested it, and of no use to find the secret.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct AccountProof(pub [u8; 32]);

impl std::fmt::Debug for AccountProof {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("AccountProof(..)")
    }
}

/// An account that a target takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedAccount {
    /// What its holders prove.
    pub proof: AccountProof,
    /// The initiator devices that may use it; any if `None`.
    pub initiator_devices: Option<Vec<String>>,
}

/// Who may have a nexus with a target: what its logical units ask of the nexuses of other targets, whose third-party copies name
/// them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// Initiator devices that may come.
    pub initiators: LogicalUnitAccess,
    /// Accounts of which one has to be proven; `None` when nothing has to.
    pub accounts: Option<Vec<AcceptedAccount>>,
}

impl Admission {
    /// Whether an initiator that has proven as much as the nexus's may come.
    pub fn admits(&self, nexus: &Nexus) -> bool {
        let name = &nexus.initiator_device;
        self.initiators.permits(name)
            && self.accounts.as_ref().is_none_or(|accounts| {
                accounts.iter().any(|account| {
                    nexus.proof == Some(account.proof)
                        && account
                            .initiator_devices
                            .as_ref()
                            .is_none_or(|devices| devices.contains(name))
                })
            })
    }
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

/// A logical unit number as it travels: eight bytes (SAM-5 4.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LogicalUnitNumber(pub [u8; 8]);

/// One SCSI command: the input arguments of the Execute Command procedure call (SAM-5 5.1).
#[derive(Clone, Debug)]
pub struct Command {
    /// Addressed logical unit.
    pub logical_unit: LogicalUnitNumber,
    /// Command identifier, unique in the nexus while the task lives (iSCSI: Initiator Task Tag).
    pub identifier: u64,
    /// Command descriptor block; at least 6 bytes, at most 260.
    pub cdb: Vec<u8>,
    /// Task attribute.
    pub attribute: TaskAttribute,
    /// Data-In Buffer Size: bytes the initiator takes (SAM-5 5.4.3). A command that sends more may leave out what is beyond;
    /// no more than this is ever sent.
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
    /// CONDITION MET
    ConditionMet = 0x04,
    /// BUSY
    Busy = 0x08,
    /// RESERVATION CONFLICT
    ReservationConflict = 0x18,
    /// TASK SET FULL
    TaskSetFull = 0x28,
    /// ACA ACTIVE
    AcaActive = 0x30,
    /// TASK ABORTED
    TaskAborted = 0x40,
}

/// What a command that ran to its end gives back.
#[derive(Debug)]
pub struct Completion {
    /// Status.
    pub status: Status,
    /// Sense data in the format the logical unit reports; empty unless CHECK CONDITION.
    pub sense: Vec<u8>,
    /// Data-In, at least as far as the initiator takes it; the transport sends no more of it than that.
    pub data_in: Option<Buffer>,
    /// Bytes of Data-In the command sends by its CDB, for the transport's residual count; 0 if it sends none.
    pub data_in_required: u64,
    /// Bytes of Data-Out the command asks for by its CDB, for the transport's residual count; 0 if it takes none.
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
    /// With a status, to be reported.
    Completed(Completion),
    /// Aborted by a task management function of its own nexus, or with that: nothing is reported. A task that another nexus
    /// aborted is completed with [`Status::TaskAborted`] (SPC-5, TAS = 1).
    Aborted,
}

/// The initiator's data buffer of one command (SAM-5 5.4.3: Receive Data-Out).
pub trait DataOut {
    /// The next `length` bytes of the Data-Out buffer; fewer when the initiator announced fewer in all.
    ///
    /// The buffer's length is what arrived. Memory is taken when called, so a command asks no earlier than it can use it.
    ///
    /// # Errors
    /// [`DeliveryError`] when the nexus is gone or the transport gave up the transfer; the command then ends as
    /// [`Outcome::Aborted`], or with CHECK CONDITION where the transport says so.
    fn receive(&mut self, length: u32) -> LocalBoxFuture<'_, Result<Buffer, DeliveryError>>;

    /// [`DataOut::receive`] while the bytes received before are still in use; `None` when there is no memory for both now. Those before
    /// them are done with.
    fn receive_ahead(
        &mut self,
        length: u32,
    ) -> Option<LocalBoxFuture<'_, Result<Buffer, DeliveryError>>> {
        let _ = length;
        None
    }

    /// Memory for `length` bytes that the command is about to read from its medium, with unspecified content.
    ///
    /// The transport bounds what an initiator makes the target hold: long data may have to wait. Call it when the task is
    /// enabled, for one buffer at a time, and not while it holds long data it received: it could wait for itself.
    fn allocate(&mut self, length: u32) -> LocalBoxFuture<'_, Buffer> {
        Box::pin(std::future::ready(Buffer::new(length as usize)))
    }
}

/// Data-Out did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeliveryError {
    /// The connection or session is gone.
    #[error("the nexus was lost")]
    NexusLost,
    /// The initiator broke the protocol in this transfer (SPC-5: ABORTED COMMAND, 4Bh/00h).
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
    /// CLEAR TASK SET: all tasks of the task set. With a task set for each nexus (SPC-5, TST = 001b) those of this nexus.
    ClearTaskSet(LogicalUnitNumber),
    /// CLEAR ACA
    ClearAca(LogicalUnitNumber),
    /// LOGICAL UNIT RESET
    LogicalUnitReset(LogicalUnitNumber),
    /// Reset of every logical unit that the nexus sees (RFC 7143 11.5.1: TARGET WARM RESET).
    TargetReset,
}

/// Service response of a task management function (SAM-5 7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FunctionResponse {
    /// FUNCTION COMPLETE. The tasks it names have ended.
    Complete,
    /// FUNCTION SUCCEEDED / no such task: for ABORT TASK of a task that is not there.
    TaskDoesNotExist,
    /// FUNCTION REJECTED
    Rejected,
    /// FUNCTION REJECTED because it is not supported here.
    NotSupported,
    /// INCORRECT LOGICAL UNIT NUMBER
    IncorrectLogicalUnit,
}

/// A SCSI target device, as one target port offers it.
///
/// Futures stay on the reactor thread that polls them. Every method may be called from several threads at once.
pub trait ScsiTarget: Send + Sync {
    /// Says who may have a nexus from now on. Until this is called, no nexus of another target reaches the logical units of this one.
    fn set_admission(&self, admission: Admission) {
        let _ = admission;
    }

    /// A nexus came into being: from now on its commands may come, and unit attentions are kept for it.
    fn nexus_established(&self, nexus: &Arc<Nexus>);

    /// A nexus ended (SAM-5 6.3.4 `I_T` nexus loss): its tasks are aborted, what was kept for it is dropped.
    fn nexus_lost(&self, nexus: &Arc<Nexus>);

    /// Runs one command. Tasks of a nexus may be executed concurrently; the caller has put them in order.
    ///
    /// The task enters the task set when this is called, not when the future is first polled, so that a task management
    /// function called later sees it.
    ///
    /// Poll the future to its end, also when the nexus is gone: aborted, it ends as soon as it can. Dropping it takes the task
    /// out of the task set although an operation of the volume may still run.
    fn execute_command(
        self: Arc<Self>,
        nexus: Arc<Nexus>,
        command: Command,
        data_out: Box<dyn DataOut>,
    ) -> LocalBoxFuture<'static, Outcome>;

    /// Runs a task management function; ready when every task it names has ended. If the future is dropped before that, the logical units
    /// are fenced off from the nexus' initiator port, after a reset from all, until the tasks have ended: commands end with BUSY.
    fn manage_tasks(
        self: Arc<Self>,
        nexus: Arc<Nexus>,
        function: TaskManagementFunction,
    ) -> LocalBoxFuture<'static, FunctionResponse>;
}
