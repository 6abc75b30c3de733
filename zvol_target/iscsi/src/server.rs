// SPDX-License-Identifier: Apache-2.0
//! The server: what its owner can ask for, at any time and from any thread.

use std::collections::HashSet;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};
use tracing::warn;

use crate::config::{Authentication, ConfigurationError, Portal, ServerOptions, TargetDefinition};
use crate::reactor::{Acceptor, Listening, Reactor, Spread};
use crate::registry::{Registry, SessionInformation, UnknownInitiator};

/// Connections the system keeps for us until we accept them.
const BACKLOG: i32 = 256;
/// How long a stop waits for sessions whose commands are still on the disk.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// Why a request to the server failed.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The configuration is refused.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// A portal can't be listened at.
    #[error("cannot listen at {address}: {error}")]
    Listen {
        /// The portal's address.
        address: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
    /// A thread can't be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// A portal that is listened at; dropping it ends that.
struct Open {
    /// As requested; the port may be 0.
    requested: Portal,
    /// As the system gave it.
    actual: Portal,
    #[expect(dead_code, reason = "it is there to be dropped")]
    listening: Listening,
}

/// An iSCSI target server: threads of its own, configured from any thread.
///
/// Dropping it is [`Server::stop`].
pub struct Server {
    registry: Arc<Registry>,
    reactors: Vec<Reactor>,
    acceptor: Option<Acceptor>,
    open: Mutex<Vec<Open>>,
}

impl Server {
    /// Starts the threads; there are no portals and no targets yet.
    ///
    /// # Errors
    /// [`ServerError::Configuration`] for options that make no sense, [`ServerError::Thread`].
    pub fn new(options: ServerOptions) -> Result<Self, ServerError> {
        options.discovery_authentication.validate()?;
        if options.reactors == 0 {
            return Err(ConfigurationError::NoReactor.into());
        }
        let count = options.reactors;
        let registry = Arc::new(Registry::new(options));
        let reactors = (0..count)
            .map(|number| Reactor::start(number, &registry))
            .collect::<Result<Vec<_>, _>>()
            .map_err(ServerError::Thread)?;
        let spread = Spread::new(&reactors, &registry.options);
        let acceptor = Acceptor::start(spread).map_err(ServerError::Thread)?;
        Ok(Self {
            registry,
            reactors,
            acceptor: Some(acceptor),
            open: Mutex::default(),
        })
    }

    /// Listens at exactly these portals from now on. Connections of a portal that goes stay.
    ///
    /// A listener that goes and is in the way of one that comes (every address of the family, and one of them, at one port) is
    /// closed first; others go last.
    ///
    /// # Errors
    /// [`ServerError::Listen`]; those there were are then listened at as before, and those that could be opened before the
    /// error too.
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
            // The ones that took their place are in their way now.
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
                    Err(error) => warn!(%error, "a portal is lost"),
                }
            }
        }
        self.know_portals(&open);
        result
    }

    /// Listens at those of these portals that are not listened at yet and can be; others stay.
    ///
    /// Returns why the rest cannot be: an interface may get its address later.
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
        let listener = listen_at(requested.address).map_err(listen)?;
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

    /// The portals listened at, with the ports the system chose.
    pub fn portals(&self) -> Vec<Portal> {
        self.registry.portals()
    }

    /// Serves exactly these targets from now on.
    ///
    /// Sessions stay as long as their target has the same device and port and still admits their initiator; others are
    /// notified and dropped. Changed CHAP accounts hold from the next login on.
    ///
    /// # Errors
    /// [`ConfigurationError`]; nothing has changed then.
    pub fn set_targets(&self, targets: Vec<TargetDefinition>) -> Result<(), ConfigurationError> {
        check_targets(&targets)?;
        let targets = targets.into_iter();
        let by_name = targets.map(|target| (target.name.clone(), Arc::new(target)));
        self.registry.set_targets(by_name.collect());
        Ok(())
    }

    /// Sets the CHAP accounts of discovery sessions, from the next login on.
    ///
    /// # Errors
    /// [`ConfigurationError`]; nothing has changed then.
    pub fn set_discovery_authentication(
        &self,
        authentication: Authentication,
    ) -> Result<(), ConfigurationError> {
        authentication.validate()?;
        self.registry.set_discovery_authentication(authentication);
        Ok(())
    }

    /// The sessions there are, by TSIH.
    pub fn sessions(&self) -> Vec<SessionInformation> {
        self.registry.sessions()
    }

    /// The last initiators that came and that no target admits, the latest first.
    pub fn unknown_initiators(&self) -> Vec<UnknownInitiator> {
        self.registry.unknown_initiators()
    }

    /// Stops listening, tells initiators (asynchronous message, they come back by themselves) and drops their sessions.
    ///
    /// Blocks until commands under way have ended, 30 seconds at most; false if some had not.
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
            warn!("commands are still under way after the server stopped");
        }
        all
    }

    fn open(&self) -> MutexGuard<'_, Vec<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Checks what [`Server::set_targets`] would be given.
///
/// # Errors
/// What it would refuse.
pub fn check_targets(targets: &[TargetDefinition]) -> Result<(), ConfigurationError> {
    let mut names = HashSet::with_capacity(targets.len());
    for target in targets {
        target.validate()?;
        if !names.insert(&target.name) {
            return Err(ConfigurationError::DuplicateTarget(target.name.clone()));
        }
    }
    Ok(())
}

/// Checks what [`Server::set_discovery_authentication`] would be given.
///
/// # Errors
/// What it would refuse.
pub fn check_authentication(authentication: &Authentication) -> Result<(), ConfigurationError> {
    authentication.validate()
}

fn is_open(open: &[Open], requested: Portal) -> bool {
    open.iter().any(|portal| portal.requested == requested)
}

/// Whether the system does not let both be listened at: one address, or one of the two is every address of its family.
fn is_in_the_way(one: Portal, other: Portal) -> bool {
    let (one, other) = (one.address, other.address);
    let same_family = one.is_ipv4() == other.is_ipv4();
    let overlap =
        one.ip() == other.ip() || one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() == other.port() && other.port() != 0 && same_family && overlap
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
        // So that 0.0.0.0 and [::] can be two portals.
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}
