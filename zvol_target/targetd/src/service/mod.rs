// SPDX-License-Identifier: Apache-2.0
//! What is configured and what runs, kept the same: every change is checked, made, and stored before it is answered.
//!
//! All of it is on one thread. What waits (opening a path, the last commands of a unit) is in functions that take the
//! service in its `RefCell` and borrow it between their waits only; their callers see to it that one change is made at a time.

mod accounts;
mod definition;
mod error;
mod host_groups;
mod identity;
mod lun_change;
mod luns;
mod maintenance;
mod place;
mod pools;
mod portals;
mod reservations;
mod running;
mod targets;

pub use accounts::AccountSetting;
pub use error::ServiceError;
pub use identity::IdentityError;
pub use lun_change::{LunChange, ReservationPlace, Setting};
pub use luns::{CLOSING_TIMEOUT, change_lun, create_lun, refresh_lun};
pub use maintenance::{poll_sizes, retry_failed};
pub use reservations::{clear_reservations, forget_reservations};
pub use running::{Closing, LunState, RunningLun, Unusable};

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use iscsi::{
    Authentication, Portal, Server, SessionInformation, TargetDefinition, UnknownInitiator,
};
use scsi::{CopyManager, OffloadPolicy};
use tokio::sync::Notify;
use volume::engine::EngineChoice;

use crate::configuration::{
    Configuration, ConfigurationFile, FileError, Holder, Lun, PortalGroup, Target, Vault,
    offload_policy,
};
use crate::reactor_device::ReactorDevice;
use crate::reservations::Beginning;
use crate::space::SpaceReport;
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
    copy_manager: Arc<CopyManager>,
    listen: Vec<Portal>,
    /// Configured portals that cannot be listened at, and why.
    missing: Vec<(Portal, String)>,
    started: Instant,
    /// What was found of space.
    pub space: SpaceReport,
    /// Notified when a unit begins to serve, so that the space check begins at once.
    pub units_changed: Rc<Notify>,
}

