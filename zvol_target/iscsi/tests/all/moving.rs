// SPDX-License-Identifier: Apache-2.0
//! Sessions move to another reactor while hosts use them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use iscsi::ServerOptions;
use iscsi::pdu::TargetPdu;

use crate::support::memory::WAIT;
use crate::support::{FAST, Fixture, Initiator, TARGET, wait_until};

const BLOCK: usize = 512;
/// Commands that a host has outstanding all the time.
const DEPTH: usize = 8;
/// Blocks of a command: the data of short writes is sent with the command, that of long ones is requested.
const SIZES: [u16; 2] = [8, 64];

/// A host that reads and writes at full speed.
struct Host {
    initiator: Initiator,
    /// First block of its part of the disk. The part always has the same content.
    first: u32,
    sent: usize,
    /// Data received, by tag; `None` for a write.
    outstanding: HashMap<u32, Option<Vec<u8>>>,
    max_cmd_sn: u32,
    stat_sn: Option<u32>,
}

impl Host {
    fn log_in(fixture: &Fixture, number: u32) -> Self {
        let mut initiator = Initiator::connect(fixture.address);
        let name = format!("iqn.2001-04.com.example:host{number}");
        initiator.log_in(&name, TARGET, FAST);
        initiator.ping();
        Self {
            max_cmd_sn: initiator.cmd_sn + DEPTH as u32,
            initiator,
            first: number * u32::from(SIZES[1]),
            sent: 0,
            outstanding: HashMap::new(),
            stat_sn: None,
        }
    }

    fn pattern(&self, count: u16) -> Vec<u8> {
        let words =
            (0..u64::from(count) * BLOCK as u64 / 8).map(|word| word + u64::from(self.first));
        words.flat_map(u64::to_be_bytes).collect()
    }

    /// Sends the next command: first one write of everything, then all kinds in turn.
    fn send(&mut self) {
        let count = SIZES[usize::from(self.sent == 0 || self.sent % 4 > 1)];
        if self.sent % 2 == 0 {
            let command = self.initiator.write_command(self.first, count);
            let immediate = if count == SIZES[0] {
                self.pattern(count)
            } else {
                Vec::new()
            };
            self.initiator.send(command.encode(), &immediate);
            self.outstanding.insert(command.initiator_task_tag, None);
        } else {
            let command = self.initiator.read_command(self.first, count);
            self.initiator.send(command.encode(), &[]);
            self.outstanding
                .insert(command.initiator_task_tag, Some(Vec::new()));
        }
        self.sent += 1;
    }

    /// Ends a command. `StatSN` has no gap.
    fn end(&mut self, tag: u32, stat_sn: u32) -> Option<Vec<u8>> {
        let last = self.stat_sn.replace(stat_sn);
        assert!(
            last.is_none_or(|last| stat_sn == last + 1),
            "{last:?} {stat_sn}"
        );
        self.outstanding.remove(&tag).expect("its tag")
    }

    fn receive(&mut self) {
        let received = self.initiator.receive();
        self.max_cmd_sn = match received.pdu {
            TargetPdu::DataIn(pdu) => {
                let tag = pdu.initiator_task_tag;
                if let Some(Some(data)) = self.outstanding.get_mut(&tag) {
                    assert_eq!(data.len(), pdu.buffer_offset as usize);
                    data.extend_from_slice(&received.data);
                }
                if pdu.status_present {
                    let data = self.end(tag, pdu.stat_sn).expect("a read");
                    assert_eq!(data, self.pattern((data.len() / BLOCK) as u16));
                }
                pdu.max_cmd_sn
            }
            TargetPdu::ReadyToTransfer(r2t) => {
                let data = self.pattern(SIZES[1]);
                self.initiator.satisfy(&r2t, &data, 0, 256 << 10);
                r2t.max_cmd_sn
            }
            TargetPdu::ScsiResponse(response) => {
                assert_eq!(response.status, 0);
                self.end(response.initiator_task_tag, response.stat_sn);
                response.max_cmd_sn
            }
            TargetPdu::NopIn(nop) => nop.max_cmd_sn,
            other => panic!("{other:?}"),
        };
    }

    /// Keeps [`DEPTH`] commands outstanding until `stop`, as far as the window permits.
    fn work(&mut self, stop: &AtomicBool) {
        self.send();
        self.receive_all();
        while !stop.load(Ordering::Relaxed) {
            while self.outstanding.len() < DEPTH && self.initiator.cmd_sn <= self.max_cmd_sn {
                self.send();
            }
            self.receive();
        }
        self.receive_all();
    }

