// SPDX-License-Identifier: Apache-2.0
//! Targets, and access to targets and logical units.

use super::definition::unit_access;
use super::running::Running;
use super::{Closing, Service, ServiceError, lun_of, target_of};
use crate::configuration::{Access, Accounts, Target};

impl Service {
    /// Creates a target without logical units. Returns false if it exists. `initiators` of `None`: no initiator for a new target,
    /// no change for an existing one.
    ///
    /// # Errors
    /// [`ServiceError::TargetDiffers`], [`ServiceError::Invalid`], [`ServiceError::NotStored`].
    pub fn create_target(
        &mut self,
        name: &str,
        initiators: Option<Access>,
    ) -> Result<bool, ServiceError> {
        if let Ok(target) = self.target(name) {
            return if initiators.is_some_and(|initiators| target.initiators != initiators) {
                Err(ServiceError::TargetDiffers(name.to_owned()))
            } else {
                Ok(false)
            };
        }
        let mut candidate = self.configuration.clone();
        candidate.targets.push(Target {
            name: name.to_owned(),
            initiators: initiators.unwrap_or_else(Access::nobody),
            authentication: Accounts::default(),
            luns: Vec::new(),
        });
        self.running
            .insert(name.to_owned(), Running::empty(self.engine)?);
        let changed = self.change_targets(candidate);
        if changed.is_err() {
            self.running.remove(name);
        }
        changed.map(|()| true)
    }

    /// Ends a target's sessions, and deletes it with its logical units. Its volumes may still be closing afterwards.
    ///
    /// # Errors
    /// [`ServiceError::NoTarget`], [`ServiceError::NotStored`].
    pub fn delete_target(&mut self, name: &str) -> Result<Closing, ServiceError> {
        self.target(name)?;
        let mut candidate = self.configuration.clone();
        candidate.targets.retain(|target| target.name != name);
        self.change_targets(candidate)?;
        let removed = self.running.remove(name).into_iter();
        let luns = removed.flat_map(|removed| removed.luns.into_values());
        Ok(Closing::of(luns.map(|lun| lun.unit)))
    }

    /// Sets which initiators may log in. Sessions of other initiators end.
    ///
    /// # Errors
    /// [`ServiceError::NoTarget`], [`ServiceError::NotStored`].
    pub fn set_target_access(&mut self, target: &str, access: Access) -> Result<(), ServiceError> {
        let mut candidate = self.configuration.clone();
        target_of(&mut candidate, target)?.initiators = access;
        self.change_targets(candidate)
    }

    /// Sets which of the target's initiators may use a logical unit. Sessions continue; for other initiators' commands, the
    /// logical unit no longer exists.
    ///
    /// # Errors
    /// [`ServiceError::NoTarget`], [`ServiceError::NoLun`], [`ServiceError::NotStored`].
    pub fn set_lun_access(
        &mut self,
        target: &str,
        number: u16,
        access: Access,
    ) -> Result<(), ServiceError> {
        let mut candidate = self.configuration.clone();
        let unit_access = unit_access(&access);
        lun_of(&mut candidate, target, number)?.initiators = access;
        self.store(candidate)?;
        if let Some(running) = self.running.get(target) {
            let set = running.device.device().set_access(number, unit_access);
            set.map_err(super::Unusable::from)?;
        }
        Ok(())
    }
}
