// SPDX-License-Identifier: Apache-2.0
//! Reservations and their effects for hosts.

mod any_order;
mod persistence;
mod preempt;
mod registrations;
mod reserve;
mod types;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::{
    BLOCKS, Initiator, RamVolume, Sent, options, pattern, product, read_10, setup, write_10,
};
use crate::sam::{Completion, LocalBoxFuture, Nexus, ScsiTarget, Status};
use crate::{
    Device, LogicalUnit, LogicalUnitAccess, PersistentReservations, ReservationStore, TargetPort,
};

const REGISTER: u8 = 0x00;

const RESERVE: u8 = 0x01;

const RELEASE: u8 = 0x02;

const CLEAR: u8 = 0x03;

const PREEMPT: u8 = 0x04;

const PREEMPT_AND_ABORT: u8 = 0x05;

const REGISTER_AND_IGNORE: u8 = 0x06;

const SPEC_I_PT: u8 = 0x08;

const ALL_TG_PT: u8 = 0x04;

const APTPL: u8 = 0x01;

const WE: u8 = 0x1;

const EA: u8 = 0x3;

const WE_RO: u8 = 0x5;

const WE_AR: u8 = 0x7;

const EA_AR: u8 = 0x8;

const ALL_TYPES: [u8; 6] = [1, 3, 5, 6, 7, 8];

const RESERVATIONS_PREEMPTED: (u8, u8, u8) = (6, 0x2a, 0x03);

const RESERVATIONS_RELEASED: (u8, u8, u8) = (6, 0x2a, 0x04);

const REGISTRATIONS_PREEMPTED: (u8, u8, u8) = (6, 0x2a, 0x05);

const INVALID_FIELD_IN_PARAMETER_LIST: (u8, u8, u8) = (5, 0x26, 0);

const LENGTH_ERROR: (u8, u8, u8) = (5, 0x1a, 0);

const RESERVE_6: [u8; 6] = [0x16, 0, 0, 0, 0, 0];

const RELEASE_6: [u8; 6] = [0x17, 0, 0, 0, 0, 0];

const RESERVE_10: [u8; 10] = [0x56, 0, 0, 0, 0, 0, 0, 0, 0, 0];

const RELEASE_10: [u8; 10] = [0x57, 0, 0, 0, 0, 0, 0, 0, 0, 0];

const MODE_SENSE: [u8; 6] = [0x1a, 0, 0x3f, 0, 255, 0];

fn cdb(action: u8, kind: u8, length: usize) -> [u8; 10] {
    let [.., high, low] = (length as u32).to_be_bytes();
    [0x5f, action, kind, 0, 0, 0, 0, high, low, 0]
}

fn list(key: u64, new_key: u64, flags: u8) -> Vec<u8> {
    let mut list = [key.to_be_bytes(), new_key.to_be_bytes(), [0; 8]].concat();
    list[20] = flags;
    list
}

fn transport_id(name: &str) -> Vec<u8> {
    let length = (name.len() + 1).next_multiple_of(4).max(20);
    let mut id = vec![0x45, 0, 0, length as u8];
    id.extend_from_slice(name.as_bytes());
    id.resize(4 + length, 0);
    id
}

impl Initiator {
    fn send_out(&self, action: u8, kind: u8, list: &[u8]) -> Completion {
        self.run_with(&cdb(action, kind, list.len()), Sent::boxed(list))
    }

    fn out(&self, action: u8, kind: u8, key: u64, new_key: u64) -> Status {
        self.send_out(action, kind, &list(key, new_key, 0)).status
    }

    fn register(&self, key: u64) {
        assert_eq!(self.out(REGISTER, 0, 0, key), Status::Good);
    }

    fn register_with(&self, new_key: u64, flags: u8) -> Completion {
        self.send_out(REGISTER, 0, &list(0, new_key, flags))
    }

    fn keys(&self) -> Vec<u64> {
        let data = self.data(&[0x5e, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0]);
        let (header, keys) = data.split_at(8);
        assert_eq!(header[4..], (keys.len() as u32).to_be_bytes());
        let mut keys: Vec<_> = keys
            .chunks_exact(8)
            .map(|key| u64::from_be_bytes(key.try_into().unwrap()))
            .collect();
        keys.sort_unstable();
        keys
    }

