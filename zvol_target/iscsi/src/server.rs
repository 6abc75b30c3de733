//! The server: what its owner can ask for, at any time and from any thread.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};
use tracing::warn;

use crate::config::{Authentication, ConfigurationError, Portal, ServerOptions, TargetDefinition};
use crate::reactor::{Acceptor, Listening, Reactor, Spread};
use crate::registry::{Registry, SessionInformation};

/// Connections the system keeps for us until we accept them.
const BACKLOG: i32 = 256;
/// How long a stop waits for sessions whose commands are still on the disk.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// Why a server could not do what it was asked for.
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
    /// As asked for; the port may be 0.
    asked: Portal,
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
    /// # Errors
    /// [`ServerError::Listen`]; the portals that could be opened before it, and those there were, are then open.
    pub fn set_portals(&self, portals: &[Portal]) -> Result<(), ServerError> {
        let mut open = self.open();
        let result = portals.iter().try_for_each(|&asked| {
            if open.iter().any(|portal| portal.asked == asked) {
                return Ok(());
            }
            let listen = |error| ServerError::Listen {
                address: asked.address,
                error,
            };
            // The same address with another tag: the old listener has to go first.
            open.retain(|portal| {
                portal.asked.address != asked.address || asked.address.port() == 0
            });
            let listener = listen_at(asked.address).map_err(listen)?;
            let actual = Portal {
                address: listener.local_addr().map_err(listen)?,
                ..asked
            };
            let Some(acceptor) = &self.acceptor else {
                return Ok(());
            };
            let listening = acceptor.listen(listener, asked.group_tag).map_err(listen)?;
            open.push(Open {
                asked,
                actual,
                listening,
            });
            Ok(())
        });
        if result.is_ok() {
            open.retain(|portal| portals.contains(&portal.asked));
        }
        self.registry
            .set_portals(open.iter().map(|portal| portal.actual).collect());
        result
    }

    /// The portals listened at, with the ports the system chose.
    pub fn portals(&self) -> Vec<Portal> {
        self.registry.portals()
    }

    /// Serves exactly these targets from now on.
    ///
    /// Sessions stay as long as their target has the same device and port and still admits their initiator; others are
    /// told and dropped. Changed CHAP accounts hold from the next login on.
    ///
    /// # Errors
    /// [`ConfigurationError`]; nothing has changed then.
    pub fn set_targets(&self, targets: Vec<TargetDefinition>) -> Result<(), ConfigurationError> {
        let mut by_name = HashMap::with_capacity(targets.len());
        for target in targets {
            target.validate()?;
            let name = target.name.clone();
            if by_name.insert(name.clone(), Arc::new(target)).is_some() {
                return Err(ConfigurationError::DuplicateTarget(name));
            }
        }
        self.registry.set_targets(by_name);
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
