// SPDX-License-Identifier: Apache-2.0
//! SCSI commands and task management on a device: CDBs, Data-Out, aborts, lost nexuses, a changing inventory.
//!
//! Input: the plan of the volumes (see `memory_volume`; its length, then the bytes), then steps. The low bits of a step's first
//! byte select its kind.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use scsi::sam::{
    Buffer, Command, Completion, DataOut, DeliveryError, FunctionResponse, LocalBoxFuture,
    LogicalUnitNumber, Nexus, Outcome, ScsiTarget, Status, TaskAttribute, TaskManagementFunction,
};
use scsi::{Device, LogicalUnit, LogicalUnitAccess, LogicalUnitOptions, ProductIdentification};

use crate::input::Input;
use crate::memory;
use crate::memory_volume::MemoryVolume;

/// Most steps of one input.
const MOST_STEPS: usize = 96;
/// Memory limit of an input: some commands read 16 MiB at a time, and all can run concurrently.
const DEVICE_MEMORY: usize = 512 << 20;
/// Most concurrent tasks.
const MOST_TASKS: usize = 12;
/// Turns after which everything must have ended: an operation returns pending at most 7 times.
const MOST_TURNS: usize = 100_000;

/// REPORT LUNS well-known logical unit (SPC-5).
const REPORT_LUNS_WELL_KNOWN: [u8; 8] = [0xc1, 1, 0, 0, 0, 0, 0, 0];

/// READ, WRITE, VERIFY, SYNCHRONIZE CACHE and READ CAPACITY: GOOD discloses a unit.
const MEDIUM_COMMANDS: [u8; 12] = [
    0x08, 0x0a, 0x25, 0x28, 0x2a, 0x2f, 0x35, 0x88, 0x8a, 0x8f, 0x91, 0x9e,
];
/// Number of the host with access to a masked unit.
const GIVEN_HOST: u64 = 0;

/// Checks that each command and function ends after a wake-up, with a result that SAM allows.
pub fn run(data: &[u8]) {
    memory::bounded(DEVICE_MEMORY, || {
        let mut input = Input::new(data);
        let length = usize::from(input.byte() & 0x1f);
        let mut host = Host::new(input.take(length));
        for _ in 0..MOST_STEPS {
            if input.is_empty() {
                break;
            }
            host.step(&mut input);
        }
        host.end();
    });
}

/// Set when a task was woken. Other tasks are not polled, so that a missing wake-up is found.
#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Woken<T> {
    future: LocalBoxFuture<'static, T>,
    flag: Arc<Flag>,
    waker: Waker,
}

impl<T> Woken<T> {
    fn new(future: LocalBoxFuture<'static, T>) -> Self {
        let flag = Arc::new(Flag(AtomicBool::new(true)));
        let waker = Waker::from(Arc::clone(&flag));
        Self {
            future,
            flag,
            waker,
        }
    }

    fn poll(&mut self) -> Poll<T> {
        if !self.flag.0.swap(false, Ordering::Relaxed) {
            return Poll::Pending;
        }
        Pin::new(&mut self.future).poll(&mut Context::from_waker(&self.waker))
    }
}

/// A running command.
struct Task {
    running: Woken<Outcome>,
    nexus: u64,
    identifier: u64,
    data_in_buffer_size: u32,
    /// Its data fails to arrive, so it may end without a status.
    fails: bool,
    /// It needs data of a unit that its host may not use.
    forbidden: bool,
}

struct Host {
    device: Arc<Device>,
    volumes: Vec<Arc<MemoryVolume>>,
    nexuses: [Arc<Nexus>; 2],
    next_nexus: u64,
    next_identifier: u64,
    tasks: Vec<Task>,
    functions: Vec<Woken<FunctionResponse>>,
    /// A task management function was sent, so commands may end without a status.
    aborts: bool,
    /// By number: units that only one of the two hosts may use.
    masked: [bool; 4],
    plan: Vec<u8>,
}

impl Host {
    fn new(plan: &[u8]) -> Self {
        let product = ProductIdentification::new("ZVAAI", "fuzz", "1").expect("short ASCII");
        let device = Arc::new(Device::new(product));
        let nexuses = [nexus(0), nexus(1)];
        for nexus in &nexuses {
            device.nexus_established(nexus);
        }
        let mut this = Self {
            device,
            volumes: Vec::new(),
            nexuses,
            next_nexus: 2,
            next_identifier: 0,
            tasks: Vec::new(),
            functions: Vec::new(),
            aborts: false,
            masked: [false; 4],
            plan: plan.to_vec(),
        };
        this.insert(0, 0);
        this.insert(1, 1);
        this.insert(2, 2);
        this
    }

    fn insert(&mut self, number: u16, kind: u8) {
        let unit = self.unit(number, kind);
        let access = LogicalUnitAccess::Any;
        if self
            .device
            .insert_logical_unit(number, unit, access)
            .is_ok()
        {
            self.masked[usize::from(number)] = false;
        }
    }

