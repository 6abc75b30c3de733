// SPDX-License-Identifier: Apache-2.0
//! The interface of the server. All methods can be called at any time, from any thread.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};
use tracing::warn;

use crate::acceptor::{Acceptor, Listening};
use crate::config::{ConfigurationError, Portal, ServerOptions, TargetDefinition};
use crate::reactor::Reactor;
use crate::registry::{Registry, SessionRecord, UnknownInitiator};
use crate::spread::Spread;

/// Connections that the system queues until they are accepted.
const BACKLOG: i32 = 256;
/// How long a stop waits for sessions with running commands.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The configuration is invalid.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// A portal cannot be opened.
    #[error("cannot listen at {address}: {error}")]
    Listen {
        /// The portal's address.
        address: SocketAddr,
        /// Error of the system.
        error: io::Error,
    },
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// An open portal. Dropping it closes the portal.
struct Open {
    /// The requested portal; its port can be 0.
    requested: Portal,
    /// The portal with the system's choices.
    actual: Portal,
    #[expect(dead_code, reason = "dropping it closes the portal")]
    listening: Listening,
}

/// An iSCSI target server. It has separate threads, and can be configured from any thread.
///
/// Dropping it stops it like [`Server::stop`].
pub struct Server {
    registry: Arc<Registry>,
    reactors: Vec<Reactor>,
    acceptor: Option<Acceptor>,
    open: Mutex<Vec<Open>>,
}

impl Server {
    /// Starts the threads, without portals and targets.
    ///
    /// # Errors
    /// [`ServerError::Configuration`] for invalid options, [`ServerError::Thread`].
    pub fn new(options: ServerOptions) -> Result<Self, ServerError> {
        if options.reactors == 0 {
            return Err(ConfigurationError::NoReactor.into());
        }
        let count = options.reactors;
        let registry = Arc::new(Registry::new(options));
        let reactors = (0..count)
            .map(|number| Reactor::start(number, &registry))
            .collect::<io::Result<Vec<_>>>()
            .map_err(ServerError::Thread)?;
        let spread = Spread::new(&reactors, &registry.options);
        let acceptor =
            Acceptor::start(spread, registry.options.load_interval).map_err(ServerError::Thread)?;
        Ok(Self {
            registry,
            reactors,
            acceptor: Some(acceptor),
            open: Mutex::default(),
        })
    }

    /// Opens exactly these portals. Connections of a closed portal continue.
    ///
    /// An old portal that conflicts with a new one is closed before: the same port, and one of the addresses is unspecified.
    /// Other old portals are closed at the end.
    ///
    /// # Errors
    /// [`ServerError::Listen`]. Then the old portals are open again, and also the new ones that were opened before the error.
    pub fn set_portals(&self, portals: &[Portal]) -> Result<(), ServerError> {
        let mut open = self.open();
        let going = |portal: &Open| !portals.contains(&portal.requested);
        let mut closed = Vec::new();
        let mut result = Ok(());
        for &requested in portals {
            if is_open(&open, requested) {
                continue;
            }
            open.retain(|portal| {
                let stays = !going(portal) || !is_in_the_way(portal.actual, requested);
                if !stays {
                    closed.push((portal.requested, portal.actual));
                }
                stays
            });
            result = self.listen(&mut open, requested);
            if result.is_err() {
                break;
            }
        }
        if result.is_ok() {
            open.retain(|portal| !going(portal));
        } else {
            // The new portals conflict with the old ones that must be opened again.
            open.retain(|portal| {
                let mut closed = closed.iter();
                !closed.any(|&(_, old)| is_in_the_way(portal.actual, old))
            });
            for (requested, actual) in closed {
                match self.listen(&mut open, actual) {
                    Ok(()) => open
                        .iter_mut()
                        .rev()
                        .take(1)
                        .for_each(|last| last.requested = requested),
                    Err(error) => warn!(%error, "a portal cannot be opened again"),
                }
            }
        }
        self.know_portals(&open);
        result
    }

    /// Opens those of these portals that are not open and can be opened. Open portals are not changed.
    ///
    /// Returns the other portals with their errors: an interface can get its address later.
    pub fn open_portals(&self, portals: &[Portal]) -> Vec<(Portal, ServerError)> {
        let mut open = self.open();
        let failed = portals.iter().filter_map(|&requested| {
            if is_open(&open, requested) {
                return None;
            }
            let error = self.listen(&mut open, requested).err()?;
            Some((requested, error))
        });
        let failed = failed.collect();
        self.know_portals(&open);
        failed
    }

