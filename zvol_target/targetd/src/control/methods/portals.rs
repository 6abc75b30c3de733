// SPDX-License-Identifier: Apache-2.0
//! `portals.*`

use std::net::SocketAddr;

use serde::Deserialize;
use serde_json::{Value, json};

use super::RpcError;
use crate::configuration::Portal;
use crate::service::Service;

pub(super) fn list(service: &Service) -> Value {
    let failed = service.missing_portals().iter().map(|(portal, reason)| {
        let mut shown = show(portal);
        shown["reason"] = json!(reason);
        shown
    });
    let failed: Vec<_> = failed.collect();
    json!({
        "portals": show_all(service),
        "failed": failed,
        "fixed": service.portals_are_given(),
        "groups": service.configuration().portal_groups,
    })
}

pub(super) fn show_all(service: &Service) -> Vec<Value> {
    let portals = service.portals();
    portals.iter().map(show).collect()
}

fn show(portal: &iscsi::Portal) -> Value {
    let mut shown = json!({"address": portal.address, "group_tag": portal.group_tag});
    if let Some(advertised) = portal.advertised {
        shown["advertised"] = json!(advertised);
    }
    shown
}

pub(super) fn create(service: &mut Service, portal: Portal) -> Result<Value, RpcError> {
    Ok(json!({"created": service.create_portal(portal)?}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Change {
    address: SocketAddr,
    portal: Portal,
}

pub(super) fn change(service: &mut Service, params: &Change) -> Result<Value, RpcError> {
    service.change_portal(params.address, params.portal)?;
    Ok(json!({}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Delete {
    address: SocketAddr,
}

pub(super) fn delete(service: &mut Service, params: &Delete) -> Result<Value, RpcError> {
    service.delete_portal(params.address)?;
    Ok(json!({}))
}