    /// Kinds: a write-through disk, a disk with cache, a read-only disk.
    fn unit(&mut self, number: u16, kind: u8) -> LogicalUnit {
        let read_only = kind & 2 != 0;
        let volume = MemoryVolume::new(64 << 20, read_only && kind & 4 != 0, &self.plan);
        self.volumes.push(Arc::clone(&volume));
        LogicalUnit::new(volume, options(number, kind)).expect("a valid geometry")
    }

    fn step(&mut self, input: &mut Input) {
        let step = input.byte();
        match step & 0x0f {
            0..=8 => self.execute(step >> 4, input),
            9 => self.turn(),
            10 => {
                for _ in 0..=step >> 4 {
                    self.turn();
                }
            }
            11 | 12 => self.manage(step >> 4, input),
            13 => self.lose_nexus(usize::from(step >> 7)),
            14 => self.change_inventory(step >> 4, input),
            _ => {
                let volume = usize::from(step >> 4) % self.volumes.len();
                self.volumes[volume].grow(u64::from(input.half()));
            }
        }
    }

    fn execute(&mut self, bits: u8, input: &mut Input) {
        if self.tasks.len() >= MOST_TASKS {
            self.turn();
            return;
        }
        let nexus = Arc::clone(&self.nexuses[usize::from(bits & 1)]);
        let logical_unit = logical_unit(bits >> 1, input);
        let what = input.byte();
        let length = match what & 0x07 {
            0 => 6,
            1 | 2 => 10,
            3 => 12,
            4 | 5 => 16,
            6 => 32,
            _ => usize::from(input.byte()),
        };
        let cdb = input.take(length).to_vec();
        let attribute = match (what >> 3) & 3 {
            0 => TaskAttribute::Simple,
            1 => TaskAttribute::Ordered,
            2 => TaskAttribute::HeadOfQueue,
            _ => TaskAttribute::AutoContingentAllegiance,
        };
        let data_in_buffer_size = match (what >> 5) & 1 {
            0 => u32::MAX,
            _ => u32::from(input.half()),
        };
        let data_out = Sent {
            waits: (what >> 6) & 1 != 0,
            end: match (what >> 7, bits >> 3) {
                (0, _) => End::Short,
                (_, 0) => End::Never,
                _ => End::Failure,
            },
            left: usize::from(input.half()),
            pattern: input.array(),
        };
        let fails = data_out.end != End::Short;
        let identifier = self.next_identifier;
        self.next_identifier += 1;
        let command = Command {
            logical_unit,
            identifier,
            cdb,
            attribute,
            data_in_buffer_size,
        };
        let number = nexus.id;
        let masked = match command.logical_unit.0 {
            [0, unit @ 0..=3, 0, 0, 0, 0, 0, 0] => self.masked[usize::from(unit)],
            _ => false,
        };
        let code = command.cdb.first();
        let medium = code.is_some_and(|code| MEDIUM_COMMANDS.contains(code));
        let forbidden = masked && medium && number % 2 != GIVEN_HOST;
        let future = Arc::clone(&self.device).execute_command(nexus, command, Box::new(data_out));
        self.tasks.push(Task {
            running: Woken::new(future),
            nexus: number,
            identifier,
            data_in_buffer_size,
            fails,
            forbidden,
        });
    }

    fn manage(&mut self, function: u8, input: &mut Input) {
        let what = input.byte();
        let nexus = Arc::clone(&self.nexuses[usize::from(what & 1)]);
        let unit = logical_unit((what >> 1) & 3, input);
        let back = u64::from(what >> 4);
        let function = match function % 6 {
            0 => TaskManagementFunction::AbortTask {
                logical_unit: unit,
                identifier: self.next_identifier.wrapping_sub(back),
            },
            1 => TaskManagementFunction::AbortTaskSet(unit),
            2 => TaskManagementFunction::ClearTaskSet(unit),
            3 => TaskManagementFunction::ClearAca(unit),
            4 => TaskManagementFunction::LogicalUnitReset(unit),
            _ => TaskManagementFunction::TargetReset,
        };
        self.aborts = true;
        let future = Arc::clone(&self.device).manage_tasks(nexus, function);
        self.functions.push(Woken::new(future));
    }

    fn lose_nexus(&mut self, which: usize) {
        self.device.nexus_lost(&self.nexuses[which]);
        self.nexuses[which] = nexus(self.next_nexus);
        self.next_nexus += 1;
        self.device.nexus_established(&self.nexuses[which]);
    }

    fn change_inventory(&mut self, how: u8, input: &mut Input) {
        let number = u16::from(input.byte() & 3);
        match how & 3 {
            0 => self.insert(number, how >> 2),
            1 => drop(self.device.remove_logical_unit(number)),
            2 => {
                let unit = self.unit(number, how >> 2);
                let _ = self.device.replace_logical_unit(number, unit);
            }
            _ => match how >> 2 {
                0 => drop(self.device.capacity_changed(number)),
                1 => {
                    let unit = LogicalUnit::not_ready(options(number, 0));
                    let _ = self.device.replace_logical_unit(number, unit);
                }
                2 => self.set_access(number, false),
                _ => self.set_access(number, true),
            },
        }
    }

