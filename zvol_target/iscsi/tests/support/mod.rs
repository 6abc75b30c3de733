// SPDX-License-Identifier: Apache-2.0
//! Shared by the tests: a SCSI target in memory, and an initiator that sends raw PDUs.

#![allow(dead_code)] // Each test program uses a part.

mod initiator;
pub mod memory;

pub use initiator::Initiator;
pub use memory::MemoryTarget;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use iscsi::{
    Authentication, ChapAccount, Portal, Secret, Server, ServerOptions, TargetAccess,
    TargetDefinition, TargetPort,
};

pub const TARGET: &str = "iqn.2001-04.com.example:disk";
pub const HOST: &str = "iqn.2001-04.com.example:host";
pub const PORTAL_GROUP: u16 = 7;

/// A server on a free port, with one target in memory.
pub struct Fixture {
    pub server: Server,
    pub device: Arc<MemoryTarget>,
    pub address: SocketAddr,
}

impl Fixture {
    pub fn new() -> Self {
        Self::with(ServerOptions::default(), |_| {})
    }

    pub fn with(options: ServerOptions, change: impl FnOnce(&mut TargetDefinition)) -> Self {
        let server = Server::new(options).unwrap();
        let address = "127.0.0.1:0".parse().unwrap();
        server
            .set_portals(&[Portal {
                address,
                group_tag: PORTAL_GROUP,
                advertised: None,
            }])
            .unwrap();
        let device = Arc::new(MemoryTarget::new(16 << 20));
        let mut definition = definition(&device);
        change(&mut definition);
        server.set_targets(vec![definition]).unwrap();
        let address = server.portals()[0].address;
        Self {
            server,
            device,
            address,
        }
    }

    /// A logged-in initiator with the parameters of a fast initiator.
    pub fn log_in(&self) -> Initiator {
        let mut initiator = Initiator::connect(self.address);
        initiator.log_in(HOST, TARGET, FAST);
        initiator
    }
}

pub const FAST: &[(&str, &str)] = &[
    ("HeaderDigest", "None"),
    ("DataDigest", "None"),
    ("InitialR2T", "No"),
    ("ImmediateData", "Yes"),
    ("MaxRecvDataSegmentLength", "262144"),
    ("MaxBurstLength", "1048576"),
    ("FirstBurstLength", "262144"),
    ("MaxOutstandingR2T", "4"),
    ("ErrorRecoveryLevel", "0"),
];

pub fn definition(device: &Arc<MemoryTarget>) -> TargetDefinition {
    TargetDefinition {
        name: TARGET.parse().unwrap(),
        ports: vec![TargetPort {
            portal_group_tag: PORTAL_GROUP,
            relative_target_port: 3,
        }],
        access: TargetAccess::Any,
        authentication: Authentication::default(),
        device: device.clone(),
    }
}

/// A CHAP account that any initiator may use.
pub fn account(name: &str, secret: &[u8]) -> ChapAccount {
    ChapAccount {
        name: name.into(),
        secret: Secret::new(secret).unwrap(),
        initiators: None,
    }
}

/// Only this initiator.
#[allow(dead_code, reason = "each test file uses a part")]
pub fn only(initiator: &str) -> TargetAccess {
    TargetAccess::Initiators([initiator.parse().unwrap()].into())
}

/// Waits until `condition` holds.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(300);
    while !condition() {
        assert!(Instant::now() < until, "timeout: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
