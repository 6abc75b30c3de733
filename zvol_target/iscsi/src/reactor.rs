// SPDX-License-Identifier: Apache-2.0
//! Threads of the server: one accepts connections, each of the others is a reactor that runs sessions.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc as blocking};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::runtime::{self, Handle, Runtime, RuntimeMetrics};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{sleep, timeout};
use tracing::{debug, error, warn};

use crate::arrivals::{Arrival, Arrivals};
use crate::config::ServerOptions;
use crate::login::{LoginFailure, SessionType, log_in};
use crate::registry::{Registry, network_of};
use crate::session::{Connection, Inbound};
use crate::socket::limit_not_sent;

/// Pause after accept fails for lack of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Threads of a reactor for blocking calls: enough for several devices that hang.
const BLOCKING_THREADS: usize = 1024;

/// A connection that waits for its reactor.
struct Accepted {
    stream: std::net::TcpStream,
    group_tag: u16,
    arrival: Arrival,
    /// Counts the connection of the reactor.
    counted: Counted,
}

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

fn new_runtime() -> io::Result<Runtime> {
    runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()
}

/// A thread that runs sessions.
pub(crate) struct Reactor {
    connections: mpsc::UnboundedSender<Accepted>,
    count: Arc<AtomicUsize>,
    metrics: RuntimeMetrics,
    ended: blocking::Receiver<()>,
    thread: JoinHandle<()>,
}

impl Reactor {
    pub fn start(number: usize, registry: &Arc<Registry>) -> io::Result<Self> {
        let runtime = new_runtime()?;
        let metrics = runtime.metrics();
        let (connections, accepted) = mpsc::unbounded_channel();
        let (running, ended) = blocking::channel();
        let registry = Arc::clone(registry);
        let thread = thread::Builder::new()
            .name(format!("iscsi-{number}"))
            .spawn(move || {
                LocalSet::new().block_on(&runtime, serve_all(accepted, &registry));
                drop(running);
            })?;
        Ok(Self {
            connections,
            count: Arc::default(),
            metrics,
            ended,
            thread,
        })
    }

    /// Waits until the sessions have ended. False if they have not by `until`. Stop the acceptor first.
    pub fn join(self, until: Instant) -> bool {
        drop(self.connections);
        let left = until.saturating_duration_since(Instant::now());
        let ended = self.ended.recv_timeout(left) != Err(blocking::RecvTimeoutError::Timeout);
        ended && self.thread.join().is_ok()
    }
}

