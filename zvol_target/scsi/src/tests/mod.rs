// SPDX-License-Identifier: Apache-2.0
//! Commands to a [`Device`], as a transport sends them, on a volume in memory.

mod arbitrary;
mod attributes;
mod capacity;
mod compare_and_write;
mod inquiry;
mod inventory;
mod log;
mod masking;
mod mode;
mod not_ready;
mod offloads;
mod or_write;
mod provisioning;
mod read_write;
mod report;
mod reservations;
mod small_commands;
mod statistics;
mod target_port_groups;
mod task_management;
mod third_party_copy;
mod threads;
mod tokens;
mod unit_attentions;
mod unmap;
mod verify;
mod volume;
mod write_atomic;
mod write_same;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

pub(crate) use self::volume::{Event, RamVolume};
use crate::address::logical_unit_number;
use crate::sam::{
    Buffer, Command, Completion, DataOut, DeliveryError, FunctionResponse, LocalBoxFuture,
    LogicalUnitNumber, Nexus, Outcome, ScsiTarget, Status, TaskAttribute, TaskManagementFunction,
};
use crate::{Device, LogicalUnit, LogicalUnitAccess, LogicalUnitOptions, ProductIdentification};

/// Blocks of the usual test volume, 512 bytes each.
pub(crate) const BLOCKS: u64 = 16384;

pub(crate) const UUID: [u8; 16] =
    *b"\x4f\x1c\x6d\x2e\x90\x3b\x4a\x57\x8c\x01\x22\x33\x44\x55\x66\x77";

pub(crate) fn product() -> ProductIdentification {
    ProductIdentification::new("ZVAAI", "zvol", "0.1").unwrap()
}

pub(crate) fn options() -> LogicalUnitOptions {
    LogicalUnitOptions {
        uuid: UUID,
        product: product(),
        read_only: false,
    }
}

pub(crate) fn nexus() -> Arc<Nexus> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    Arc::new(Nexus {
        id,
        initiator_port: format!("iqn.2024-01.org.example:host{id},i,0x00023d000001"),
        initiator_device: format!("iqn.2024-01.org.example:host{id}"),
        relative_target_port: 3,
    })
}

/// Data-Out that has arrived completely.
pub(crate) struct Sent {
    data: Vec<u8>,
    at: usize,
}

impl Sent {
    pub(crate) fn boxed(data: &[u8]) -> Box<dyn DataOut> {
        Box::new(Self {
            data: data.to_vec(),
            at: 0,
        })
    }
}

impl DataOut for Sent {
    fn receive(&mut self, length: u32) -> LocalBoxFuture<'_, Result<Buffer, DeliveryError>> {
        let end = self.data.len().min(self.at + length as usize);
        let part = Buffer::from(&self.data[self.at..end]);
        self.at = end;
        Box::pin(std::future::ready(Ok(part)))
    }
}

/// Data-Out that fails or never arrives.
pub(crate) enum Broken {
    Failing(DeliveryError),
    Missing,
}

impl DataOut for Broken {
    fn receive(&mut self, _length: u32) -> LocalBoxFuture<'_, Result<Buffer, DeliveryError>> {
        match self {
            Self::Failing(error) => Box::pin(std::future::ready(Err(*error))),
            Self::Missing => Box::pin(std::future::pending()),
        }
    }
}

/// Sense data in fixed format.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) key: u8,
    pub(crate) code: (u8, u8),
    pub(crate) information: Option<u32>,
    pub(crate) field: Option<[u8; 3]>,
}

/// An initiator: one nexus to a device.
pub(crate) struct Initiator {
    pub(crate) device: Arc<Device>,
    pub(crate) nexus: Arc<Nexus>,
    pub(crate) logical_unit: LogicalUnitNumber,
    /// Bytes that it accepts from each command.
    pub(crate) data_in_buffer_size: u32,
}

impl Initiator {
    /// A device with one logical unit, 0, on `volume`, and an initiator without pending unit attentions.
    pub(crate) fn new(volume: &Arc<RamVolume>, options: LogicalUnitOptions) -> Self {
        let device = Arc::new(Device::new(product()));
        let volume: Arc<dyn ::volume::Volume> = Arc::clone(volume) as _;
        device
            .insert_logical_unit(
                0,
                LogicalUnit::new(volume, options).unwrap(),
                LogicalUnitAccess::Any,
            )
            .unwrap();
        Self::of(device)
    }

