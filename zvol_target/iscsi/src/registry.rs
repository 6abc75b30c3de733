// SPDX-License-Identifier: Apache-2.0
//! State that all reactors share: targets, portals, sessions. Its lock is held only for short lookups, never across an await.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use futures_util::task::AtomicWaker;
use tokio::sync::watch;

use crate::config::{Portal, ServerOptions, TargetDefinition, TargetPort};
use crate::login::{Established, LoginStatus, NegotiatedParameters, SessionType};
use crate::name::IscsiName;

/// How long a login waits until the session that it replaces is deregistered. Units with its commands are fenced.
const REINSTATEMENT_TIMEOUT: Duration = Duration::from_secs(10);

/// Number of recorded unknown initiators, the latest ones. Anyone who reaches a portal can invent names.
const UNKNOWN_INITIATORS: usize = 32;

/// An initiator that no target permits, and the time of its last login or discovery.
#[derive(Clone, Debug)]
pub struct UnknownInitiator {
    /// Its iSCSI name.
    pub initiator: IscsiName,
    /// Its address.
    pub address: IpAddr,
    /// Time of its last login or discovery.
    pub at: SystemTime,
}

/// Why a session is ended by the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum EndReason {
    /// The initiator logged in again.
    Reinstated = 1,
    /// The target was removed, or no longer permits the initiator.
    Removed = 2,
    /// The server stops.
    Shutdown = 3,
    /// All sessions together hold too much memory, and this one holds the most.
    MemoryShort = 4,
}

/// Ends a session, from any thread.
#[derive(Default)]
pub(crate) struct EndSignal {
    reason: AtomicU8,
    waker: AtomicWaker,
}

impl EndSignal {
    fn send(&self, reason: EndReason) {
        let reason = reason as u8;
        let _ = self
            .reason
            .compare_exchange(0, reason, Ordering::Release, Ordering::Relaxed);
        self.waker.wake();
    }

    /// Ready with the reason to end; wakes the caller then.
    pub fn poll(&self, context: &mut Context<'_>) -> Poll<EndReason> {
        self.waker.register(context.waker());
        match self.reason.load(Ordering::Acquire) {
            0 => Poll::Pending,
            1 => Poll::Ready(EndReason::Reinstated),
            2 => Poll::Ready(EndReason::Removed),
            4 => Poll::Ready(EndReason::MemoryShort),
            _ => Poll::Ready(EndReason::Shutdown),
        }
    }

    fn is_sent(&self) -> bool {
        self.reason.load(Ordering::Acquire) != 0
    }
}

/// Counters of a session. One reactor writes; any thread can read.
#[derive(Debug, Default)]
pub struct Counters {
    /// SCSI commands received.
    pub commands: AtomicU64,
    /// Bytes sent to the initiator as Data-In.
    pub data_in_bytes: AtomicU64,
    /// Bytes received from the initiator as Data-Out.
    pub data_out_bytes: AtomicU64,
}

impl Counters {
    /// Adds without a locked instruction, as there is one writer.
    pub(crate) fn add(counter: &AtomicU64, count: u64) {
        counter.store(
            counter.load(Ordering::Relaxed).wrapping_add(count),
            Ordering::Relaxed,
        );
    }
}

/// A session in the registry.
pub struct SessionRecord {
    /// Target Session Identifying Handle.
    pub tsih: u16,
    /// Initiator's iSCSI name.
    pub initiator: IscsiName,
    /// Initiator Session ID.
    pub isid: [u8; 6],
    pub(crate) cid: u16,
    /// Kind of session.
    pub session_type: SessionType,
    /// Target and port; `None` in a discovery session.
    pub target: Option<(Arc<TargetDefinition>, TargetPort)>,
    /// CHAP account used, if any.
    pub account: Option<String>,
    /// Initiator's address.
    pub peer: SocketAddr,
    /// Our address.
    pub local: SocketAddr,
    /// The negotiated parameters.
    pub parameters: NegotiatedParameters,
    /// End of the login.
    pub logged_in_at: SystemTime,
    /// Counters of the session.
    pub counters: Counters,
    pub(crate) reactor: AtomicUsize,
    /// Memory that the session held at its last report, bytes.
    pub(crate) held_bytes: AtomicUsize,
    pub(crate) end: EndSignal,
    ended: watch::Sender<bool>,
}

