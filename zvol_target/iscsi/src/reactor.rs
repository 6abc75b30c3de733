// SPDX-License-Identifier: Apache-2.0
//! Reactors: threads that run sessions.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc as blocking};
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
use crate::session::{Connection, Inbound};
use crate::socket::limit_not_sent;

/// Threads of a reactor for blocking calls: enough for several devices that hang.
const BLOCKING_THREADS: usize = 1024;

/// A connection that waits for its reactor.
pub(crate) struct Accepted {
    pub stream: std::net::TcpStream,
    pub group_tag: u16,
    pub arrival: Arrival,
}

/// A connection, and its count by the reactor.
type Counting = (Accepted, Counted);

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
    pub fn send(&self, accepted: Accepted) {
        let counted = Counted::new(&self.count);
        let _ = self.connections.send((accepted, counted));
    }
}

/// A thread that runs sessions.
pub(crate) struct Reactor {
    pub inlet: Inlet,
    pub metrics: RuntimeMetrics,
    ended: blocking::Receiver<()>,
    thread: JoinHandle<()>,
}

impl Reactor {
    pub fn start(number: usize, registry: &Arc<Registry>) -> io::Result<Self> {
        let runtime = new_runtime()?;
        let metrics = runtime.metrics();
        let (connections, accepted) = mpsc::unbounded_channel();
        let (running, ended) = blocking::channel();
        let place = Place {
            registry: Arc::clone(registry),
            number,
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

async fn serve((accepted, _counted): Counting, place: Place) {
    let Accepted {
        stream,
        group_tag,
        arrival,
    } = accepted;
    let opened = TcpStream::from_std(stream).and_then(|stream| {
        stream.set_nodelay(true)?;
        limit_not_sent(&stream)?;
        let addresses = (stream.peer_addr()?, stream.local_addr()?);
        Ok((stream, addresses))
    });
    match opened {
        Ok((stream, addresses)) => {
            serve_stream(stream, addresses, group_tag, &place, Some(arrival)).await;
        }
        Err(error) => debug!(%error, "connection lost before login"),
    }
}

/// Serves one connection from its first byte to its last one. `addresses` are the peer's and ours. `arrival` limits the login.
pub(crate) async fn serve_stream(
    mut stream: TcpStream,
    addresses: (SocketAddr, SocketAddr),
    group_tag: u16,
    place: &Place,
    mut arrival: Option<Arrival>,
) {
    let registry = &place.registry;
    let mut stop = registry.stop_signal();
    let mut inbound = Inbound::new();
    let login = log_in(&mut stream, &mut inbound, registry, group_tag, addresses);
    let login = tokio::select! {
        login = timeout(registry.options.login_timeout, login) => login,
        _ = stop.wait_for(|stop| *stop) => return,
        () = async {
            match &mut arrival {
                Some(arrival) => arrival.evicted().await,
                None => std::future::pending().await,
            }
        } => return,
    };
    match login {
        Ok(Ok(login)) => {
            // Anyone can open a discovery session: it still counts as an arrival, and can be closed for a newer one.
            let arrival = match login.registration.record.session_type {
                SessionType::Discovery => arrival,
                SessionType::Normal => None,
            };
            let reactor = &login.registration.record.reactor;
            reactor.store(place.number, Ordering::Relaxed);
            let session = Connection::new(stream, inbound, Arc::clone(registry), login).run();
            match arrival {
                Some(mut arrival) => tokio::select! {
                    () = session => {}
                    () = arrival.evicted() => {}
                },
                None => session.await,
            }
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
}