    fn set_access(&mut self, number: u16, masked: bool) {
        let access = if masked {
            LogicalUnitAccess::Initiators([initiator_device(GIVEN_HOST)].into())
        } else {
            LogicalUnitAccess::Any
        };
        if self.device.set_access(number, access).is_ok() {
            self.masked[usize::from(number)] = masked;
            // It changed during the command: both answers are valid.
            self.tasks
                .iter_mut()
                .for_each(|task| task.forbidden = false);
        }
    }

    /// Polls every woken task once.
    fn turn(&mut self) {
        let nexuses = [self.nexuses[0].id, self.nexuses[1].id];
        let aborts = self.aborts;
        self.tasks.retain_mut(|task| match task.running.poll() {
            Poll::Pending => true,
            Poll::Ready(Outcome::Completed(completion)) => {
                check(&completion, task.data_in_buffer_size);
                assert!(!task.forbidden || completion.status != Status::Good);
                false
            }
            Poll::Ready(Outcome::Aborted) => {
                let allowed = aborts || task.fails || !nexuses.contains(&task.nexus);
                assert!(
                    allowed,
                    "command {} was aborted without an abort",
                    task.identifier
                );
                false
            }
        });
        self.functions
            .retain_mut(|function| function.poll().is_pending());
    }

    /// Ends all nexuses; all commands and functions must end.
    fn end(mut self) {
        for which in 0..2 {
            self.lose_nexus(which);
        }
        for _ in 0..MOST_TURNS {
            if self.tasks.is_empty() && self.functions.is_empty() {
                return;
            }
            self.turn();
        }
        panic!(
            "{} commands and {} functions never end",
            self.tasks.len(),
            self.functions.len()
        );
    }
}

fn options(number: u16, kind: u8) -> LogicalUnitOptions {
    LogicalUnitOptions {
        uuid: [number as u8 + 1; 16],
        product: ProductIdentification::new("ZVAAI", "fuzz", "1").expect("short ASCII"),
        read_only: kind & 2 != 0,
    }
}

fn initiator_device(id: u64) -> String {
    format!("iqn.2026-11.example:host{}", id % 2)
}

fn nexus(id: u64) -> Arc<Nexus> {
    let initiator = initiator_device(id);
    Arc::new(Nexus {
        id,
        initiator_port: format!("{initiator},i,0x40000001{id:04x}"),
        initiator_device: initiator,
        relative_target_port: 1,
    })
}

fn logical_unit(which: u8, input: &mut Input) -> LogicalUnitNumber {
    LogicalUnitNumber(match which & 3 {
        number @ 0..=2 => [0, number, 0, 0, 0, 0, 0, 0],
        _ => match input.byte() {
            0 => REPORT_LUNS_WELL_KNOWN,
            _ => input.array(),
        },
    })
}

/// Checks the end of a command with SAM-5 and the contract of [`Completion`].
fn check(completion: &Completion, data_in_buffer_size: u32) {
    let sent = completion.data_in.as_ref().map_or(0, |data| data.len()) as u64;
    match completion.status {
        Status::Good => {
            assert!(completion.sense.is_empty());
            let taken = completion
                .data_in_required
                .min(u64::from(data_in_buffer_size));
            assert!(
                sent >= taken,
                "{sent} bytes, but the initiator accepts {taken}"
            );
        }
        Status::CheckCondition => {
            // Response code (SPC-5 4.5.1).
            assert!(matches!(completion.sense[0] & 0x7f, 0x70 | 0x72));
            assert!(completion.sense.len() >= 8 && completion.sense.len() <= 252);
            assert!(completion.data_in.is_none());
        }
        _ => assert!(completion.data_in.is_none() && completion.sense.is_empty()),
    }
}

/// What happens after the last byte of Data-Out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The initiator announced no more.
    Short,
    /// No more data arrives.
    Never,
    Failure,
}

struct Sent {
    /// The first poll returns pending.
    waits: bool,
    end: End,
    left: usize,
    pattern: [u8; 4],
}

impl DataOut for Sent {
    fn receive(&mut self, length: u32) -> LocalBoxFuture<'_, Result<Buffer, DeliveryError>> {
        Box::pin(async move {
            if self.waits {
                yield_once().await;
            }
            let count = self.left.min(length as usize);
            if count < length as usize {
                match self.end {
                    End::Short => {}
                    End::Never => std::future::pending().await,
                    End::Failure => return Err(DeliveryError::TransferFailed),
                }
            }
            self.left -= count;
            let mut buffer = Buffer::new(count);
            for (at, byte) in buffer.iter_mut().enumerate() {
                *byte = self.pattern[at % 4];
            }
            Ok(buffer)
        })
    }
}

async fn yield_once() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
