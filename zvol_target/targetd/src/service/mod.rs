// SPDX-License-Identifier: Apache-2.0
//! Keeps configuration and running state equal: each change is checked, made and stored before its answer.
//!
//! The whole service is on one thread. Functions that wait (for the open of a path, for the last commands of a unit) take the
//! service in its `RefCell`, and borrow it only between their waits. Callers must make one change at a time.

mod accounts;
mod definition;
mod error;
mod host_groups;
mod identity;
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
pub use luns::{CLOSING_TIMEOUT, change_lun, create_lun, refresh_lun};
pub use maintenance::{poll_sizes, retry_failed};
pub use reservations::{clear_reservations, forget_reservations};
pub use running::{Closing, LunState, RunningLun, Unusable};

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use iscsi::{Portal, Server, SessionRecord, TargetDefinition, UnknownInitiator};
use scsi::OffloadPolicy;
use tokio::sync::Notify;
use volume::engine::EngineChoice;

use crate::configuration::{
    Configuration, ConfigurationFile, FileError, Lun, PortalGroup, Target, Vault, offload_policy,
};
use crate::reactor_device::ReactorDevice;
use crate::reservations::Beginning;
use crate::space::SpaceReport;
use definition::{definition, scsi_ports, unusable_accounts};
use running::{Running, open_apart};

/// How long a start waits for paths that another process still has open, before it listens. The kernel closes the files of a
/// killed daemon's `io_uring` some time after the process has ended. Without the wait, hosts would find their LUNs not
/// ready. A start does not wait for a path that is slow to open.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(10);

/// Parameters of a service.
pub struct Parts {
    /// The configuration file, locked.
    pub file: ConfigurationFile,
    /// Its content.
    pub configuration: Configuration,
    /// Seals and unseals the secrets.
    pub vault: Vault,
    /// The iSCSI server, without portals.
    pub server: Server,
    /// The command line's portals; if empty, the configured ones are used.
    pub listen: Vec<Portal>,
    /// I/O engine of the server's threads.
    pub engine: EngineChoice,
}

/// State of the daemon.
pub struct Service {
    file: ConfigurationFile,
    configuration: Configuration,
    vault: Vault,
    running: BTreeMap<String, Running>,
    server: Option<Server>,
    engine: EngineChoice,
    listen: Vec<Portal>,
    /// Configured portals that cannot be opened, with the reason.
    missing: Vec<(Portal, String)>,
    started: Instant,
    /// Results of the last space checks.
    pub space: SpaceReport,
    /// Notified when a unit begins to serve, so that its space is checked at once.
    pub units_changed: Rc<Notify>,
}

