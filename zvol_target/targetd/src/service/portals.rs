// SPDX-License-Identifier: Apache-2.0
//! Portals and portal groups.

use std::net::SocketAddr;

use iscsi::Server;

use super::{Service, ServiceError};
use crate::configuration::{Configuration, Portal};

impl Service {
    /// Open portals, with the ports that the system chose.
    pub fn portals(&self) -> Vec<iscsi::Portal> {
        self.server
            .as_ref()
            .map(Server::portals)
            .unwrap_or_default()
    }

    /// Whether the command line has the portals, so that they cannot be changed.
    pub fn portals_are_given(&self) -> bool {
        !self.listen.is_empty()
    }

    /// The portals to open for a configuration.
    pub(super) fn desired_portals(&self, configuration: &Configuration) -> Vec<iscsi::Portal> {
        if self.portals_are_given() {
            return self.listen.clone();
        }
        let portals = configuration.portals().into_iter();
        portals.map(iscsi::Portal::from).collect()
    }

    /// Configured portals that cannot be opened, with the reason.
    pub fn missing_portals(&self) -> &[(iscsi::Portal, String)] {
        &self.missing
    }

    /// Opens the configured portals, as far as possible.
    pub(super) fn open_portals(&mut self) {
        let Some(server) = &self.server else {
            return;
        };
        let desired = self.desired_portals(&self.configuration);
        let failed = server.open_portals(&desired);
        for (_, error) in &failed {
            tracing::error!(%error, "portal");
        }
        let failed = failed.into_iter();
        self.missing = failed.map(|(p, error)| (p, error.to_string())).collect();
    }

    /// Tries again to open missing portals: an interface can have its address by now.
    pub fn retry_portals(&mut self) {
        let Some(server) = &self.server else {
            return;
        };
        if self.missing.is_empty() {
            return;
        }
        let missing: Vec<_> = self.missing.iter().map(|(portal, _)| *portal).collect();
        let failed = server.open_portals(&missing);
        for portal in &missing {
            if failed.iter().all(|(still, _)| still != portal) {
                tracing::info!(address = %portal.address, "portal is open");
            }
        }
        let failed = failed.into_iter();
        self.missing = failed.map(|(p, error)| (p, error.to_string())).collect();
    }

    /// Opens one more portal. Returns false if it exists.
    ///
    /// # Errors
    /// [`ServiceError::PortalsGiven`], [`ServiceError::PortalDiffers`], [`ServiceError::Invalid`], [`ServiceError::Server`],
    /// [`ServiceError::NotStored`].
    pub fn create_portal(&mut self, portal: Portal) -> Result<bool, ServiceError> {
        let mut portals = self.changeable_portals()?;
        if let Some(present) = find(&portals, portal.address) {
            return if portals[present] == portal {
                Ok(false)
            } else {
                Err(ServiceError::PortalDiffers(portal.address))
            };
        }
        portals.push(portal);
        self.change_portals(portals).map(|()| true)
    }

    /// Replaces the portal at `address`. Its connections continue as long as its portal group has a portal.
    ///
    /// # Errors
    /// The errors of [`Service::create_portal`], and [`ServiceError::NoPortal`].
    pub fn change_portal(
        &mut self,
        address: SocketAddr,
        portal: Portal,
    ) -> Result<(), ServiceError> {
        let mut portals = self.changeable_portals()?;
        let present = find(&portals, address).ok_or(ServiceError::NoPortal(address))?;
        portals[present] = portal;
        self.change_portals(portals)
    }

    /// Closes a portal. Its connections continue as long as its portal group has a portal.
    ///
    /// # Errors
    /// [`ServiceError::PortalsGiven`], [`ServiceError::NoPortal`], [`ServiceError::NotStored`].
    pub fn delete_portal(&mut self, address: SocketAddr) -> Result<(), ServiceError> {
        let mut portals = self.changeable_portals()?;
        let present = find(&portals, address).ok_or(ServiceError::NoPortal(address))?;
        portals.remove(present);
        self.change_portals(portals)
    }

    fn changeable_portals(&self) -> Result<Vec<Portal>, ServiceError> {
        if self.portals_are_given() {
            return Err(ServiceError::PortalsGiven);
        }
        Ok(self.configuration.portals())
    }

    fn change_portals(&mut self, portals: Vec<Portal>) -> Result<(), ServiceError> {
        let mut candidate = self.configuration.clone();
        candidate.know_groups(portals.iter().map(|portal| portal.group_tag));
        candidate.portals = Some(portals);
        candidate.validate()?;
        let changed = self
            .listen_as(&candidate)
            .and_then(|()| self.change_targets(candidate));
        if changed.is_err() {
            if self.listen_as(&self.configuration).is_err() {
                // A portal that was closed cannot be opened again. It is missing now, and tried again later.
                self.open_portals();
                let _ = self.listen_as(&self.configuration); // closes those of `candidate`
            }
        } else {
            let desired = self.desired_portals(&self.configuration);
            self.missing.retain(|(portal, _)| desired.contains(portal));
        }
        changed
    }

    /// Opens the portals of `configuration`, except those that were missing before: other portals can still be changed.
    fn listen_as(&self, configuration: &Configuration) -> Result<(), ServiceError> {
        if let Some(server) = &self.server {
            let mut portals = self.desired_portals(configuration);
            portals.retain(|portal| self.missing.iter().all(|(missing, _)| missing != portal));
            server.set_portals(&portals)?;
        }
        Ok(())
    }
}

fn find(portals: &[Portal], address: SocketAddr) -> Option<usize> {
    portals.iter().position(|portal| portal.address == address)
}