impl Service {
    /// Brings up what is configured. A logical unit that cannot be opened is logged, and not ready for hosts; a portal that
    /// cannot be listened at is logged, and tried again ([`Service::retry_portals`]).
    ///
    /// # Errors
    /// [`ServiceError::Refused`] when the iSCSI server does not take the targets, [`ServiceError::Server`] when no portal
    /// can be listened at, [`ServiceError::NotStored`] when portal groups could not be given identifiers.
    pub async fn start(parts: Parts) -> Result<Self, ServiceError> {
        let mut this = Self {
            file: parts.file,
            configuration: parts.configuration,
            vault: parts.vault,
            running: BTreeMap::new(),
            server: Some(parts.server),
            engine: parts.engine,
            copy_manager: Arc::default(),
            listen: parts.listen,
            missing: Vec::new(),
            started: Instant::now(),
            space: SpaceReport::default(),
            units_changed: Rc::default(),
        };
        let mut candidate = this.configuration.clone();
        candidate.know_groups(this.desired_portals(&candidate).iter().map(|p| p.group_tag));
        if candidate != this.configuration {
            this.store(candidate)?;
        }
        this.running = bring_up(&this.configuration, this.engine, &this.copy_manager).await?;
        for (holder, accounts) in this.configuration.holders() {
            if let Some(error) = unusable_accounts(&holder, accounts, &this.vault) {
                let holder = accounts::in_words(&holder);
                tracing::error!(holder, %error, "nobody can log in: CHAP accounts cannot be used");
            }
        }
        // Targets before portals: an initiator that comes back at once must not get "target removed".
        this.serve_targets(&this.configuration)?;
        this.open_portals()?;
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

    /// Initiators that came and that no target admits.
    pub fn unknown_initiators(&self) -> Vec<UnknownInitiator> {
        self.server
            .as_ref()
            .map(Server::unknown_initiators)
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
    /// [`ServiceError::NotStored`] with [`FileError::NotStable`].
    pub fn sync(&mut self) -> Result<(), ServiceError> {
        Ok(self.file.sync()?)
    }

    /// Takes a configuration whose targets or accounts differ, not their logical units.
    fn change_targets(&mut self, candidate: Configuration) -> Result<(), ServiceError> {
        candidate.validate()?;
        // All checks before the file, and the file before any host notices: what is refused ends no session.
        let prepared = self.prepare(&candidate)?;
        self.store(candidate)?;
        self.serve(prepared)
    }

    fn serve_targets(&self, configuration: &Configuration) -> Result<(), ServiceError> {
        self.serve(self.prepare(configuration)?)
    }

    /// The definitions for the iSCSI server, which it will accept.
    fn prepare(&self, configuration: &Configuration) -> Result<Prepared, ServiceError> {
        let groups = self.served_groups(configuration);
        let mut targets = Vec::new();
        for target in &configuration.targets {
            if let Some(Running { device, .. }) = self.running.get(&target.name) {
                let device = Arc::clone(device);
                let definition = definition(target, &groups, Arc::clone(&device), &self.vault)?;
                targets.push((device, definition));
            }
        }
        let discovery = authentication(&Holder::Discovery, &configuration.discovery, &self.vault)?;
        iscsi::check_authentication(&discovery)?;
        let (devices, definitions): (Vec<_>, Vec<_>) = targets.into_iter().unzip();
        iscsi::check_targets(&definitions)?;
        Ok(Prepared {
            offloads: offload_policy(&configuration.host_groups),
            groups,
            devices,
            definitions,
            discovery,
        })
    }

    fn serve(&self, prepared: Prepared) -> Result<(), ServiceError> {
        let Some(server) = &self.server else {
            return Ok(());
        };
        for (device, definition) in prepared.devices.iter().zip(&prepared.definitions) {
            let name = definition.name.as_str();
            device.device().set_name(name);
            let ports = scsi_ports(name, &prepared.groups);
            device.device().set_target_ports(ports);
            device
                .device()
                .set_offload_policy(prepared.offloads.clone());
        }
        server.set_discovery_authentication(prepared.discovery)?;
        server.set_targets(prepared.definitions)?;
        Ok(())
    }

    /// The portal groups with a portal; every target has a port in each. Without any portal, one nobody reaches.
    fn served_groups(&self, configuration: &Configuration) -> Vec<PortalGroup> {
        let portals = self.desired_portals(configuration);
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
    /// back. [`Service::sync`] is then what fails.
    fn store(&mut self, candidate: Configuration) -> Result<(), ServiceError> {
        match self.file.store(&candidate) {
            Ok(()) => {}
            Err(error @ FileError::NotStable { .. }) => tracing::error!(%error, "configuration"),
            Err(error) => return Err(error.into()),
        }
        self.configuration = candidate;
        Ok(())
    }
}

/// Targets as the iSCSI server takes them, with their devices in the same order.
struct Prepared {
    offloads: OffloadPolicy,
    groups: Vec<PortalGroup>,
    devices: Vec<Arc<ReactorDevice>>,
    definitions: Vec<TargetDefinition>,
    discovery: Authentication,
}

/// Opens all logical units, side by side.
async fn bring_up(
    configuration: &Configuration,
    engine: EngineChoice,
    copy_manager: &Arc<CopyManager>,
) -> Result<BTreeMap<String, Running>, ServiceError> {
    let release = Instant::now() + RELEASE_TIMEOUT;
    let mut opening = Vec::new();
    for target in &configuration.targets {
        for lun in &target.luns {
            let opened = {
                let lun = lun.clone();
                tokio::task::spawn_local(async move {
                    open_apart(&lun, release, Beginning::Present).await
                })
            };
            opening.push((target, lun, opened));
        }
    }
    let mut all = BTreeMap::new();
    for target in &configuration.targets {
        all.insert(target.name.clone(), Running::empty(engine, copy_manager)?);
    }
    // Those that wait for a release check once more when the time is over.
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
