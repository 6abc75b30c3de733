//! What is configured and what runs, kept the same: every change is checked, made, and stored before it is answered.
//!
//! All of it is on one thread. What waits (opening a path, the last commands of a unit) is in functions that take the
//! service in its `RefCell` and borrow it between their waits only; their callers see to it that one change is made at a time.

mod accounts;
mod definition;
mod error;
mod luns;
mod maintenance;
mod portals;
mod running;
mod targets;

pub use accounts::AccountSetting;
pub use error::ServiceError;
pub use luns::{CLOSING_TIMEOUT, LunChange, change_lun, create_lun, refresh_lun};
pub use maintenance::{poll_sizes, retry_failed};
pub use running::{Closing, LunState, RunningLun, Unusable};

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use iscsi::{Portal, Server, SessionInformation};
use volume::engine::EngineChoice;

use crate::configuration::{
    Configuration, ConfigurationFile, FileError, Holder, Lun, PortalGroup, Target, Vault,
};
use crate::reactor_device::ReactorDevice;
use definition::{authentication, definition, scsi_ports, unusable_accounts};
use running::{Running, open_apart};

/// How long a start waits, before it listens, for paths that another process still has. The kernel gives up the files of a killed
/// daemon's `io_uring` requests some time after that process is gone, and a host that meanwhile finds its LUN not ready takes
/// it for lost. A path that the system takes longer to open is not waited for.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(10);

/// What a service is made of.
pub struct Parts {
    /// The configuration file, locked.
    pub file: ConfigurationFile,
    /// Its content.
    pub configuration: Configuration,
    /// The secrets in it.
    pub vault: Vault,
    /// The iSCSI server, without portals.
    pub server: Server,
    /// The command line's portals; the configured ones when empty.
    pub listen: Vec<Portal>,
    /// What the server's threads use.
    pub engine: EngineChoice,
}

/// The daemon's state.
pub struct Service {
    file: ConfigurationFile,
    configuration: Configuration,
    vault: Vault,
    running: BTreeMap<String, Running>,
    server: Option<Server>,
    engine: EngineChoice,
    listen: Vec<Portal>,
    started: Instant,
}

impl Service {
    /// Brings up what is configured. A logical unit that cannot be opened is logged, and not ready for hosts.
    ///
    /// # Errors
    /// [`ServiceError::Refused`] when the iSCSI server does not take the targets, [`ServiceError::Server`] when a portal
    /// cannot be listened at, [`ServiceError::NotStored`] when portal groups could not be given identifiers.
    pub async fn start(parts: Parts) -> Result<Self, ServiceError> {
        let mut this = Self {
            file: parts.file,
            configuration: parts.configuration,
            vault: parts.vault,
            running: BTreeMap::new(),
            server: Some(parts.server),
            engine: parts.engine,
            listen: parts.listen,
            started: Instant::now(),
        };
        let mut candidate = this.configuration.clone();
        candidate.know_groups(this.wanted_portals(&candidate).iter().map(|p| p.group_tag));
        if candidate != this.configuration {
            this.store(candidate)?;
        }
        this.running = bring_up(&this.configuration, this.engine).await?;
        for (holder, accounts) in this.configuration.holders() {
            if let Some(error) = unusable_accounts(&holder, accounts, &this.vault) {
                let holder = accounts::in_words(&holder);
                tracing::error!(holder, %error, "nobody can log in: CHAP accounts cannot be read");
            }
        }
        // Targets before portals: an initiator that comes back at once must not be told that its target is gone.
        this.serve_targets(&this.configuration)?;
        if let Some(server) = &this.server {
            server.set_portals(&this.wanted_portals(&this.configuration))?;
        }
        Ok(this)
    }

    /// Stops serving; false if commands had not ended after half a minute. Blocks.
    pub fn stop(&mut self) -> bool {
        self.server.take().is_none_or(Server::stop)
    }

    /// Present configuration.
    pub fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// Path of the configuration file.
    pub fn configuration_path(&self) -> &std::path::Path {
        self.file.path()
    }

    /// Sessions of initiators.
    pub fn sessions(&self) -> Vec<SessionInformation> {
        self.server
            .as_ref()
            .map(Server::sessions)
            .unwrap_or_default()
    }

    /// Since when it runs.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// A configured logical unit as it runs.
    pub fn running_lun(&self, target: &str, number: u16) -> Option<&RunningLun> {
        self.running.get(target)?.luns.get(&number)
    }

    /// The SCSI device of a configured target.
    pub fn device(&self, target: &str) -> Option<&Arc<ReactorDevice>> {
        self.running.get(target).map(|running| &running.device)
    }

    /// A configured target.
    ///
    /// # Errors
    /// [`ServiceError::NoTarget`].
    pub fn target(&self, name: &str) -> Result<&Target, ServiceError> {
        let mut targets = self.configuration.targets.iter();
        targets
            .find(|target| target.name == name)
            .ok_or_else(|| ServiceError::NoTarget(name.to_owned()))
    }