async fn serve_all(mut accepted: mpsc::UnboundedReceiver<Accepted>, registry: &Arc<Registry>) {
    let mut sessions = JoinSet::new();
    loop {
        tokio::select! {
            accepted = accepted.recv() => match accepted {
                Some(accepted) => {
                    let registry = Arc::clone(registry);
                    sessions.spawn_local(serve(accepted, registry));
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

async fn serve(accepted: Accepted, registry: Arc<Registry>) {
    let Accepted {
        stream,
        group_tag,
        arrival,
        counted: _counted,
    } = accepted;
    let opened = TcpStream::from_std(stream).and_then(|stream| {
        stream.set_nodelay(true)?;
        limit_not_sent(&stream)?;
        let addresses = (stream.peer_addr()?, stream.local_addr()?);
        Ok((stream, addresses))
    });
    match opened {
        Ok((stream, addresses)) => {
            serve_stream(stream, addresses, group_tag, registry, Some(arrival)).await;
        }
        Err(error) => debug!(%error, "connection lost before login"),
    }
}

/// Serves one connection from its first to its last byte. `addresses` are the peer's and ours. `arrival` limits the login.
pub(crate) async fn serve_stream(
    mut stream: TcpStream,
    addresses: (SocketAddr, SocketAddr),
    group_tag: u16,
    registry: Arc<Registry>,
    mut arrival: Option<Arrival>,
) {
    let mut stop = registry.stop_signal();
    let mut inbound = Inbound::new();
    let login = log_in(&mut stream, &mut inbound, &registry, group_tag, addresses);
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
            let place = match login.registration.record.session_type {
                SessionType::Discovery => arrival,
                SessionType::Normal => None,
            };
            let session = Connection::new(stream, inbound, registry, login).run();
            match place {
                Some(mut place) => tokio::select! {
                    () = session => {}
                    () = place.evicted() => {}
                },
                None => session.await,
            }
        }
        // Monitors and port scanners open connections and close them.
        Ok(Err(LoginFailure::Closed)) => debug!(peer = %addresses.0, "closed before login"),
        Ok(Err(error)) => warn!(peer = %addresses.0, %error, "login failed"),
        Err(_) => warn!(peer = %addresses.0, "login took too long"),
    }
}

/// Shortest period of a load measurement.
const MEASURED: Duration = Duration::from_secs(1);

/// A reactor, for the thread that accepts.
struct Choice {
    connections: mpsc::UnboundedSender<Accepted>,
    count: Arc<AtomicUsize>,
    metrics: RuntimeMetrics,
    /// Time that it ran tasks, at the last measurement.
    ran: Duration,
    /// Share of the time in which it ran tasks before the last measurement, per mille.
    busy: u64,
    /// Connections assigned after the last measurement.
    given: u64,
}

/// Assigns each connection to the reactor with the least load; if the load is about equal, to the one with the fewest
/// connections.
pub(crate) struct Spread {
    choices: Mutex<(Instant, Vec<Choice>)>,
    arrivals: Arc<Arrivals>,
}

impl Spread {
    pub fn new(reactors: &[Reactor], options: &ServerOptions) -> Self {
        let of = |reactor: &Reactor| Choice {
            connections: reactor.connections.clone(),
            count: Arc::clone(&reactor.count),
            metrics: reactor.metrics.clone(),
            ran: Duration::ZERO,
            busy: 0,
            given: 0,
        };
        Self {
            choices: Mutex::new((Instant::now(), reactors.iter().map(of).collect())),
            arrivals: Arc::new(Arrivals::new(
                options.max_logins,
                options.max_logins_per_peer,
            )),
        }
    }

    fn give(&self, stream: std::net::TcpStream, peer: IpAddr, group_tag: u16) {
        // No code panics while it holds the lock.
        let mut choices = self.choices.lock().unwrap_or_else(PoisonError::into_inner);
        let (measured, choices) = &mut *choices;
        let passed = measured.elapsed();
        if passed >= MEASURED {
            *measured += passed;
            choices.iter_mut().for_each(|choice| choice.measure(passed));
        }
        // Expected load of a new connection.
        let count = |choice: &Choice| choice.count.load(Ordering::Relaxed);
        let busy: u64 = choices.iter().map(|choice| choice.busy).sum();
        let each = busy / choices.iter().map(count).sum::<usize>().max(1) as u64;
        let load = |choice: &Choice| (choice.busy + choice.given * each) / 50;
        let least = choices
            .iter_mut()
            .min_by_key(|choice| (load(choice), count(choice)));
        if let Some(choice) = least {
            choice.given += 1;
            // It fails when the server stops; then the connection is closed.
            let _ = choice.connections.send(Accepted {
                stream,
                group_tag,
                arrival: self.arrivals.enter(network_of(peer)),
                counted: Counted::new(&choice.count),
            });
        }
    }
}

impl Choice {
    /// Measures the load of the time that has passed since the last measurement.
    fn measure(&mut self, passed: Duration) {
        let ran = self.metrics.worker_total_busy_duration(0);
        let more = ran.saturating_sub(self.ran).as_millis() as u64;
        self.busy = more * 1000 / (passed.as_millis() as u64).max(1);
        (self.ran, self.given) = (ran, 0);
    }
}

/// The thread that accepts connections. Dropping it ends the thread.
pub(crate) struct Acceptor {
    runtime: Handle,
    spread: Arc<Spread>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// An open portal. Dropping it closes the portal; its address is free when the drop returns.
pub(crate) struct Listening {
    close: Option<oneshot::Sender<()>>,
    closed: blocking::Receiver<()>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.close = None;
        // No message is sent: it returns when the sender is dropped, with the listener or with the runtime.
        let _ = self.closed.recv();
    }
}

impl Acceptor {
    pub fn start(spread: Spread) -> io::Result<Self> {
        let runtime = new_runtime()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::Builder::new()
            .name("iscsi-accept".into())
            .spawn(move || {
                // Ready when the sender is dropped; listeners end with the runtime.
                let _ = runtime.block_on(stopped);
            })?;
        Ok(Self {
            runtime: handle,
            spread: Arc::new(spread),
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Accepts connections of a portal.
    pub fn listen(&self, listener: TcpListener, group_tag: u16) -> io::Result<Listening> {
        let _inside = self.runtime.enter();
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let (close, to_close) = oneshot::channel::<()>();
        let (open, closed) = blocking::channel();
        let spread = Arc::clone(&self.spread);
        self.runtime.spawn(async move {
            tokio::select! {
                _ = to_close => {}
                () = accept(listener, group_tag, &spread) => {}
            }
            // The listener is dropped.
            drop(open);
        });
        Ok(Listening {
            close: Some(close),
            closed,
        })
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(listener: tokio::net::TcpListener, group_tag: u16, spread: &Spread) {
    loop {
        match listener
            .accept()
            .await
            .and_then(|(stream, peer)| Ok((stream.into_std()?, peer.ip())))
        {
            Ok((stream, peer)) => spread.give(stream, peer, group_tag),
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