impl SessionRecord {
    /// Number of the reactor thread that runs the session.
    pub fn reactor(&self) -> usize {
        self.reactor.load(Ordering::Relaxed)
    }

    /// Same initiator port, target and portal group (RFC 7143 6.3.5).
    fn is_same_nexus(&self, login: &Established) -> bool {
        let (Some((ours, our_port)), Some((theirs, their_port))) = (&self.target, &login.target)
        else {
            return false;
        };
        self.initiator == login.initiator
            && self.isid == login.isid
            && ours.name == theirs.name
            && our_port.portal_group_tag == their_port.portal_group_tag
    }
}

/// The place of a session in the registry. Dropping it removes the session.
pub(crate) struct Registration {
    registry: Arc<Registry>,
    pub record: Arc<SessionRecord>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.registry.lock().sessions.remove(&self.record.tsih);
        self.record.ended.send_replace(true);
    }
}

/// The shared state of one server.
pub(crate) struct Registry {
    state: Mutex<State>,
    next_nexus: AtomicU64,
    /// Memory that all sessions hold, bytes.
    held_bytes: AtomicUsize,
    stop: watch::Sender<bool>,
    pub options: ServerOptions,
}

#[derive(Default)]
struct State {
    targets: HashMap<IscsiName, Arc<TargetDefinition>>,
    /// Open portals, with the addresses that the system chose.
    portals: Vec<Portal>,
    sessions: HashMap<u16, Arc<SessionRecord>>,
    /// Latest first.
    unknown: VecDeque<UnknownInitiator>,
    last_tsih: u16,
    stopping: bool,
}

