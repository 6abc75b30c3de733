// SPDX-License-Identifier: Apache-2.0
//! Reactors: threads that run sessions.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, mpsc as blocking};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use tokio::net::TcpStream;
use tokio::runtime::{self, Runtime, RuntimeMetrics};
use tokio::sync::mpsc;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::timeout;
use tracing::{debug, error, warn};

use crate::arrivals::Arrival;
use crate::login::{LoginFailure, SessionType, log_in};
use crate::registry::Registry;
use crate::session::{Connection, Inbound, Moved};
use crate::socket::limit_not_sent;

/// Threads of a reactor for blocking calls: enough for several devices that hang.
const BLOCKING_THREADS: usize = 1024;

/// A connection that waits for its reactor.
pub(crate) enum Arriving {
    /// Accepted, before its login.
    Accepted {
        stream: std::net::TcpStream,
        group_tag: u16,
        arrival: Arrival,
    },
    /// A session of another reactor.
    Moved(Moved),
}

/// A connection, and its count by the reactor.
type Counting = (Arriving, Counted);

/// Counts a connection until it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(crate) fn new_runtime() -> io::Result<Runtime> {
    runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()
}

/// Where a reactor gets its connections from.
#[derive(Clone)]
pub(crate) struct Inlet {
    connections: mpsc::UnboundedSender<Counting>,
    pub count: Arc<AtomicUsize>,
}

impl Inlet {
    /// Assigns a connection. It is closed if the server stops.
    pub fn send(&self, arriving: Arriving) {
        let counted = Counted::new(&self.count);
        let _ = self.connections.send((arriving, counted));
    }
}

/// The inlets of all reactors, for sessions that move. They are weak, so that reactors end when the acceptor has ended.
type Peers = OnceLock<Vec<(mpsc::WeakUnboundedSender<Counting>, Arc<AtomicUsize>)>>;

/// A thread that runs sessions.
pub(crate) struct Reactor {
    pub inlet: Inlet,
    pub metrics: RuntimeMetrics,
    ended: blocking::Receiver<()>,
    thread: JoinHandle<()>,
}

impl Reactor {
    /// Starts `count` threads.
    pub fn start_all(count: usize, registry: &Arc<Registry>) -> io::Result<Vec<Self>> {
        let peers = Arc::<Peers>::default();
        let start = |number| Self::start(number, registry, &peers);
        let all = (0..count).map(start).collect::<io::Result<Vec<_>>>()?;
        let weak = |reactor: &Self| {
            let Inlet { connections, count } = &reactor.inlet;
            (connections.downgrade(), Arc::clone(count))
        };
        let _ = peers.set(all.iter().map(weak).collect());
        Ok(all)
    }

    fn start(number: usize, registry: &Arc<Registry>, peers: &Arc<Peers>) -> io::Result<Self> {
        let runtime = new_runtime()?;
        let metrics = runtime.metrics();
        let (connections, accepted) = mpsc::unbounded_channel();
        let (running, ended) = blocking::channel();
        let place = Place {
            registry: Arc::clone(registry),
            number,
            peers: Arc::clone(peers),
        };
        let thread = thread::Builder::new()
            .name(format!("iscsi-{number}"))
            .spawn(move || {
                LocalSet::new().block_on(&runtime, serve_all(accepted, &place));
                drop(running);
            })?;
        Ok(Self {
            inlet: Inlet {
                connections,
                count: Arc::default(),
            },
            metrics,
            ended,
            thread,
        })
    }

    /// Waits until the sessions have ended. False if they have not by `until`. Stop the acceptor first.
    pub fn join(self, until: Instant) -> bool {
        drop(self.inlet);
        let left = until.saturating_duration_since(Instant::now());
        let ended = self.ended.recv_timeout(left) != Err(blocking::RecvTimeoutError::Timeout);
        ended && self.thread.join().is_ok()
    }
}

/// What the sessions of a reactor share.
#[derive(Clone)]
pub(crate) struct Place {
    pub registry: Arc<Registry>,
    /// Number of the reactor.
    pub number: usize,
    peers: Arc<Peers>,
}

impl Place {
    /// The only reactor.
    #[cfg(feature = "fuzzing")]
    pub fn alone(registry: Arc<Registry>) -> Self {
        Self {
            registry,
            number: 0,
            peers: Arc::default(),
        }
    }

