// SPDX-License-Identifier: Apache-2.0
//! `zvaai-target serve`: starts and stops the daemon.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use iscsi::{Server, ServerOptions};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::runtime::{Builder, LocalOptions};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::MissedTickBehavior;
use volume::engine::{self, EngineChoice, EngineError, EngineKind};

use crate::command_line::{Listen, ServeOptions};
use crate::configuration::{ConfigurationFile, FileError};
use crate::control::{ControlMethods, ControlSocket, Engine, SocketError};
use crate::notify::notify;
use crate::service::{Parts, Service, ServiceError, Shared, poll_sizes, retry_failed};
use crate::space;

/// Interval of checks of sizes, and of retries of failed logical units, whose pool may be imported by then.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(2);

/// How long a stop waits for volumes to close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Why the daemon cannot start, or failed at its end.
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
    /// The configured I/O engine.
    #[error("--engine: {0}")]
    Engine(#[from] EngineError),
    /// The runtime, or signals.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
    /// Commands had not ended, or volumes were not closed, when the daemon stopped.
    #[error("commands were still running, or volumes were still closing, at the end")]
    Unfinished,
}

impl DaemonError {
    /// Whether the configuration is invalid, so that a restart cannot help.
    pub fn is_refused_configuration(&self) -> bool {
        match self {
            Self::Configuration(error) => error.is_refusal(),
            Self::Service(ServiceError::Invalid(_) | ServiceError::Refused(_)) => true,
            _ => false,
        }
    }
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
    let result = runtime.block_on(run(options));
    // Do not wait for a path that the system never opened.
    runtime.shutdown_background();
    result
}

/// Connections, volumes and control connections need descriptors; the usual soft limit is 1024.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, limit = ?limit.current, "cannot raise the limit of open files");
    }
}

async fn run(options: &ServeOptions) -> Result<(), DaemonError> {
    // From here on, signals are received and do not end the process.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (file, configuration, vault) = ConfigurationFile::open(&options.config)?;
    let control = ControlSocket::bind(&options.control, options.allow_user.clone())?;
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
    let starting = Service::start(Parts {
        file,
        configuration,
        vault,
        server,
        listen: options.listen.iter().copied().map(portal).collect(),
        engine: choice,
    });
    let service = tokio::select! {
        started = starting => Rc::new(RefCell::new(started?)),
        _ = terminate.recv() => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
    };
    let methods = Rc::new(ControlMethods::new(Rc::clone(&service), engine));
    announce(&service.borrow());
    tokio::select! {
        () = control.serve(methods) => {}
        () = maintain(&service) => {}
        () = space::monitor(&service) => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    notify("STOPPING=1");
    tracing::info!("stopping");
    let (ended, closing) = service.borrow_mut().stop();
    if closing.wait(CLOSE_TIMEOUT).await && ended {
        Ok(())
    } else {
        Err(DaemonError::Unfinished)
    }
}

/// Retries failed logical units, and a configuration file that is not stable yet. Never returns.
async fn maintain(service: &Shared) {
    let mut interval = tokio::time::interval(MAINTENANCE_INTERVAL);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        retry_failed(service);
        poll_sizes(service).await;
        service.borrow_mut().retry_portals();
        if let Err(error) = service.borrow_mut().sync() {
            tracing::error!(%error, "configuration");
        }
    }
}

/// Tests on this thread which engine the reactors can use.
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

fn portal(listen: Listen) -> iscsi::Portal {
    iscsi::Portal {
        address: listen.address,
        group_tag: 1,
        advertised: listen.advertised,
    }
}

/// Announces the start: one line on standard output, and a message to the service manager.
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