impl Registry {
    pub fn new(options: ServerOptions) -> Self {
        Self {
            state: Mutex::default(),
            next_nexus: AtomicU64::new(1),
            held_bytes: AtomicUsize::new(0),
            stop: watch::Sender::new(false),
            options,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock; the maps would be consistent even then.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the memory that a session holds. If all sessions exceed the budget, ends the session that holds the most.
    pub fn set_held(&self, session: &SessionRecord, bytes: usize) {
        let before = session.held_bytes.swap(bytes, Ordering::Relaxed);
        if bytes < before {
            self.held_bytes.fetch_sub(before - bytes, Ordering::Relaxed);
            return;
        }
        let more = bytes - before;
        let all = more + self.held_bytes.fetch_add(more, Ordering::Relaxed);
        if all > self.options.memory_budget {
            self.end_largest(all - self.options.memory_budget);
        }
    }

    /// Ends the sessions that hold the most, until ending sessions hold at least `excess` bytes.
    fn end_largest(&self, excess: usize) {
        let state = self.lock();
        let held = |session: &SessionRecord| session.held_bytes.load(Ordering::Relaxed);
        let (ending, others): (Vec<_>, Vec<_>) = state
            .sessions
            .values()
            .partition(|session| session.end.is_sent());
        let mut freed: usize = ending.into_iter().map(|session| held(session)).sum();
        let mut others: Vec<_> = others
            .into_iter()
            .map(|session| (held(session), session))
            .collect();
        others.sort_unstable_by_key(|(held, _)| *held);
        while let Some((held, session)) = others.pop().filter(|_| freed < excess) {
            session.end.send(EndReason::MemoryShort);
            freed += held;
        }
    }

    /// A nexus identifier, unique for this server.
    pub fn new_nexus_identifier(&self) -> u64 {
        self.next_nexus.fetch_add(1, Ordering::Relaxed)
    }

    pub fn set_portals(&self, portals: Vec<Portal>) {
        self.lock().portals = portals;
    }

    pub fn portals(&self) -> Vec<Portal> {
        self.lock().portals.clone()
    }

    pub fn target(&self, name: &IscsiName) -> Option<Arc<TargetDefinition>> {
        self.lock().targets.get(name).cloned()
    }

    /// Targets that permit an initiator, by name.
    pub fn visible_targets(&self, initiator: &IscsiName) -> Vec<Arc<TargetDefinition>> {
        let mut targets: Vec<_> = self
            .lock()
            .targets
            .values()
            .filter(|target| target.admits(initiator))
            .cloned()
            .collect();
        targets.sort_by(|a, b| a.name.cmp(&b.name));
        targets
    }

    /// Records an initiator that no target permits.
    pub fn remember_unknown(&self, initiator: IscsiName, address: IpAddr) {
        let unknown = &mut self.lock().unknown;
        unknown.retain(|known| known.initiator != initiator || known.address != address);
        unknown.truncate(UNKNOWN_INITIATORS - 1);
        unknown.push_front(UnknownInitiator {
            initiator,
            address,
            at: SystemTime::now(),
        });
    }

    /// The recorded initiators that still no target permits, latest first.
    pub fn unknown_initiators(&self) -> Vec<UnknownInitiator> {
        let mut state = self.lock();
        let State {
            unknown, targets, ..
        } = &mut *state;
        unknown.retain(|known| {
            !targets
                .values()
                .any(|target| target.admits(&known.initiator))
        });
        unknown.iter().cloned().collect()
    }

    /// Replaces all targets, and ends the sessions that are no longer permitted.
    pub fn set_targets(&self, targets: HashMap<IscsiName, Arc<TargetDefinition>>) {
        let mut state = self.lock();
        state.targets = targets;
        for session in state.sessions.values() {
            if session.target.is_some() && !state.allows(session) {
                session.end.send(EndReason::Removed);
            }
        }
    }

    pub fn sessions(&self) -> Vec<Arc<SessionRecord>> {
        let mut sessions: Vec<_> = self.lock().sessions.values().cloned().collect();
        sessions.sort_by_key(|session| session.tsih);
        sessions
    }

    /// Becomes true when the server stops.
    pub fn stop_signal(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    /// Refuses new sessions, and ends the existing ones.
    pub fn stop(&self) {
        self.stop.send_replace(true);
        let mut state = self.lock();
        state.stopping = true;
        for session in state.sessions.values() {
            session.end.send(EndReason::Shutdown);
        }
    }

    /// Registers a session whose login is about to complete. The session that it replaces has ended before this returns.
    ///
    /// # Errors
    /// The status for the refusal of the login.
    pub async fn register(
        self: &Arc<Self>,
        login: &Established,
        peer: SocketAddr,
        local: SocketAddr,
    ) -> Result<Registration, LoginStatus> {
        let mut replacing = false;
        loop {
            let mut ended = {
                let mut state = self.lock();
                if state.stopping {
                    return Err(LoginStatus::ServiceUnavailable);
                }
                let Some(replaced) = state.replaced_by(login, replacing)? else {
                    return self.enter(&mut state, login, peer, local);
                };
                replaced.end.send(EndReason::Reinstated);
                replacing = true;
                replaced.ended.subscribe()
            };
            // Waits until the old session is deregistered. Units with its commands are fenced.
            match tokio::time::timeout(REINSTATEMENT_TIMEOUT, ended.wait_for(|ended| *ended)).await
            {
                Ok(_) => {}
                Err(_) => return Err(LoginStatus::OutOfResources),
            }
        }
    }

    fn enter(
        self: &Arc<Self>,
        state: &mut State,
        login: &Established,
        peer: SocketAddr,
        local: SocketAddr,
    ) -> Result<Registration, LoginStatus> {
        if login.session_type == SessionType::Normal {
            // Discovery sessions are limited together with connections that have not logged in.
            let sessions = || {
                let all = state.sessions.values();
                all.filter(|session| session.session_type == SessionType::Normal)
            };
            let network = network_of(peer.ip());
            let of_peer = sessions().filter(|session| network_of(session.peer.ip()) == network);
            let of_initiator = sessions().filter(|session| session.initiator == login.initiator);
            if of_peer.count() >= self.options.max_sessions_per_peer
                || of_initiator.count() >= self.options.max_sessions_per_initiator
                || sessions().count() >= self.options.max_connections
            {
                return Err(LoginStatus::OutOfResources);
            }
        }
        let record = Arc::new(SessionRecord {
            tsih: state
                .new_tsih(login.tsih)
                .ok_or(LoginStatus::OutOfResources)?,
            initiator: login.initiator.clone(),
            isid: login.isid,
            cid: login.cid,
            session_type: login.session_type,
            target: login.target.clone(),
            account: login.account.clone(),
            peer,
            local,
            parameters: login.parameters.clone(),
            logged_in_at: SystemTime::now(),
            counters: Counters::default(),
            reactor: AtomicUsize::new(0),
            held_bytes: AtomicUsize::new(0),
            end: EndSignal::default(),
            ended: watch::Sender::new(false),
        });
        // The targets can have changed during the login.
        if record.target.is_some() && !state.allows(&record) {
            return Err(LoginStatus::TargetRemoved);
        }
        state.sessions.insert(record.tsih, Arc::clone(&record));
        Ok(Registration {
            registry: Arc::clone(self),
            record,
        })
    }
}

/// The prefix that limits count an address by: an IPv6 host has all addresses with the same 64 bits.
pub(crate) fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::from([a, b, c, d, 0, 0, 0, 0]).into()
        }
    }
}