    /// A configured logical unit.
    ///
    /// # Errors
    /// [`ServiceError::NoTarget`], [`ServiceError::NoLun`].
    pub fn lun(&self, target: &str, number: u16) -> Result<&Lun, ServiceError> {
        let mut luns = self.target(target)?.luns.iter();
        luns.find(|lun| lun.number == number)
            .ok_or_else(|| ServiceError::NoLun {
                target: target.to_owned(),
                number,
            })
    }

    /// Makes the last change stable if it is not yet. Until this succeeds no change should be answered as made.
    ///
    /// # Errors
    /// [`ServiceError::NotStored`] with [`FileError::NotSettled`].
    pub fn settle(&mut self) -> Result<(), ServiceError> {
        Ok(self.file.settle()?)
    }

    /// Takes a configuration whose targets or accounts differ, not their logical units.
    fn change_targets(&mut self, candidate: Configuration) -> Result<(), ServiceError> {
        candidate.validate()?;
        // First, as the server has checks of its own.
        let served = self.serve_targets(&candidate);
        let stored = served.and_then(|()| self.store(candidate));
        if stored.is_err() {
            self.serve_targets(&self.configuration)?;
        }
        stored
    }

    fn serve_targets(&self, configuration: &Configuration) -> Result<(), ServiceError> {
        let Some(server) = &self.server else {
            return Ok(());
        };
        let groups = self.served_groups(configuration);
        let mut definitions = Vec::new();
        for target in &configuration.targets {
            if let Some(Running { device, .. }) = self.running.get(&target.name) {
                device.device().set_name(&*target.name);
                let ports = scsi_ports(&target.name, &groups);
                device.device().set_target_ports(ports);
                let device = Arc::clone(device);
                definitions.push(definition(target, &groups, device, &self.vault)?);
            }
        }
        let discovery = authentication(&Holder::Discovery, &configuration.discovery, &self.vault)?;
        server.set_discovery_authentication(discovery)?;
        server.set_targets(definitions)?;
        Ok(())
    }

    /// The portal groups with a portal; every target has a port in each. Without any portal, one nobody reaches.
    fn served_groups(&self, configuration: &Configuration) -> Vec<PortalGroup> {
        let portals = self.wanted_portals(configuration);
        let groups = configuration.portal_groups.iter().copied();
        let mut served: Vec<_> = groups
            .filter(|group| portals.iter().any(|portal| portal.group_tag == group.tag))
            .collect();
        if served.is_empty() {
            let known = configuration.portal_groups.first().copied();
            served.push(known.unwrap_or(PortalGroup::FIRST));
        }
        served
    }

    /// A configuration that is in its file is the present one, also where its file is not yet stable: nobody can take it
    /// back. [`Service::settle`] is then what fails.
    fn store(&mut self, candidate: Configuration) -> Result<(), ServiceError> {
        match self.file.store(&candidate) {
            Ok(()) => {}
            Err(error @ FileError::NotSettled { .. }) => tracing::error!(%error, "configuration"),
            Err(error) => return Err(error.into()),
        }
        self.configuration = candidate;
        Ok(())
    }
}

/// Opens all logical units, side by side.
async fn bring_up(
    configuration: &Configuration,
    engine: EngineChoice,
) -> Result<BTreeMap<String, Running>, ServiceError> {
    let release = Instant::now() + RELEASE_TIMEOUT;
    let mut opening = Vec::new();
    for target in &configuration.targets {
        for lun in &target.luns {
            let opened = {
                let lun = lun.clone();
                tokio::task::spawn_local(async move { open_apart(&lun, release).await })
            };
            opening.push((target, lun, opened));
        }
    }
    let mut all = BTreeMap::new();
    for target in &configuration.targets {
        all.insert(target.name.clone(), Running::empty(engine)?);
    }
    // Those that wait for a release look once more when the time is over.
    let until = tokio::time::Instant::from_std(release + Duration::from_secs(1));
    for (target, lun, opened) in opening {
        let opened = match tokio::time::timeout_at(until, opened).await {
            Ok(Ok(opened)) => opened,
            Ok(Err(error)) => Err(Unusable::Description(error.to_string())),
            Err(_) => Err(Unusable::Slow {
                path: lun.path.display().to_string(),
                seconds: RELEASE_TIMEOUT.as_secs(),
            }),
        };
        if let Err(reason) = &opened {
            tracing::error!(target = target.name, number = lun.number, %reason, "LUN is not ready");
        }
        if let Some(running) = all.get_mut(&target.name) {
            running.insert(lun, opened)?;
        }
    }
    Ok(all)
}

fn target_of<'a>(
    configuration: &'a mut Configuration,
    name: &str,
) -> Result<&'a mut Target, ServiceError> {
    let mut targets = configuration.targets.iter_mut();
    targets
        .find(|target| target.name == name)
        .ok_or_else(|| ServiceError::NoTarget(name.to_owned()))
}

fn lun_of<'a>(
    configuration: &'a mut Configuration,
    target: &str,
    number: u16,
) -> Result<&'a mut Lun, ServiceError> {
    let mut luns = target_of(configuration, target)?.luns.iter_mut();
    luns.find(|lun| lun.number == number)
        .ok_or_else(|| ServiceError::NoLun {
            target: target.to_owned(),
            number,
        })
}

/// A service shared by what runs on its thread.
pub type Shared = Rc<RefCell<Service>>;
