//! What is configured and what runs, kept the same: every change is checked, made, and stored before it is answered.

mod definition;
mod error;
mod running;

pub use error::ServiceError;
pub use running::{Closing, LunState, Unusable};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use iscsi::{Portal, Server, SessionInformation, TargetDefinition, TargetPort};
use volume::engine::EngineChoice;

use crate::configuration::{Account, Configuration, ConfigurationFile, Lun, Target};
use definition::{definition, port};
use running::{Running, open};

/// How long a start waits, before it listens, for paths that another process still has. The kernel gives up the files of a killed
/// daemon's `io_uring` requests some time after that process is gone, and a host that meanwhile finds its LUN missing takes it
/// for lost.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(10);

/// The daemon's state.
pub struct Service {
    file: ConfigurationFile,
    configuration: Configuration,
    running: BTreeMap<String, Running>,
    server: Option<Server>,
    engine: EngineChoice,
    ports: Vec<TargetPort>,
    started: Instant,
}

impl Service {
    /// Brings up what `configuration` says on `server`, whose portals will be `portals`. A logical unit that cannot be opened
    /// is logged and kept as failed. `engine` is what the server's threads use.
    ///
    /// # Errors
    /// [`ServiceError::Refused`] when the iSCSI server does not take the targets, [`ServiceError::Server`] when a portal
    /// cannot be listened at.
    pub fn start(
        file: ConfigurationFile,
        configuration: Configuration,
        server: Server,
        portals: &[Portal],
        engine: EngineChoice,
    ) -> Result<Self, ServiceError> {
        let tags: BTreeSet<_> = portals.iter().map(|portal| portal.group_tag).collect();
        let mut running = BTreeMap::new();
        let until = Instant::now() + RELEASE_TIMEOUT;
        for target in &configuration.targets {
            let mut one = Running::empty(engine)?;
            for lun in &target.luns {
                one.bring_up(&target.name, lun, until);
            }
            running.insert(target.name.clone(), one);
        }
        let this = Self {
            file,
            configuration,
            running,
            server: Some(server),
            engine,
            ports: tags.into_iter().map(port).collect(),
            started: Instant::now(),
        };
        // Targets before portals: an initiator that comes back at once must not be told that its target is gone.
        this.serve_targets(&this.configuration)?;
        if let Some(server) = &this.server {
            server.set_portals(portals)?;
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

    /// Portals listened at, with the ports the system chose.
    pub fn portals(&self) -> Vec<Portal> {
        self.server
            .as_ref()
            .map(Server::portals)
            .unwrap_or_default()
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

    /// State of a configured logical unit.
    pub fn lun_state(&self, target: &str, number: u16) -> Option<&LunState> {
        self.running.get(target)?.luns.get(&number)
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

    /// Makes a target without logical units; false when it was there.
    ///
    /// # Errors
    /// [`ServiceError::TargetDiffers`], [`ServiceError::Invalid`], [`ServiceError::NotStored`].
    pub fn create_target(
        &mut self,
        name: &str,
        alias: Option<String>,
    ) -> Result<bool, ServiceError> {
        if let Ok(target) = self.target(name) {
            return if target.alias == alias {
                Ok(false)
            } else {
                Err(ServiceError::TargetDiffers(name.to_owned()))
            };
        }
        let mut candidate = self.configuration.clone();
        candidate.targets.push(Target {
            alias,
            ..Target::named(name.to_owned())
        });
        self.running
            .insert(name.to_owned(), Running::empty(self.engine)?);
        let changed = self.change_targets(candidate);
        if changed.is_err() {
            self.running.remove(name);
        }
        changed.map(|()| true)
    }

    /// Ends a target's sessions and removes it with its logical units; what it served may still be closing.
    ///
    /// # Errors
    /// [`ServiceError::NoTarget`], [`ServiceError::NotStored`].
    pub fn delete_target(&mut self, name: &str) -> Result<Closing, ServiceError> {
        self.target(name)?;
        let mut candidate = self.configuration.clone();
        candidate.targets.retain(|target| target.name != name);
        self.change_targets(candidate)?;
        let removed = self.running.remove(name);
        let states = removed
            .into_iter()
            .flat_map(|removed| removed.luns.into_values());
        Ok(Closing(states.filter_map(LunState::into_closing).collect()))
    }

    /// Adds a logical unit; false when it was there, with the same content.
    ///
    /// # Errors
    /// [`ServiceError::NoTarget`], [`ServiceError::LunDiffers`], [`ServiceError::Invalid`], [`ServiceError::Unusable`],
    /// [`ServiceError::NotStored`].
    pub fn create_lun(&mut self, target: &str, lun: &Lun) -> Result<bool, ServiceError> {
        let number = lun.number;
        if let Ok(present) = self.lun(target, number) {
            if present != lun {
                return Err(ServiceError::LunDiffers {
                    target: target.to_owned(),
                    number,
                });
            }
            self.retry_lun(target, number);
            return Ok(false);
        }
        let mut candidate = self.configuration.clone();
        let luns = &mut target_of(&mut candidate, target)?.luns;
        luns.push(lun.clone());
        luns.sort_unstable_by_key(|lun| lun.number);
        candidate.validate()?;
        let state = open(lun)?;
        self.store(candidate)?;
        if let Some(running) = self.running.get_mut(target) {
            running.insert(number, state);
        }
        Ok(true)
    }

    /// Removes a logical unit; commands it has may still run.
    ///
    /// # Errors
    /// [`ServiceError::NoTarget`], [`ServiceError::NoLun`], [`ServiceError::NotStored`].
    pub fn delete_lun(&mut self, target: &str, number: u16) -> Result<Closing, ServiceError> {
        self.lun(target, number)?;
        let mut candidate = self.configuration.clone();
        let luns = &mut target_of(&mut candidate, target)?.luns;
        luns.retain(|lun| lun.number != number);
        self.store(candidate)?;
        let removed = self.running.get_mut(target).and_then(|running| {
            // Not there when it failed.
            let _ = running.device.device().remove_logical_unit(number);
            running.luns.remove(&number)
        });
        Ok(Closing(
            removed
                .into_iter()
                .filter_map(LunState::into_closing)
                .collect(),
        ))
    }

    /// Looks at a logical unit's path again: a failed one is tried again, a new size is taken and hosts are told.
    ///
    /// # Errors
    /// [`ServiceError::NoTarget`], [`ServiceError::NoLun`]; [`ServiceError::Size`] when its size cannot be read, and the one
    /// known before stays.
    pub fn refresh_lun(&mut self, target: &str, number: u16) -> Result<(), ServiceError> {
        self.lun(target, number)?;
        self.retry_lun(target, number);
        let Some(running) = self.running.get(target) else {
            return Ok(());
        };
        if let Some(LunState::Serving { unit, .. }) = running.luns.get(&number) {
            match unit.volume().refresh() {
                Ok(_) => {
                    let _ = running.device.device().capacity_changed(number);
                }
                Err(error) => {
                    let target = target.to_owned();
                    return Err(ServiceError::Size {
                        target,
                        number,
                        error,
                    });
                }
            }
        }
        Ok(())
    }

    /// Tries again whatever failed.
    pub fn retry_failed(&mut self) {
        let failed: Vec<_> = self
            .running
            .iter()
            .flat_map(|(target, running)| {
                let luns = running.luns.iter();
                luns.filter(|(_, state)| matches!(state, LunState::Failed { .. }))
                    .map(|(&number, _)| (target.clone(), number))
            })
            .collect();
        for (target, number) in failed {
            self.retry_lun(&target, number);
        }
    }

    fn retry_lun(&mut self, target: &str, number: u16) {
        let Ok(lun) = self.lun(target, number).cloned() else {
            return;
        };
        let Some(running) = self.running.get_mut(target) else {
            return;
        };
        if let Some(LunState::Serving { .. }) = running.luns.get(&number) {
            return;
        }
        match open(&lun) {
            Ok(state) => {
                tracing::info!(target, number, path = %lun.path.display(), "LUN is served again");
                running.insert(number, state);
            }
            Err(reason) => {
                running.luns.insert(number, LunState::Failed { reason });
            }
        }
    }

    /// Sets the CHAP account `account.name` of a target, or with `mutual` the account the target proves itself with.
    ///
    /// # Errors
    /// [`ServiceError::NoTarget`], [`ServiceError::Invalid`], [`ServiceError::Refused`], [`ServiceError::NotStored`].
    pub fn set_account(
        &mut self,
        target: &str,
        account: Account,
        mutual: bool,
    ) -> Result<(), ServiceError> {
        self.change_target(target, |target| {
            if mutual {
                target.mutual_account = Some(account);
                return true;
            }
            let accounts = &mut target.accounts;
            match accounts.iter_mut().find(|other| other.name == account.name) {
                Some(present) => *present = account,
                None => accounts.push(account),
            }
            true
        })
        .map(|_| ())
    }

    /// Removes an account.
    ///
    /// # Errors
    /// [`ServiceError::NoTarget`], [`ServiceError::NoAccount`], [`ServiceError::NotStored`].
    pub fn delete_account(
        &mut self,
        target: &str,
        name: &str,
        mutual: bool,
    ) -> Result<(), ServiceError> {
        let found = self.change_target(target, |target| {
            if mutual {
                let removed = target
                    .mutual_account
                    .take_if(|account| account.name == name);
                return removed.is_some();
            }
            let before = target.accounts.len();
            target.accounts.retain(|account| account.name != name);
            target.accounts.len() < before
        })?;
        if found {
            Ok(())
        } else {
            Err(ServiceError::NoAccount {
                target: target.to_owned(),
                name: name.to_owned(),
            })
        }
    }

    /// Sets which initiators may log in; an empty list admits all. Sessions of others end.
    ///
    /// # Errors
    /// [`ServiceError::NoTarget`], [`ServiceError::Invalid`], [`ServiceError::NotStored`].
    pub fn set_initiators(
        &mut self,
        target: &str,
        initiators: Vec<String>,
    ) -> Result<(), ServiceError> {
        self.change_target(target, |target| {
            target.initiators = initiators;
            true
        })
        .map(|_| ())
    }

    /// Applies `change` to a target; what it returns says whether there is something to store.
    fn change_target(
        &mut self,
        target: &str,
        change: impl FnOnce(&mut Target) -> bool,
    ) -> Result<bool, ServiceError> {
        let mut candidate = self.configuration.clone();
        let changed = change(target_of(&mut candidate, target)?);
        if changed {
            self.change_targets(candidate)?;
        }
        Ok(changed)
    }

    /// Takes a configuration whose targets differ, not their logical units.
    fn change_targets(&mut self, candidate: Configuration) -> Result<(), ServiceError> {
        candidate.validate()?;
        // First, as the server has checks of its own.
        self.serve_targets(&candidate)?;
        let stored = self.store(candidate);
        if stored.is_err() {
            self.serve_targets(&self.configuration)?;
        }
        stored
    }

    fn serve_targets(&self, configuration: &Configuration) -> Result<(), ServiceError> {
        let definitions = self.definitions(configuration)?;
        if let Some(server) = &self.server {
            server.set_targets(definitions)?;
        }
        Ok(())
    }

    fn store(&mut self, candidate: Configuration) -> Result<(), ServiceError> {
        self.file.store(&candidate)?;
        self.configuration = candidate;
        Ok(())
    }

    fn definitions(
        &self,
        configuration: &Configuration,
    ) -> Result<Vec<TargetDefinition>, ServiceError> {
        let mut definitions = Vec::new();
        for target in &configuration.targets {
            if let Some(running) = self.running.get(&target.name) {
                definitions.push(definition(
                    target,
                    self.ports.clone(),
                    Arc::clone(&running.device),
                )?);
            }
        }
        Ok(definitions)
    }
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