    fn listen(&self, open: &mut Vec<Open>, requested: Portal) -> Result<(), ServerError> {
        let listen = |error| ServerError::Listen {
            address: requested.address,
            error,
        };
        let Some(acceptor) = &self.acceptor else {
            return Ok(());
        };
        let listener = listen_at(requested.address).map_err(|error| {
            let other = open
                .iter()
                .find(|portal| is_in_the_way(portal.actual, requested));
            listen(match other {
                Some(other) if error.kind() == io::ErrorKind::AddrInUse => {
                    in_use_by(other.actual.address)
                }
                _ => error,
            })
        })?;
        let actual = Portal {
            address: listener.local_addr().map_err(listen)?,
            ..requested
        };
        let listening = acceptor
            .listen(listener, requested.group_tag)
            .map_err(listen)?;
        open.push(Open {
            requested,
            actual,
            listening,
        });
        Ok(())
    }

    fn know_portals(&self, open: &[Open]) {
        self.registry
            .set_portals(open.iter().map(|portal| portal.actual).collect());
    }

    /// The open portals, with the ports that the system chose.
    pub fn portals(&self) -> Vec<Portal> {
        self.registry.portals()
    }

    /// Serves exactly these targets from now on.
    ///
    /// A session continues if its target has the same device and port and still permits its initiator. Other sessions are
    /// notified and closed. Changed CHAP accounts apply to new logins.
    ///
    /// # Errors
    /// [`ConfigurationError`]; then nothing has changed.
    pub fn set_targets(&self, targets: Vec<TargetDefinition>) -> Result<(), ConfigurationError> {
        check_targets(&targets)?;
        let targets = targets.into_iter();
        let by_name = targets.map(|target| (target.name.clone(), Arc::new(target)));
        self.registry.set_targets(by_name.collect());
        Ok(())
    }

    /// All sessions, by TSIH.
    pub fn sessions(&self) -> Vec<Arc<SessionRecord>> {
        self.registry.sessions()
    }

    /// The last initiators that no target permits, latest first.
    pub fn unknown_initiators(&self) -> Vec<UnknownInitiator> {
        self.registry.unknown_initiators()
    }

    /// Closes the portals, sends initiators an asynchronous message (they log in again later), and closes their sessions.
    ///
    /// Blocks until running commands have ended, at most 10 seconds; false if some have not.
    pub fn stop(mut self) -> bool {
        self.shut_down()
    }

    fn shut_down(&mut self) -> bool {
        self.open().clear();
        self.registry.set_portals(Vec::new());
        self.registry.stop();
        // Ends the acceptor, and with it the last sender to the reactors.
        self.acceptor = None;
        let until = Instant::now() + STOP_TIMEOUT;
        let all = self
            .reactors
            .drain(..)
            .fold(true, |all, reactor| reactor.join(until) && all);
        if !all {
            warn!("commands are still running after the server stopped");
        }
        all
    }

    fn open(&self) -> MutexGuard<'_, Vec<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Checks targets for [`Server::set_targets`], except names and texts: their owner checks those.
///
/// # Errors
/// The errors of [`Server::set_targets`].
pub fn check_targets(targets: &[TargetDefinition]) -> Result<(), ConfigurationError> {
    targets.iter().try_for_each(TargetDefinition::validate)
}

fn is_open(open: &[Open], requested: Portal) -> bool {
    open.iter().any(|portal| portal.requested == requested)
}

/// Whether the system refuses to open both: equal addresses, or one of them is the unspecified address of the family.
fn is_in_the_way(first: Portal, other: Portal) -> bool {
    let (first, other) = (first.address, other.address);
    let same_family = first.is_ipv4() == other.is_ipv4();
    let overlap =
        first.ip() == other.ip() || first.ip().is_unspecified() || other.ip().is_unspecified();
    first.port() == other.port() && other.port() != 0 && same_family && overlap
}

/// "Address already in use", with the portal that has it and what to do.
fn in_use_by(other: SocketAddr) -> io::Error {
    let reason = format!("the portal {other} has this port; remove or replace it");
    io::Error::new(io::ErrorKind::AddrInUse, reason)
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shut_down();
    }
}

fn listen_at(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // Then 0.0.0.0 and [::] can be two portals.
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}
