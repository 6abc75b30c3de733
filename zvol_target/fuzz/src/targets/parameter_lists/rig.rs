// SPDX-License-Identifier: Apache-2.0
//! A device with small disks, two hosts, and commands that run one at a time.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use scsi::sam::{
    Buffer, Command, Completion, DataOut, DeliveryError, LocalBoxFuture, LogicalUnitNumber, Nexus,
    Outcome, ScsiTarget, Status, TaskAttribute,
};
use scsi::{Device, LogicalUnit, LogicalUnitAccess, LogicalUnitOptions, ProductIdentification};

use crate::memory_volume::MemoryVolume;

pub(super) const BLOCK_BYTES: usize = 512;
/// Blocks of each disk.
pub(super) const BLOCKS: u64 = 512;
pub(super) const DISKS: usize = 4;
/// Turns after which a command must have ended.
const MOST_TURNS: usize = 100_000;
/// Delays of a slow volume's operations (see `memory_volume`).
const SLOW: [u8; 5] = [0, 3, 1, 7, 2];

pub(super) struct Rig {
    device: Arc<Device>,
    pub(super) volumes: Vec<Arc<MemoryVolume>>,
    /// One for each host.
    nexuses: [Arc<Nexus>; 2],
    next_identifier: u64,
    /// Created tokens, with the data at their creation.
    pub(super) tokens: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Status and Data-In of a command.
pub(super) struct Answer {
    pub(super) status: Status,
    /// Whether it reports a unit attention, and nothing was done.
    pub(super) unit_attention: bool,
    pub(super) data: Vec<u8>,
}

impl Rig {
    pub(super) fn new(slow: bool) -> Self {
        let plan: &[u8] = if slow { &SLOW } else { &[] };
        let product = || ProductIdentification::new("ZVAAI", "fuzz", "1").expect("short ASCII");
        let device = Arc::new(Device::new(product()));
        let mut volumes = Vec::new();
        for number in 0..DISKS {
            let size = BLOCKS * BLOCK_BYTES as u64;
            let volume = MemoryVolume::new(size, false, plan);
            for block in 0..BLOCKS / 2 {
                let mark = [number as u8 + 1, block as u8, (block >> 8) as u8, 0xa5];
                volume.set(
                    block * BLOCK_BYTES as u64,
                    &mark.repeat(BLOCK_BYTES / mark.len()),
                );
            }
            let options = LogicalUnitOptions {
                uuid: [number as u8 + 1; 16],
                product: product(),
                read_only: false,
            };
            let unit =
                LogicalUnit::new(Arc::clone(&volume) as Arc<_>, options).expect("a valid geometry");
            device
                .insert_logical_unit(number as u16, unit, LogicalUnitAccess::Any)
                .expect("a number that is free");
            volumes.push(volume);
        }
        let nexuses = [0, 1].map(nexus);
        for nexus in &nexuses {
            device.nexus_established(nexus);
        }
        let mut rig = Self {
            device,
            volumes,
            nexuses,
            next_identifier: 0,
            tokens: Vec::new(),
        };
        for disk in 0..DISKS {
            for host in 0..2 {
                // Clears the unit attention.
                rig.execute(host, disk, &[0; 6], &[]);
            }
        }
        rig
    }

    /// Runs a command of a host on a disk to its end. Checks the general rules for commands.
    pub(super) fn execute(&mut self, host: usize, disk: usize, cdb: &[u8], list: &[u8]) -> Answer {
        let command = Command {
            logical_unit: LogicalUnitNumber([0, disk as u8, 0, 0, 0, 0, 0, 0]),
            identifier: self.next_identifier,
            cdb: cdb.to_vec(),
            attribute: TaskAttribute::Simple,
            data_in_buffer_size: u32::MAX,
        };
        self.next_identifier += 1;
        let data_out = Box::new(Sent(list.to_vec()));
        let nexus = Arc::clone(&self.nexuses[host]);
        let running = Arc::clone(&self.device).execute_command(nexus, command, data_out);
        match to_its_end(running) {
            Outcome::Completed(completion) => answer(completion),
            Outcome::Aborted => panic!("{cdb:02x?} was aborted without an abort"),
        }
    }

    /// Content of all disks.
    pub(super) fn contents(&self) -> Vec<Vec<u8>> {
        self.volumes.iter().map(|volume| volume.content()).collect()
    }

    /// The NAA designator of a disk, from its Device Identification page.
    pub(super) fn naa(&mut self, disk: usize) -> Vec<u8> {
        let page = self.execute(0, disk, &[0x12, 1, 0x83, 4, 0, 0], &[]).data;
        let mut at = 4;
        while page[at + 1] & 0x3f != 3 {
            at += 4 + usize::from(page[at + 3]);
        }
        page[at + 4..at + 4 + usize::from(page[at + 3])].to_vec()
    }
}

fn answer(completion: Completion) -> Answer {
    let mut unit_attention = false;
    match completion.status {
        Status::CheckCondition => {
            assert!(matches!(completion.sense[0] & 0x7f, 0x70 | 0x72));
            assert!(completion.sense.len() >= 8 && completion.sense.len() <= 252);
            let key = completion.sense[if completion.sense[0] & 2 == 0 { 2 } else { 1 }] & 0xf;
            assert_ne!(key, 4, "HARDWARE ERROR from volumes that never fail");
            unit_attention = key == 6;
        }
        Status::Good | Status::ReservationConflict | Status::Busy => {
            assert!(completion.sense.is_empty());
        }
        other => panic!("{other:?} where one command runs at a time"),
    }
    Answer {
        status: completion.status,
        unit_attention,
        data: completion
            .data_in
            .map(|data| data.to_vec())
            .unwrap_or_default(),
    }
}

fn nexus(host: usize) -> Arc<Nexus> {
    let id = host as u64;
    let initiator_device = format!("iqn.2026-11.example:host{host}");
    Arc::new(Nexus {
        id,
        initiator_port: format!("{initiator_device},i,0x40000001{id:04x}"),
        initiator_device,
        relative_target_port: 1,
    })
}

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Polls only after a wake-up, so that a missing one is found.
fn to_its_end<T>(future: LocalBoxFuture<'_, T>) -> T {
    let mut future = pin!(future);
    let flag = Arc::new(Flag(AtomicBool::new(true)));
    let waker = Waker::from(Arc::clone(&flag));
    for _ in 0..MOST_TURNS {
        assert!(flag.0.swap(false, Ordering::Relaxed), "nobody wakes it");
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
    }
    panic!("it never ends");
}

struct Sent(Vec<u8>);

impl DataOut for Sent {
    fn receive(&mut self, length: u32) -> LocalBoxFuture<'_, Result<Buffer, DeliveryError>> {
        Box::pin(async move {
            let mut yielded = false;
            poll_fn(|context| {
                if std::mem::replace(&mut yielded, true) {
                    return Poll::Ready(());
                }
                context.waker().wake_by_ref();
                Poll::Pending
            })
            .await;
            let taken = self.0.len().min(length as usize);
            let mut buffer = Buffer::new(taken);
            for (to, from) in buffer.iter_mut().zip(self.0.drain(..taken)) {
                *to = from;
            }
            Ok(buffer)
        })
    }
}