    fn generation(&self) -> u32 {
        let data = self.data(&[0x5e, 0, 0, 0, 0, 0, 0, 0, 8, 0]);
        u32::from_be_bytes(data[..4].try_into().unwrap())
    }

    /// Key and type of the reservation.
    fn reservation(&self) -> Option<(u64, u8)> {
        let data = self.data(&[0x5e, 1, 0, 0, 0, 0, 0, 0, 255, 0]);
        let body = &data[8..];
        (!body.is_empty()).then(|| {
            assert_eq!((body.len(), data[7]), (16, 16));
            (u64::from_be_bytes(body[..8].try_into().unwrap()), body[13])
        })
    }

    fn writes(&self) -> bool {
        let completion = self.run_with(&write_10(0, 1), Sent::boxed(&pattern(1, 1)));
        assert!(matches!(
            completion.status,
            Status::Good | Status::ReservationConflict
        ));
        completion.status == Status::Good
    }

    fn reads(&self) -> bool {
        let status = self.run(&read_10(0, 1)).status;
        assert!(matches!(status, Status::Good | Status::ReservationConflict));
        status == Status::Good
    }

    /// Its pending unit attentions, in order; removes them.
    fn unit_attentions(&self) -> Vec<(u8, u8, u8)> {
        std::iter::from_fn(|| {
            let data = self.data(&[0x03, 0, 0, 0, 252, 0]);
            let sense = (data[2], data[12], data[13]);
            (sense.0 != 0).then_some(sense)
        })
        .collect()
    }

    fn port(&self) -> &str {
        &self.nexus.initiator_port
    }
}

fn three() -> (Initiator, Initiator, Initiator) {
    let (_, first) = setup();
    let second = Initiator::of(Arc::clone(&first.device));
    let third = Initiator::of(Arc::clone(&first.device));
    (first, second, third)
}

fn ports(device: &Device, ports: &[u16]) {
    let port = |&relative_target_port| TargetPort {
        relative_target_port,
        target_port_group: 1,
        name: format!("iqn.target,t,0x{relative_target_port:04x}"),
    };
    device.set_target_ports(ports.iter().map(port).collect());
}

fn through(initiator: &Initiator, id: u64, relative_target_port: u16) -> Initiator {
    let nexus = Arc::new(Nexus {
        id,
        relative_target_port,
        ..(*initiator.nexus).clone()
    });
    initiator.device.nexus_established(&nexus);
    let initiator = Initiator {
        nexus,
        device: Arc::clone(&initiator.device),
        ..*initiator
    };
    initiator.unit_attentions();
    initiator
}

/// A store in memory that can fail.
#[derive(Debug, Default)]
struct Stored {
    content: Mutex<Vec<PersistentReservations>>,
    fails: AtomicBool,
}

impl Stored {
    fn last(&self) -> PersistentReservations {
        self.content
            .lock()
            .unwrap()
            .last()
            .cloned()
            .unwrap_or_default()
    }

    fn count(&self) -> usize {
        self.content.lock().unwrap().len()
    }
}

impl ReservationStore for Stored {
    fn store(
        &self,
        reservations: PersistentReservations,
    ) -> LocalBoxFuture<'_, Result<(), io::Error>> {
        Box::pin(async move {
            if self.fails.load(Ordering::Relaxed) {
                return Err(io::Error::other("no space"));
            }
            self.content.lock().unwrap().push(reservations);
            Ok(())
        })
    }
}

fn unit_with(store: &Arc<Stored>) -> LogicalUnit {
    let unit = LogicalUnit::new(RamVolume::new(BLOCKS), options()).unwrap();
    unit.with_reservation_store(Arc::clone(store) as _, store.last())
}

fn with_store(store: &Arc<Stored>) -> Initiator {
    let device = Arc::new(Device::new(product()));
    device
        .insert_logical_unit(0, unit_with(store), LogicalUnitAccess::Any)
        .unwrap();
    Initiator::of(device)
}