    fn receive_all(&mut self) {
        while !self.outstanding.is_empty() {
            self.receive();
        }
    }
}

/// A server with two reactors, and two hosts whose sessions are on the same one.
struct Site {
    fixture: Fixture,
    hosts: [Host; 2],
    /// TSIHs of their sessions.
    sessions: [u16; 2],
    /// Sessions without load.
    _idle: Vec<Host>,
}

impl Site {
    fn new() -> Self {
        let options = ServerOptions {
            reactors: 2,
            balance_interval: Duration::from_millis(1100),
            // The idle host answers no ping.
            keepalive_interval: Duration::from_secs(600),
            ..ServerOptions::default()
        };
        let fixture = Fixture::with(options, |_| {});
        // The reactors are busy, not the hosts.
        fixture.device.read_cost.store(1000, Ordering::Relaxed);
        let mut all: Vec<_> = (0..3)
            .map(|number| Host::log_in(&fixture, number))
            .collect();
        // Three sessions on two reactors: two are together.
        let place = |host: &Host| reactor_of(&fixture, host.initiator.tsih).0;
        let [a, b, c] = [0, 1, 2].map(|host| place(&all[host]));
        let alone = match (a == b, b == c) {
            (true, _) => 2,
            (_, true) => 0,
            _ => 1,
        };
        let idle = vec![all.remove(alone)];
        let hosts: [Host; 2] = all.try_into().ok().unwrap();
        let sessions = [&hosts[0], &hosts[1]].map(|host| host.initiator.tsih);
        Self {
            fixture,
            hosts,
            sessions,
            _idle: idle,
        }
    }
}

/// Reactor and number of commands of a session.
fn reactor_of(fixture: &Fixture, tsih: u16) -> (usize, u64) {
    let sessions = fixture.server.sessions();
    let session = sessions.iter().find(|session| session.tsih == tsih);
    let session = session.expect("the session of the login");
    let commands = session.counters.commands.load(Ordering::Relaxed);
    (session.reactor(), commands)
}

/// Sets its flag when it is dropped.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Both hosts work while `watch` runs. It gets the reactors and numbers of commands of both sessions.
fn while_hosts_work(site: &mut Site, watch: impl FnOnce(&dyn Fn() -> [(usize, u64); 2])) {
    let Site {
        fixture,
        hosts,
        sessions,
        ..
    } = site;
    let stop = AtomicBool::new(false);
    let fixture = &*fixture;
    thread::scope(|scope| {
        for host in hosts {
            scope.spawn(|| host.work(&stop));
        }
        // Also if `watch` panics.
        let _stop = Stop(&stop);
        watch(&|| sessions.map(|tsih| reactor_of(fixture, tsih)));
    });
}

#[test]
fn one_of_two_busy_sessions_moves_to_the_other_reactor() {
    let mut site = Site::new();
    let device = Arc::clone(&site.fixture.device);
    let arrivals = || device.reactors.lock().unwrap().len();
    assert_eq!(arrivals(), 3);
    while_hosts_work(&mut site, |now| {
        wait_until("one of them has moved", || arrivals() > 3);
        let [(_, first), (_, second)] = now();
        wait_until("both are served", || {
            let now = now();
            now[0].1 > first + 2000 && now[1].1 > second + 2000
        });
    });
    let reactors = device.reactors.lock().unwrap();
    assert!(reactors[..3].contains(&reactors[3]), "an unknown thread");
    assert_eq!(device.nexuses.lock().unwrap().len(), 3, "no nexus was lost");
}

#[test]
fn a_session_with_a_command_that_does_not_end_stays_and_is_served() {
    let mut site = Site::new();
    let waiting = site.hosts.each_mut().map(|host| {
        let command = host.initiator.command(&[WAIT]);
        host.initiator.send(command.encode(), &[]);
        command.initiator_task_tag
    });
    while_hosts_work(&mut site, |now| {
        let [(at, _), _] = now();
        let moving = || now().iter().any(|(reactor, _)| *reactor != at);
        wait_until("a session shall move", moving);
        wait_until("it does not", || !moving());
        let [(_, first), (_, second)] = now();
        // More than the window.
        wait_until("both are served", || {
            let now = now();
            now[0].1 > first + 2000 && now[1].1 > second + 2000
        });
    });
    site.fixture.device.release();
    for (host, tag) in site.hosts.iter_mut().zip(waiting) {
        host.outstanding.insert(tag, None);
        host.receive_all();
    }
}