impl State {
    /// Whether the current targets permit a session.
    fn allows(&self, session: &SessionRecord) -> bool {
        session.target.as_ref().is_some_and(|(target, port)| {
            self.targets.get(&target.name).is_some_and(|current| {
                Arc::ptr_eq(&current.device, &target.device)
                    && current.port(port.portal_group_tag) == Some(*port)
                    && current.admits(&session.initiator)
            })
        })
    }

    /// The session that a login replaces.
    fn replaced_by(
        &self,
        login: &Established,
        replacing: bool,
    ) -> Result<Option<Arc<SessionRecord>>, LoginStatus> {
        let mut same = self
            .sessions
            .values()
            .filter(|session| session.is_same_nexus(login));
        if login.tsih == 0 {
            return Ok(same.next().cloned());
        }
        match self.sessions.get(&login.tsih) {
            // Connection reinstatement (6.3.4): replaces the only connection of the session, and ends all its commands.
            Some(session) if session.is_same_nexus(login) && session.cid == login.cid => {
                Ok(Some(Arc::clone(session)))
            }
            // MaxConnections is 1.
            Some(session) if session.is_same_nexus(login) => Err(LoginStatus::TooManyConnections),
            // The initiator's session belongs to a different target or portal group.
            Some(session) if session.initiator == login.initiator && session.isid == login.isid => {
                Err(LoginStatus::CannotIncludeInSession)
            }
            // The session ended a moment ago.
            None if replacing => Ok(same.next().cloned()),
            _ => Err(LoginStatus::SessionDoesNotExist),
        }
    }

    fn new_tsih(&mut self, requested: u16) -> Option<u16> {
        if requested != 0 && !self.sessions.contains_key(&requested) {
            return Some(requested);
        }
        for _ in 0..=u16::MAX {
            self.last_tsih = self.last_tsih.wrapping_add(1);
            if self.last_tsih != 0 && !self.sessions.contains_key(&self.last_tsih) {
                return Some(self.last_tsih);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_ipv6_network_count_as_one() {
        let network = |text: &str| network_of(text.parse().unwrap());
        assert_eq!(network("2001:db8::1:2:3:4"), network("2001:db8::5"));
        assert_ne!(network("2001:db8:0:1::5"), network("2001:db8::5"));
        assert_ne!(network("192.0.2.1"), network("192.0.2.2"));
        assert_eq!(network("::ffff:192.0.2.1"), network("192.0.2.1"));
    }

    #[tokio::test]
    async fn a_login_that_completes_while_the_server_stops_is_refused() {
        let registry = Arc::new(Registry::new(ServerOptions::default()));
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let login = Established {
            initiator: "iqn.2001-04.com.example:host".parse().unwrap(),
            isid: [0; 6],
            tsih: 0,
            cid: 0,
            session_type: SessionType::Discovery,
            target: None,
            account: None,
            parameters: NegotiatedParameters::default(),
        };
        let first = registry.register(&login, nowhere, nowhere).await;
        assert!(first.is_ok());
        registry.stop();
        let second = registry.register(&login, nowhere, nowhere).await;
        assert_eq!(second.err(), Some(LoginStatus::ServiceUnavailable));
    }
}
