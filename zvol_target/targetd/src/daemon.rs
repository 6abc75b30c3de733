//! `zvaai-target serve`: from configuration to a serving daemon, and to its end.

use std::cell::RefCell;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use iscsi::{Server, ServerOptions};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::runtime::{Builder, LocalOptions};
use tokio::signal::unix::{SignalKind, signal};
use volume::engine::{self, EngineChoice, EngineError, EngineKind};

use crate::command_line::ServeOptions;
use crate::configuration::{Configuration, ConfigurationFile, FileError};
use crate::control::{ControlMethods, ControlSocket, Engine, SocketError};
use crate::notify::notify;
use crate::service::{Service, ServiceError};

/// Port of iSCSI (RFC 7143 4.2.7, IANA).
const ISCSI_PORT: u16 = 3260;

/// How often logical units that failed are tried again: their pool may have been imported.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Why the daemon cannot serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// The configuration file.
    #[error(transparent)]
    Configuration(#[from] FileError),
    /// The control socket.
    #[error(transparent)]
    Control(#[from] SocketError),
    /// The iSCSI server.
    #[error(transparent)]
    Server(#[from] iscsi::ServerError),
    /// The configured targets.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The I/O engine that was asked for.
    #[error("--engine: {0}")]
    Engine(#[from] EngineError),
    /// The runtime, or signals.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
    /// Commands had not ended when the daemon stopped.
    #[error("commands were still under way at the end")]
    Unfinished,
}

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// [`DaemonError`].
pub fn serve(options: &ServeOptions) -> Result<(), DaemonError> {
    raise_descriptor_limit();
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())?;
    runtime.block_on(run(options))
}

/// Every connection, volume and control connection takes a descriptor, and the usual soft limit is 1024 of them.
fn raise_descriptor_limit() {
    let found = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: found.maximum,
        ..found
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, limit = ?found.current, "the limit of open files stays");
    }
}

async fn run(options: &ServeOptions) -> Result<(), DaemonError> {
    // From here on a signal is waited for, not fatal.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (file, configuration) = ConfigurationFile::open(&options.config)?;
    let control = ControlSocket::bind(&options.control)?;
    let choice = EngineChoice::from(options.engine);
    let reactors = match options.reactors {
        Some(reactors) => reactors.get(),
        None => std::thread::available_parallelism()?.get(),
    };
    let engine = try_engine(choice, reactors)?;
    let server = Server::new(ServerOptions {
        reactors,
        ..ServerOptions::default()
    })?;
    let portals = portals(options, &configuration);
    let service = Service::start(file, configuration, server, &portals, choice)?;
    let service = Rc::new(RefCell::new(service));
    let methods = Rc::new(ControlMethods::new(Rc::clone(&service), engine));
    announce(&service.borrow());
    let mut retry = tokio::time::interval(RETRY_INTERVAL);
    let serving = control.serve(methods);
    tokio::pin!(serving);
    loop {
        tokio::select! {
            () = &mut serving => {}
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = retry.tick() => service.borrow_mut().retry_failed(),
        }
    }
    notify("STOPPING=1");
    tracing::info!("stopping");
    let stopped = service.borrow_mut().stop();
    if stopped {
        Ok(())
    } else {
        Err(DaemonError::Unfinished)
    }
}

/// What the reactors will find, tried on this thread.
fn try_engine(choice: EngineChoice, reactors: usize) -> Result<Engine, EngineError> {
    let (name, refusal) = match engine::start(choice)? {
        EngineKind::Uring => ("io_uring", None),
        EngineKind::ThreadPool { refusal } => ("threads", refusal.map(|why| why.to_string())),
    };
    tracing::info!(engine = name, refusal, reactors, "I/O engine");
    Ok(Engine {
        reactors,
        name,
        refusal,
    })
}

/// The command line's portals, else the configuration's, else every IPv4 address.
fn portals(options: &ServeOptions, configuration: &Configuration) -> Vec<iscsi::Portal> {
    if !options.listen.is_empty() {
        let listen = options.listen.iter();
        return listen
            .map(|listen| portal(listen.address, 1, listen.advertised))
            .collect();
    }
    if configuration.portals.is_empty() {
        return vec![portal((Ipv4Addr::UNSPECIFIED, ISCSI_PORT).into(), 1, None)];
    }
    let configured = configuration.portals.iter();
    configured
        .map(|portal| self::portal(portal.address, portal.group_tag, portal.advertised))
        .collect()
}

fn portal(address: SocketAddr, group_tag: u16, advertised: Option<SocketAddr>) -> iscsi::Portal {
    iscsi::Portal {
        address,
        group_tag,
        advertised,
    }
}

/// Says that it serves: one line on standard output, and to the service manager.
fn announce(service: &Service) {
    let portals = service.portals();
    let portals: Vec<_> = portals
        .iter()
        .map(|portal| format!("{},{}", portal.address, portal.group_tag))
        .collect();
    let portals = portals.join(" ");
    println!("ready {portals}");
    tracing::info!(portals, "ready");
    notify("READY=1");
}
