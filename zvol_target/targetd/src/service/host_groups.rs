// SPDX-License-Identifier: Apache-2.0
//! Groups of hosts with disabled offloads.

use super::{Service, ServiceError};
use crate::configuration::HostGroup;

impl Service {
    /// Sets a group of hosts by its name. Affected hosts get a unit attention.
    ///
    /// # Errors
    /// [`ServiceError::Invalid`], [`ServiceError::NotStored`].
    pub fn set_host_group(&mut self, group: HostGroup) -> Result<(), ServiceError> {
        let mut candidate = self.configuration.clone();
        let groups = &mut candidate.host_groups;
        groups.retain(|present| present.name != group.name);
        groups.push(group);
        groups.sort_by(|a, b| a.name.cmp(&b.name));
        self.change_targets(candidate)
    }

    /// Deletes a group: its hosts then have the offloads of hosts without group.
    ///
    /// # Errors
    /// [`ServiceError::NoHostGroup`], [`ServiceError::NotStored`].
    pub fn delete_host_group(&mut self, name: &str) -> Result<(), ServiceError> {
        let mut candidate = self.configuration.clone();
        let groups = &mut candidate.host_groups;
        let before = groups.len();
        groups.retain(|group| group.name != name);
        if groups.len() == before {
            return Err(ServiceError::NoHostGroup(name.to_owned()));
        }
        self.change_targets(candidate)
    }
}
