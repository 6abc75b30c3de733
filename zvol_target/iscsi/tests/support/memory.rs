// SPDX-License-Identifier: Apache-2.0
//! A SCSI target device with one logical unit in memory.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{ThreadId, current};
use std::time::{Duration, Instant};

use scsi::sam::{
    Buffer, Command, Completion, DataOut, DeliveryError, FunctionResponse, LocalBoxFuture,
    LogicalUnitNumber, Nexus, Outcome, ScsiTarget, Status, TaskManagementFunction,
};
use tokio::sync::watch;

const BLOCK: usize = 512;

/// Vendor specific opcode: ends when [`MemoryTarget::release`] is called, or when aborted.
pub const WAIT: u8 = 0xc0;

/// Vendor specific opcode: as [`WAIT`], but it does not end when aborted, like an operation of a disk that hangs.
pub const HANG: u8 = 0xc1;

#[derive(Clone)]
struct Running {
    logical_unit: LogicalUnitNumber,
    abort: Arc<watch::Sender<bool>>,
    done: Arc<watch::Sender<bool>>,
}

pub struct MemoryTarget {
    disk: Mutex<Vec<u8>>,
    tasks: Mutex<HashMap<(u64, u64), Running>>,
    released: watch::Sender<bool>,
    pub nexuses: Mutex<Vec<Nexus>>,
    /// Threads of all nexuses, in the order they were established.
    pub reactors: Mutex<Vec<ThreadId>>,
    /// Highest number of concurrent commands.
    pub most_tasks: AtomicU64,
    /// Commands in the order of their arrival.
    pub log: Mutex<Vec<Vec<u8>>>,
    /// READs that got memory.
    pub reads: AtomicU64,
    /// CPU time of each READ, microseconds.
    pub read_cost: AtomicU64,
    /// Bytes that a WRITE requests at a time.
    pub write_chunk: Mutex<u32>,
    /// Whether aborted commands end with TASK ABORTED status (SPC-5, TAS = 1) instead of without a response.
    pub task_aborted_status: AtomicBool,
}

impl MemoryTarget {
    pub fn new(bytes: usize) -> Self {
        Self {
            disk: Mutex::new(vec![0; bytes]),
            tasks: Mutex::default(),
            released: watch::Sender::new(false),
            nexuses: Mutex::default(),
            reactors: Mutex::default(),
            most_tasks: AtomicU64::new(0),
            log: Mutex::default(),
            reads: AtomicU64::new(0),
            read_cost: AtomicU64::new(0),
            write_chunk: Mutex::new(u32::MAX),
            task_aborted_status: AtomicBool::new(false),
        }
    }

    /// Ends the commands with the opcode [`WAIT`].
    pub fn release(&self) {
        self.released.send_replace(true);
    }

    pub fn task_count(&self) -> usize {
        self.tasks.lock().unwrap().len()
    }

    pub fn bytes(&self, start: usize, length: usize) -> Vec<u8> {
        self.disk.lock().unwrap()[start..start + length].to_vec()
    }

    async fn run(
        &self,
        command: &Command,
        data_out: &mut dyn DataOut,
    ) -> Result<Completion, DeliveryError> {
        let cdb = &command.cdb[..];
        let number = |at: usize, length: usize| {
            cdb[at..at + length]
                .iter()
                .fold(0usize, |sum, &byte| (sum << 8) | usize::from(byte))
        };
        if command.logical_unit != LogicalUnitNumber([0; 8]) && cdb[0] != 0xa0 && cdb[0] != 0x12 {
            return Ok(check_condition(0x05, 0x25));
        }
        let blocks = self.disk.lock().unwrap().len() / BLOCK;
        let last = blocks as u64 - 1;
        Ok(match cdb[0] {
            0x00 | 0x35 | 0x91 => good(None, 0),
            0x12 if cdb[1] & 1 != 0 => good(Some(vec![0, cdb[2], 0, 0]), 0),
            0x12 => {
                let mut data = vec![0; 36];
                data[2..5].copy_from_slice(&[6, 2, 31]);
                data[8..32].copy_from_slice(b"EXAMPLE MEMORY          ");
                data.truncate(number(3, 2));
                good(Some(data), 0)
            }
            0x1a => good(Some(vec![3, 0, 0, 0]), 0),
            0x25 => good(Some([last as u32, 512].map(u32::to_be_bytes).concat()), 0),
            0x9e => {
                let mut data = last.to_be_bytes().to_vec();
                data.extend_from_slice(&512u32.to_be_bytes());
                data.resize(32, 0);
                data.truncate(number(10, 4));
                good(Some(data), 0)
            }
            0xa0 => {
                let mut data = vec![0; 16];
                data[3] = 8;
                data.truncate(number(6, 4));
                good(Some(data), 0)
            }
            0x28 | 0x88 => {
                let cost = Duration::from_micros(self.read_cost.load(Ordering::Relaxed));
                let start = Instant::now();
                while start.elapsed() < cost {}
                let (block, count) = extent(cdb, number);
                if block + count > blocks {
                    return Ok(check_condition(0x05, 0x21));
                }
                // At most what the initiator accepts.
                let length = (count * BLOCK).min(command.data_in_buffer_size as usize);
                let _memory = data_out.allocate(length as u32).await;
                self.reads.fetch_add(1, Ordering::Relaxed);
                let data = (length > 0).then(|| self.bytes(block * BLOCK, length));
                Completion {
                    data_in_required: (count * BLOCK) as u64,
                    ..good(data, 0)
                }
            }
            0x2a | 0x8a => {
                let (block, count) = extent(cdb, number);
                if block + count > blocks {
                    return Ok(check_condition(0x05, 0x21));
                }
                let (mut start, mut left) = (block * BLOCK, (count * BLOCK) as u32);
                let chunk = *self.write_chunk.lock().unwrap();
                while left > 0 {
                    let data = data_out.receive(left.min(chunk)).await?;
                    if data.is_empty() {
                        break;
                    }
                    self.disk.lock().unwrap()[start..start + data.len()].copy_from_slice(&data);
                    start += data.len();
                    left -= data.len() as u32;
                }
                good(None, (count * BLOCK) as u64)
            }
            WAIT | HANG => {
                let _ = self
                    .released
                    .subscribe()
                    .wait_for(|released| *released)
                    .await;
                good(None, 0)
            }
            _ => check_condition(0x05, 0x20),
        })
    }
}