impl Service {
    /// Starts everything in the configuration. A logical unit that cannot be opened is logged, and is not ready. A portal that
    /// cannot be opened is logged, and tried again ([`Service::retry_portals`]).
    ///
    /// # Errors
    /// [`ServiceError::Refused`] if the iSCSI server refuses the targets, [`ServiceError::NotStored`] if identifiers of portal
    /// groups cannot be stored.
    pub async fn start(parts: Parts) -> Result<Self, ServiceError> {
        let mut this = Self {
            file: parts.file,
            configuration: parts.configuration,
            vault: parts.vault,
            running: BTreeMap::new(),
            server: Some(parts.server),
            engine: parts.engine,
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
        this.running = bring_up(&this.configuration, this.engine).await?;
        for target in &this.configuration.targets {
            if let Some(error) = unusable_accounts(target, &this.vault) {
                tracing::error!(target = target.name, %error, "CHAP accounts cannot be used: nobody can log in");
            }
        }
        // Targets before portals: a host that logs in at once must not get "target removed".
        this.serve_targets(&this.configuration)?;
        this.open_portals();
        Ok(this)
    }

    /// Stops serving, and begins to close all volumes. Returns also whether all commands have ended. Blocks, at most 10 s.
    ///
    /// Commands that hang keep the process alive. What it has not closed by then is in use for the next one.
    pub fn stop(&mut self) -> (bool, Closing) {
        let ended = self.server.take().is_none_or(Server::stop);
        let mut units = Vec::new();
        for running in std::mem::take(&mut self.running).into_values() {
            // Threads of the server with commands that hang still have the device.
            for (number, lun) in running.luns {
                let _ = running.device.device().remove_logical_unit(number);
                units.push(lun.unit);
            }
        }
        (ended, Closing::of(units))
    }

    /// The present configuration.
    pub fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// Path of the configuration file.
    pub fn configuration_path(&self) -> &std::path::Path {
        self.file.path()
    }

    /// All sessions of initiators.
    pub fn sessions(&self) -> Vec<Arc<SessionRecord>> {
        self.server
            .as_ref()
            .map(Server::sessions)
            .unwrap_or_default()
    }

    /// Recent initiators that no target permits.
    pub fn unknown_initiators(&self) -> Vec<UnknownInitiator> {
        self.server
            .as_ref()
            .map(Server::unknown_initiators)
            .unwrap_or_default()
    }

    /// Time of the start.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// The running state of a logical unit.
    pub fn running_lun(&self, target: &str, number: u16) -> Option<&RunningLun> {
        self.running.get(target)?.luns.get(&number)
    }

    /// The SCSI device of a target.
    pub fn device(&self, target: &str) -> Option<&Arc<ReactorDevice>> {
        self.running.get(target).map(|running| &running.device)
    }

    /// The configuration of a target.
    ///
    /// # Errors
    /// [`ServiceError::NoTarget`].
    pub fn target(&self, name: &str) -> Result<&Target, ServiceError> {
        let mut targets = self.configuration.targets.iter();
        targets
            .find(|target| target.name == name)
            .ok_or_else(|| ServiceError::NoTarget(name.to_owned()))
    }

    /// The configuration of a logical unit.
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

    /// Makes the last change stable if it is not yet. Do not report a change as successful before this succeeds.
    ///
    /// # Errors
    /// [`ServiceError::NotStored`] with [`FileError::NotStable`].
    pub fn sync(&mut self) -> Result<(), ServiceError> {
        Ok(self.file.sync()?)
    }

    /// Applies a configuration whose targets or accounts differ, but not their logical units.
    fn change_targets(&mut self, candidate: Configuration) -> Result<(), ServiceError> {
        candidate.validate()?;
        // First all checks, then the file, then the running state: a refused change ends no session.
        let prepared = self.prepare(&candidate)?;
        self.store(candidate)?;
        self.serve(prepared)
    }

    fn serve_targets(&self, configuration: &Configuration) -> Result<(), ServiceError> {
        self.serve(self.prepare(configuration)?)
    }

    /// The definitions for the iSCSI server; it will accept them.
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
        let (devices, definitions): (Vec<_>, Vec<_>) = targets.into_iter().unzip();
        iscsi::check_targets(&definitions)?;
        Ok(Prepared {
            offloads: offload_policy(&configuration.host_groups),
            groups,
            devices,
            definitions,
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
        server.set_targets(prepared.definitions)?;
        Ok(())
    }

    /// The portal groups that have a portal; every target has a port in each. Without any portal, a group that nobody reaches.
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

    /// A configuration that was written is the present one, even if the file is not stable yet. Then [`Service::sync`] fails.
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

/// Targets for the iSCSI server, and their devices in the same order.
struct Prepared {
    offloads: OffloadPolicy,
    groups: Vec<PortalGroup>,
    devices: Vec<Arc<ReactorDevice>>,
    definitions: Vec<TargetDefinition>,
}

/// Opens all logical units in parallel.
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
                tokio::task::spawn_local(async move {
                    open_apart(&lun, release, Beginning::Present).await
                })
            };
            opening.push((target, lun, opened));
        }
    }
    let mut all = BTreeMap::new();
    for target in &configuration.targets {
        all.insert(target.name.clone(), Running::empty(engine)?);
    }
    // Units that wait for another process check once more at the end.
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

/// A service that the tasks of its thread share.
pub type Shared = Rc<RefCell<Service>>;