    /// Hands a session to the reactor that it is assigned to. Returns it if that is this one, or if the server stops.
    fn send(&self, moved: Moved) -> Option<Moved> {
        let to = moved.record().reactor();
        let peer = self.peers.get().and_then(|peers| peers.get(to));
        let Some((connections, count)) = peer.filter(|_| to != self.number) else {
            return Some(moved);
        };
        let Some(connections) = connections.upgrade() else {
            return Some(moved);
        };
        debug!(initiator = %moved.record().initiator, from = self.number, to, "session moves to another reactor");
        Inlet {
            connections,
            count: Arc::clone(count),
        }
        .send(Arriving::Moved(moved));
        None
    }
}

async fn serve_all(mut accepted: mpsc::UnboundedReceiver<Counting>, place: &Place) {
    let mut sessions = JoinSet::new();
    loop {
        tokio::select! {
            accepted = accepted.recv() => match accepted {
                Some(accepted) => {
                    sessions.spawn_local(serve(accepted, place.clone()));
                }
                None => break,
            },
            Some(ended) = sessions.join_next() => log_panic(ended),
        }
    }
    while let Some(ended) = sessions.join_next().await {
        log_panic(ended);
    }
}

fn log_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        error!(%error, "a session panicked; other sessions continue");
    }
}

async fn serve((arriving, _counted): Counting, place: Place) {
    let mut moved = match arriving {
        Arriving::Accepted {
            stream,
            group_tag,
            arrival,
        } => serve_accepted(stream, group_tag, arrival, &place).await,
        Arriving::Moved(moved) => Some(moved),
    };
    while let Some(session) = moved.and_then(|moved| place.send(moved)) {
        moved = match session.resume(Arc::clone(&place.registry), place.number) {
            Ok(connection) => connection.run().await,
            Err(error) => {
                warn!(%error, "a session that moved to this reactor is lost");
                None
            }
        };
    }
}

async fn serve_accepted(
    stream: std::net::TcpStream,
    group_tag: u16,
    arrival: Arrival,
    place: &Place,
) -> Option<Moved> {
    let opened = TcpStream::from_std(stream).and_then(|stream| {
        stream.set_nodelay(true)?;
        limit_not_sent(&stream)?;
        let addresses = (stream.peer_addr()?, stream.local_addr()?);
        Ok((stream, addresses))
    });
    match opened {
        Ok((stream, addresses)) => {
            serve_stream(stream, addresses, group_tag, place, Some(arrival)).await
        }
        Err(error) => {
            debug!(%error, "connection lost before login");
            None
        }
    }
}

/// Serves one connection from its first byte to its last one, or until its session moves to another reactor. `addresses` are the
/// peer's and ours. `arrival` limits the login.
pub(crate) async fn serve_stream(
    mut stream: TcpStream,
    addresses: (SocketAddr, SocketAddr),
    group_tag: u16,
    place: &Place,
    mut arrival: Option<Arrival>,
) -> Option<Moved> {
    let registry = &place.registry;
    let mut stop = registry.stop_signal();
    let mut inbound = Inbound::new();
    let login = log_in(&mut stream, &mut inbound, registry, group_tag, addresses);
    let login = tokio::select! {
        login = timeout(registry.options.login_timeout, login) => login,
        _ = stop.wait_for(|stop| *stop) => return None,
        () = async {
            match &mut arrival {
                Some(arrival) => arrival.evicted().await,
                None => std::future::pending().await,
            }
        } => return None,
    };
    match login {
        Ok(Ok(login)) => {
            // Anyone can open a discovery session: it still counts as an arrival, and can be closed for a newer one.
            let arrival = match login.registration.record.session_type {
                SessionType::Discovery => arrival,
                SessionType::Normal => None,
            };
            let session =
                Connection::new(stream, inbound, Arc::clone(registry), place.number, login).run();
            return match arrival {
                Some(mut arrival) => tokio::select! {
                    moved = session => moved,
                    () = arrival.evicted() => None,
                },
                None => session.await,
            };
        }
        // Monitors and port scanners open connections and close them.
        Ok(Err(LoginFailure::Closed)) => debug!(peer = %addresses.0, "closed before login"),
        Ok(Err(LoginFailure::Refused { initiator, cause })) => {
            let initiator = initiator.map(tracing::field::display);
            warn!(peer = %addresses.0, initiator, %cause, "login refused");
        }
        Ok(Err(error)) => warn!(peer = %addresses.0, %error, "login failed"),
        Err(_) => warn!(peer = %addresses.0, "login took too long"),
    }
    None
}
