// SPDX-License-Identifier: Apache-2.0
//! Portals and portal groups.

use std::net::SocketAddr;

use iscsi::Server;

use super::{Service, ServiceError};
use crate::configuration::{Configuration, Portal, PortalGroup};

impl Service {
    /// Portals listened at, with the ports the system chose.
    pub fn portals(&self) -> Vec<iscsi::Portal> {
        self.server
            .as_ref()
            .map(Server::portals)
            .unwrap_or_default()
    }

    /// Whether the portals are the command line's, so that they cannot be changed.
    pub fn portals_are_given(&self) -> bool {
        !self.listen.is_empty()
    }

    /// What is listened at with a configuration.
    pub(super) fn desired_portals(&self, configuration: &Configuration) -> Vec<iscsi::Portal> {
        if self.portals_are_given() {
            return self.listen.clone();
        }
        let portals = configuration.portals().into_iter();
        portals.map(iscsi::Portal::from).collect()
    }

    /// Configured portals that cannot be listened at, and why.
    pub fn missing_portals(&self) -> &[(iscsi::Portal, String)] {
        &self.missing
    }

    /// Listens at what is configured, as far as it can be had.
    ///
    /// # Errors
    /// [`ServiceError::Server`] when nothing of it can be.
    pub(super) fn open_portals(&mut self) -> Result<(), ServiceError> {
        let Some(server) = &self.server else {
            return Ok(());
        };
        let desired = self.desired_portals(&self.configuration);
        let failed = server.open_portals(&desired);
        for (_, error) in &failed {
            tracing::error!(%error, "portal");
        }
        let none = failed.len() == desired.len();
        let shown = failed.iter();
        self.missing = shown.map(|(p, error)| (*p, error.to_string())).collect();
        match failed.into_iter().next() {
            Some((_, error)) if none => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Tries again to listen where it could not be done: an interface may have got its address.
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
                tracing::info!(address = %portal.address, "portal is listened at");
            }
        }
        let failed = failed.into_iter();
        self.missing = failed.map(|(p, error)| (p, error.to_string())).collect();
    }

    /// Listens at one more portal; false when it was there.
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

    /// Puts `portal` in the place of the one at `address`. Connections that came in there stay, as long as their portal group
    /// has a portal.
    ///
    /// # Errors
    /// As [`Service::create_portal`], and [`ServiceError::NoPortal`].
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

    /// Listens at one portal less. Connections that came in there stay, as long as their portal group has a portal.
    ///
    /// # Errors
    /// [`ServiceError::PortalsGiven`], [`ServiceError::NoPortal`], [`ServiceError::NotStored`].
    pub fn delete_portal(&mut self, address: SocketAddr) -> Result<(), ServiceError> {
        let mut portals = self.changeable_portals()?;
        let present = find(&portals, address).ok_or(ServiceError::NoPortal(address))?;
        portals.remove(present);
        self.change_portals(portals)
    }

    /// Sets what the ports of a portal group are known by. Sessions that came in by the group end when its relative target
    /// port identifier is another than before: to their hosts it is another port.
    ///
    /// # Errors
    /// [`ServiceError::NoGroup`], [`ServiceError::Invalid`], [`ServiceError::NotStored`].
    pub fn set_portal_group(&mut self, group: PortalGroup) -> Result<(), ServiceError> {
        let mut candidate = self.configuration.clone();
        let mut groups = candidate.portal_groups.iter_mut();
        let present = groups.find(|present| present.tag == group.tag);
        *present.ok_or(ServiceError::NoGroup(group.tag))? = group;
        self.change_targets(candidate)
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
            self.listen_as(&self.configuration)?;
        } else {
            let desired = self.desired_portals(&self.configuration);
            self.missing.retain(|(portal, _)| desired.contains(portal));
        }
        changed
    }

    /// Listens at the portals of `configuration`, but for those that were missing before: others can be changed meanwhile.
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