    /// Another initiator of the device, without pending unit attentions of logical unit 0.
    pub(crate) fn of(device: Arc<Device>) -> Self {
        let initiator = Self::fresh(device);
        while initiator.run(&TEST_UNIT_READY).status != Status::Good {}
        initiator
    }

    /// Another initiator of the device that has sent nothing yet.
    pub(crate) fn fresh(device: Arc<Device>) -> Self {
        let nexus = nexus();
        device.nexus_established(&nexus);
        Self {
            device,
            nexus,
            logical_unit: logical_unit_number(0),
            data_in_buffer_size: u32::MAX,
        }
    }

    pub(crate) fn to(&self, logical_unit: LogicalUnitNumber) -> Self {
        Self {
            device: Arc::clone(&self.device),
            nexus: Arc::clone(&self.nexus),
            logical_unit,
            ..*self
        }
    }

    pub(crate) fn execute(
        &self,
        identifier: u64,
        attribute: TaskAttribute,
        cdb: &[u8],
        data_out: Box<dyn DataOut>,
    ) -> LocalBoxFuture<'static, Outcome> {
        let command = Command {
            logical_unit: self.logical_unit,
            identifier,
            cdb: cdb.to_vec(),
            attribute,
            data_in_buffer_size: self.data_in_buffer_size,
        };
        Arc::clone(&self.device).execute_command(Arc::clone(&self.nexus), command, data_out)
    }

    pub(crate) fn run_with(&self, cdb: &[u8], data_out: Box<dyn DataOut>) -> Completion {
        match block_on(self.execute(u64::MAX, TaskAttribute::Simple, cdb, data_out)) {
            Outcome::Completed(completion) => completion,
            Outcome::Aborted => panic!("aborted: {cdb:x?}"),
        }
    }

    pub(crate) fn run(&self, cdb: &[u8]) -> Completion {
        self.run_with(cdb, Sent::boxed(&[]))
    }

    /// Data-In of a command that must end with GOOD.
    pub(crate) fn data(&self, cdb: &[u8]) -> Vec<u8> {
        let completion = self.run(cdb);
        assert_eq!(
            completion.status,
            Status::Good,
            "{cdb:x?}: {:x?}",
            completion.sense
        );
        completion
            .data_in
            .map(|data| data.to_vec())
            .unwrap_or_default()
    }

    /// Sends data with a command that must end with GOOD.
    pub(crate) fn send(&self, cdb: &[u8], data: &[u8]) {
        let completion = self.run_with(cdb, Sent::boxed(data));
        assert_eq!(
            completion.status,
            Status::Good,
            "{cdb:x?}: {:x?}",
            completion.sense
        );
        assert_eq!(completion.data_out_required, data.len() as u64, "{cdb:x?}");
    }

    /// Sense data of a command that must end with CHECK CONDITION.
    pub(crate) fn sense(&self, cdb: &[u8]) -> Seen {
        seen(&self.run(cdb))
    }

    /// Like [`Initiator::sense`], but only key and code.
    pub(crate) fn code(&self, cdb: &[u8], data: &[u8]) -> (u8, u8, u8) {
        let Seen { key, code, .. } = seen(&self.run_with(cdb, Sent::boxed(data)));
        (key, code.0, code.1)
    }
}

pub(crate) fn seen(completion: &Completion) -> Seen {
    assert_eq!(completion.status, Status::CheckCondition);
    assert!(completion.data_in.is_none());
    let sense = &completion.sense;
    assert_eq!((sense.len(), sense[0] & 0x7f), (18, 0x70));
    Seen {
        key: sense[2] & 0x0f,
        code: (sense[12], sense[13]),
        information: (sense[0] & 0x80 != 0)
            .then(|| u32::from_be_bytes(sense[3..7].try_into().unwrap())),
        field: (sense[15] & 0x80 != 0).then(|| sense[15..18].try_into().unwrap()),
    }
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}

