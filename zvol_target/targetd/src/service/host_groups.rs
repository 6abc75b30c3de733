// SPDX-License-Identifier: Apache-2.0
//! What offloads hosts are offered.

use super::{Service, ServiceError};
use crate::configuration::HostGroup;

impl Service {
    /// Sets a group of hosts by its name. Affected hosts get a unit attention with their next command.
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

    /// Removes a group: its hosts are offered what hosts in no group are.
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