fn extent(cdb: &[u8], number: impl Fn(usize, usize) -> usize) -> (usize, usize) {
    if cdb[0] < 0x80 {
        (number(2, 4), number(7, 2))
    } else {
        (number(2, 8), number(10, 4))
    }
}

fn good(data_in: Option<Vec<u8>>, data_out_required: u64) -> Completion {
    Completion {
        status: Status::Good,
        sense: Vec::new(),
        data_in_required: data_in.as_ref().map_or(0, |data| data.len() as u64),
        data_in: data_in.map(|data| Buffer::from(&data[..])),
        data_out_required,
    }
}

fn check_condition(key: u8, code: u8) -> Completion {
    let mut sense = vec![0; 18];
    (sense[0], sense[2], sense[7], sense[12]) = (0x70, key, 10, code);
    Completion {
        status: Status::CheckCondition,
        sense,
        data_in: None,
        data_in_required: 0,
        data_out_required: 0,
    }
}

impl ScsiTarget for MemoryTarget {
    fn nexus_established(&self, nexus: &Arc<Nexus>) {
        self.nexuses.lock().unwrap().push((**nexus).clone());
        self.reactors.lock().unwrap().push(current().id());
    }

    fn nexus_lost(&self, nexus: &Arc<Nexus>) {
        self.nexuses
            .lock()
            .unwrap()
            .retain(|other| other.id != nexus.id);
        for ((of, _), task) in &*self.tasks.lock().unwrap() {
            if *of == nexus.id {
                task.abort.send_replace(true);
            }
        }
    }

    fn execute_command(
        self: Arc<Self>,
        nexus: Arc<Nexus>,
        command: Command,
        mut data_out: Box<dyn DataOut>,
    ) -> LocalBoxFuture<'static, Outcome> {
        let key = (nexus.id, command.identifier);
        let task = Running {
            logical_unit: command.logical_unit,
            abort: Arc::new(watch::Sender::new(false)),
            done: Arc::new(watch::Sender::new(false)),
        };
        self.log.lock().unwrap().push(command.cdb.clone());
        let count = {
            let mut tasks = self.tasks.lock().unwrap();
            let earlier = tasks.insert(key, task.clone());
            assert!(
                earlier.is_none_or(|earlier| *earlier.abort.borrow()),
                "identifier used twice"
            );
            tasks.len() as u64
        };
        self.most_tasks.fetch_max(count, Ordering::Relaxed);
        Box::pin(async move {
            let mut aborted = task.abort.subscribe();
            let outcome = tokio::select! {
                biased;
                _ = aborted.wait_for(|aborted| *aborted), if command.cdb[0] != HANG => {
                    if self.task_aborted_status.load(Ordering::Relaxed) {
                        Outcome::Completed(Completion { status: Status::TaskAborted, ..good(None, 0) })
                    } else {
                        Outcome::Aborted
                    }
                }
                result = self.run(&command, &mut *data_out) => match result {
                    Ok(completion) => Outcome::Completed(completion),
                    Err(_) => Outcome::Aborted,
                },
            };
            self.tasks.lock().unwrap().remove(&key);
            task.done.send_replace(true);
            outcome
        })
    }

    fn manage_tasks(
        self: Arc<Self>,
        nexus: Arc<Nexus>,
        function: TaskManagementFunction,
    ) -> LocalBoxFuture<'static, FunctionResponse> {
        use TaskManagementFunction as Function;
        let named: Vec<Running> = self
            .tasks
            .lock()
            .unwrap()
            .iter()
            .filter(|((of, identifier), task)| match function {
                Function::AbortTask {
                    identifier: named, ..
                } => *of == nexus.id && *identifier == named,
                Function::AbortTaskSet(unit) => *of == nexus.id && task.logical_unit == unit,
                Function::ClearTaskSet(unit) | Function::LogicalUnitReset(unit) => {
                    task.logical_unit == unit
                }
                Function::TargetReset => true,
                Function::ClearAca(_) => false,
            })
            .map(|(_, task)| task.clone())
            .collect();
        for task in &named {
            task.abort.send_replace(true);
        }
        Box::pin(async move {
            for task in &named {
                let _ = task.done.subscribe().wait_for(|done| *done).await;
            }
            match function {
                Function::AbortTask { .. } if named.is_empty() => {
                    FunctionResponse::TaskDoesNotExist
                }
                Function::ClearAca(_) => FunctionResponse::NotSupported,
                Function::LogicalUnitReset(unit) if unit != LogicalUnitNumber([0; 8]) => {
                    FunctionResponse::IncorrectLogicalUnit
                }
                _ => FunctionResponse::Complete,
            }
        })
    }
}