pub(crate) const TEST_UNIT_READY: [u8; 6] = [0; 6];
pub(crate) const NO_SENSE: (u8, u8, u8) = (0, 0, 0);
pub(crate) const INVALID_FIELD_IN_CDB: (u8, u8, u8) = (5, 0x24, 0);
pub(crate) const OUT_OF_RANGE: (u8, u8, u8) = (5, 0x21, 0);
pub(crate) const NOT_SUPPORTED: (u8, u8, u8) = (5, 0x25, 0);
pub(crate) const POWER_ON: (u8, u8, u8) = (6, 0x29, 0);
pub(crate) const LUNS_CHANGED: (u8, u8, u8) = (6, 0x3f, 0x0e);
pub(crate) const CAPACITY_CHANGED: (u8, u8, u8) = (6, 0x2a, 0x09);

pub(crate) fn read_10(address: u32, blocks: u16) -> [u8; 10] {
    block_10(0x28, 0, address, blocks)
}

pub(crate) fn write_10(address: u32, blocks: u16) -> [u8; 10] {
    block_10(0x2a, 0, address, blocks)
}

pub(crate) fn block_10(code: u8, flags: u8, address: u32, blocks: u16) -> [u8; 10] {
    let mut cdb = [0; 10];
    cdb[0] = code;
    cdb[1] = flags;
    cdb[2..6].copy_from_slice(&address.to_be_bytes());
    cdb[7..9].copy_from_slice(&blocks.to_be_bytes());
    cdb
}

pub(crate) fn block_12(code: u8, flags: u8, address: u32, blocks: u32) -> [u8; 12] {
    let mut cdb = [0; 12];
    cdb[0] = code;
    cdb[1] = flags;
    cdb[2..6].copy_from_slice(&address.to_be_bytes());
    cdb[6..10].copy_from_slice(&blocks.to_be_bytes());
    cdb
}

pub(crate) fn block_16(code: u8, flags: u8, address: u64, blocks: u32) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = code;
    cdb[1] = flags;
    cdb[2..10].copy_from_slice(&address.to_be_bytes());
    cdb[10..14].copy_from_slice(&blocks.to_be_bytes());
    cdb
}

/// Different bytes in each block.
pub(crate) fn pattern(seed: u8, blocks: usize) -> Vec<u8> {
    (0..blocks * 512)
        .map(|at| seed ^ (at / 512) as u8 ^ (at % 251) as u8)
        .collect()
}

pub(crate) const UNIT: LogicalUnitNumber = LogicalUnitNumber([0; 8]);

pub(crate) type Task = LocalBoxFuture<'static, Outcome>;

pub(crate) fn setup() -> (Arc<RamVolume>, Initiator) {
    let volume = RamVolume::new(BLOCKS);
    let initiator = Initiator::new(&volume, options());
    (volume, initiator)
}

pub(crate) fn poll<F: Future + ?Sized>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
}

pub(crate) fn manage(
    initiator: &Initiator,
    function: TaskManagementFunction,
) -> LocalBoxFuture<'static, FunctionResponse> {
    Arc::clone(&initiator.device).manage_tasks(Arc::clone(&initiator.nexus), function)
}

pub(crate) fn read(initiator: &Initiator, identifier: u64, attribute: TaskAttribute) -> Task {
    initiator.execute(identifier, attribute, &read_10(0, 1), Sent::boxed(&[]))
}

pub(crate) fn write(initiator: &Initiator, identifier: u64) -> Task {
    let data = Sent::boxed(&pattern(1, 1));
    initiator.execute(identifier, TaskAttribute::Simple, &write_10(0, 1), data)
}

/// A write whose Data-Out never arrives.
pub(crate) fn stuck_write(initiator: &Initiator, identifier: u64) -> Task {
    initiator.execute(
        identifier,
        TaskAttribute::Simple,
        &write_10(0, 1),
        Box::new(Broken::Missing),
    )
}

pub(crate) fn is_good(outcome: &Poll<Outcome>) -> bool {
    matches!(
        outcome,
        Poll::Ready(Outcome::Completed(Completion {
            status: Status::Good,
            ..
        }))
    )
}

pub(crate) fn has_status(outcome: &Poll<Outcome>, status: Status) -> bool {
    matches!(outcome, Poll::Ready(Outcome::Completed(completion)) if completion.status == status)
}

pub(crate) fn is_aborted(outcome: &Poll<Outcome>) -> bool {
    matches!(outcome, Poll::Ready(Outcome::Aborted))
}
